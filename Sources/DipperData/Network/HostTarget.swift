import Foundation
import Synchronization

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

/// The names of a file like `/etc/hosts`; see `hosts(5)`.
struct HostsFile: Sendable, Equatable {
    /// The addresses by name; names are in lower case, without a dot at the end.
    private(set) var addresses: [String: [IPAddress]] = [:]

    init() {}

    init(_ text: String) {
        for line in text.split(whereSeparator: \.isNewline) {
            let words = line.prefix { $0 != "#" }.split(whereSeparator: \.isWhitespace)
            guard let first = words.first, let address = IPAddress(Self.withoutZone(first)) else { continue }
            for name in words.dropFirst() {
                addresses[Self.canonical(String(name)), default: []].append(address.unmapped)
            }
        }
    }

    static func canonical(_ name: String) -> String {
        (name.hasSuffix(".") ? String(name.dropLast()) : name).lowercased()
    }

    private static func withoutZone(_ word: Substring) -> String {
        String(word.prefix { $0 != "%" })
    }
}

/// A reader of a hosts file, which reads the file again when it has changed.
final class HostsReader: Sendable {
    private struct Stamp: Equatable {
        var seconds: Int
        var nanoseconds: Int
        var size: Int64
        var number: UInt64
    }

    private struct State {
        var stamp: Stamp?
        var hosts = HostsFile()
    }

    private let path: String
    private let state = Mutex(State())

    init(path: String) {
        self.path = path
    }

    /// The contents of the file now; empty if there is no file.
    var hosts: HostsFile {
        let stamp = stamp()
        if let known = state.withLock({ $0.stamp == stamp ? $0.hosts : nil }) { return known }
        let text = (try? Data(contentsOf: URL(fileURLWithPath: path))).map { String(decoding: $0, as: UTF8.self) }
        let hosts = HostsFile(text ?? "")
        let old = state.withLock { exchange(&$0, with: State(stamp: stamp, hosts: hosts)) }
        _ = consume old
        return hosts
    }

    private func stamp() -> Stamp? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        return Stamp(
            seconds: status.st_mtim.tv_sec, nanoseconds: status.st_mtim.tv_nsec, size: Int64(status.st_size),
            number: UInt64(status.st_ino))
    }
}
