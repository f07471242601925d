/// What a host of a URL stands for, as far as it can be told without asking anyone.
enum HostTarget: Hashable, Sendable {
    /// One of these, over the link named by the zone if there is one.
    case addresses([IPAddress], zone: String? = nil)
    /// A name that somebody must be asked for.
    case name

    /// - Parameters:
    ///   - host: a name, or an address; of IPv6 with or without brackets, and with a zone (RFC 6874) or without.
    ///   - hosts: names that are known without asking.
    init(_ host: String, hosts: HostsFile = HostsFile()) {
        let bare = host.hasPrefix("[") && host.hasSuffix("]") ? String(host.dropFirst().dropLast()) : host
        let parts = bare.split(separator: "%", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        if let address = parts.first.flatMap({ IPAddress(host: $0) }) {
            self = .addresses([address.unmapped], zone: parts.count > 1 ? Self.zone(parts[1]) : nil)
            return
        }
        let name = HostsFile.canonical(bare)
        if name == "localhost" || name.hasSuffix(".localhost") {
            // RFC 6761, 6.3, whatever a file says.
            self = .addresses(Self.loopback)
        } else if let known = hosts.addresses[name] {
            self = .addresses(known)
        } else {
            self = .name
        }
    }

    private static let loopback = [IPAddress("127.0.0.1"), IPAddress("::1")].compactMap { $0 }

    /// The percent sign before a zone is itself written percent-encoded in URLs.
    private static func zone(_ text: String) -> String {
        text.hasPrefix("25") && text.count > 2 ? String(text.dropFirst(2)) : text
    }
}
