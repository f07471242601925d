/// The meaning of a URL's host, as far as it is known without asking a name server.
enum HostTarget: Hashable, Sendable {
    /// One of these addresses, over the link that the zone names, if there is a zone.
    case addresses([IPAddress], zone: String? = nil)
    /// A name that must be looked up.
    case name

    /// Creates the target for a host.
    /// - Parameters:
    ///   - host: a name or an address. An IPv6 address may have brackets and a zone (RFC 6874).
    ///   - hosts: the names that are known without a look-up.
    init(_ host: String, hosts: HostsFile = HostsFile()) {
        let bare = host.hasPrefix("[") && host.hasSuffix("]") ? String(host.dropFirst().dropLast()) : host
        let parts = bare.split(separator: "%", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        if let address = parts.first.flatMap({ IPAddress(host: $0) }) {
            self = .addresses([address.unmapped], zone: parts.count > 1 ? Self.zone(parts[1]) : nil)
            return
        }
        let name = HostsFile.canonical(bare)
        if name == "localhost" || name.hasSuffix(".localhost") {
            // Localhost names are loopback, regardless of the hosts file (RFC 6761, 6.3).
            self = .addresses(Self.loopback)
        } else if let known = hosts.addresses[name] {
            self = .addresses(known)
        } else {
            self = .name
        }
    }

    private static let loopback = [IPAddress("127.0.0.1"), IPAddress("::1")].compactMap { $0 }

    /// Returns the zone without the `25` of a percent-encoded percent sign, which URLs put before it.
    private static func zone(_ text: String) -> String {
        text.hasPrefix("25") && text.count > 2 ? String(text.dropFirst(2)) : text
    }
}
