import Foundation

/// An IPv4 or IPv6 address as a number.
public struct IPAddress: Hashable, Sendable, CustomStringConvertible {
    enum Family: Hashable, Sendable {
        case v4, v6

        var width: Int { self == .v4 ? 32 : 128 }
    }

    let family: Family
    private let number: UInt128

    private init(_ family: Family, _ number: UInt128) {
        self.family = family
        self.number = number
    }

    /// - Parameter bytes: 4 or 16 bytes in network order.
    init?(_ bytes: some Collection<UInt8>) {
        guard bytes.count == 4 || bytes.count == 16 else { return nil }
        self.init(bytes.count == 4 ? .v4 : .v6, bytes.reduce(0) { $0 << 8 | UInt128($1) })
    }

    /// Creates an address from text such as `192.0.2.1`, `2001:db8::1` or `fe80::1%eth0`; the zone is ignored.
    public init?(_ text: String) {
        var v4 = in_addr()
        var v6 = in6_addr()
        if inet_pton(AF_INET, text, &v4) == 1 {
            self.init(withUnsafeBytes(of: &v4) { Array($0) })
        } else if inet_pton(AF_INET6, String(text.prefix { $0 != "%" }), &v6) == 1 {
            self.init(withUnsafeBytes(of: &v6) { Array($0) })
        } else {
            return nil
        }
    }

    /// `nil` for a name. An IPv4 address may have any form that `inet_aton` reads, as in libcurl.
    init?(host: String) {
        var v4 = in_addr()
        if let address = IPAddress(host) {
            self = address
        } else if inet_aton(host, &v4) != 0 {
            self.init(.v4, UInt128(UInt32(bigEndian: v4.s_addr)))
        } else {
            return nil
        }
    }

    /// The IPv4 address of `::ffff:a.b.c.d` (RFC 4291, 2.5.5.2); any other address unchanged.
    var unmapped: IPAddress {
        family == .v6 && number >> 32 == 0xFFFF ? IPAddress(.v4, number & 0xFFFF_FFFF) : self
    }

    var bytes: [UInt8] {
        stride(from: family.width - 8, through: 0, by: -8).map { UInt8(truncatingIfNeeded: number >> $0) }
    }

    var isUnspecified: Bool { number == 0 }
    /// Whether the address is in 127.0.0.0/8 or ::1, also as an IPv4-mapped IPv6 address.
    public var isLoopback: Bool {
        let plain = unmapped
        return plain.family == .v4 ? plain.number >> 24 == 127 : plain.number == 1
    }
    /// 169.254.0.0/16 (RFC 3927) or fe80::/10 (RFC 4291, 2.5.6).
    var isLinkLocal: Bool { family == .v4 ? number >> 16 == 0xA9FE : number >> 118 == 0xFE80 >> 6 }

    func hasPrefix(of other: IPAddress, length: Int) -> Bool {
        family == other.family && (number ^ other.number) >> (family.width - length) == 0
    }

    /// The address in the form of `inet_ntop`.
    public var description: String {
        var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        _ = inet_ntop(family == .v4 ? AF_INET : AF_INET6, bytes, &text, socklen_t(text.count))
        return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// `nil` for another family. An IPv4-mapped IPv6 address becomes an IPv4 address.
    init?(_ address: UnsafePointer<sockaddr>) {
        let isV4 = Int32(address.pointee.sa_family) == AF_INET
        guard isV4 || Int32(address.pointee.sa_family) == AF_INET6 else { return nil }
        // The places of sin_addr and sin6_addr.
        let bytes = UnsafeRawBufferPointer(start: UnsafeRawPointer(address) + (isV4 ? 4 : 8), count: isV4 ? 4 : 16)
        guard let found = IPAddress(bytes) else { return nil }
        self = found.unmapped
    }

    /// Whether the address is open to everyone: not loopback, private, link-local, shared, multicast, documentation or
    /// otherwise reserved (RFC 6890 and IANA's special-purpose registries).
    public var isPublic: Bool {
        if let inner = isatap, !inner.isPublic { return false }
        if let embedded { return embedded.isPublic }
        // All other IPv6 addresses are unassigned or reserved (RFC 4291, section 2.4).
        if family == .v6, number >> 125 != 0b001 { return false }
        return !Self.special.contains { hasPrefix(of: $0.address, length: $0.length) }
    }

    /// The IPv4 address to which an IPv6 address leads: mapped (`::ffff:0:0/96`), compatible (`::/96`), by 6to4
    /// (`2002::/16`), or by a translator (`64:ff9b::/96`, RFC 6052).
    private var embedded: IPAddress? {
        guard family == .v6 else { return nil }
        if number >> 112 == 0x2002 { return IPAddress(.v4, number >> 80 & 0xFFFF_FFFF) }
        let beginning = number >> 32
        let isCompatible = beginning == 0 && number > 1
        let isEmbedded = isCompatible || beginning == 0xFFFF || beginning == 0x64_FF9B << 64
        return isEmbedded ? IPAddress(.v4, number & 0xFFFF_FFFF) : nil
    }

    /// The IPv4 address at the end of an ISATAP address (RFC 5214, section 6.1), whose prefix may be any.
    private var isatap: IPAddress? {
        // The bits for "universal" and "group" may be set.
        let isISATAP = family == .v6 && number >> 32 & 0xFCFF_FFFF == 0x5EFE
        return isISATAP ? IPAddress(.v4, number & 0xFFFF_FFFF) : nil
    }

    private static let special: [(address: IPAddress, length: Int)] = [
        ("0.0.0.0", 8), ("10.0.0.0", 8), ("100.64.0.0", 10), ("127.0.0.0", 8), ("169.254.0.0", 16),
        ("172.16.0.0", 12), ("192.0.0.0", 24), ("192.0.2.0", 24), ("192.88.99.0", 24), ("192.168.0.0", 16),
        ("198.18.0.0", 15), ("198.51.100.0", 24), ("203.0.113.0", 24), ("224.0.0.0", 4), ("240.0.0.0", 4),
        ("2001::", 23), ("2001:db8::", 32), ("3fff::", 20),
    ].compactMap { text, length in IPAddress(text).map { ($0, length) } }
}

extension StringProtocol {
    /// The text without the brackets that an IPv6 address has in a URL.
    var withoutBrackets: String { hasPrefix("[") && hasSuffix("]") ? String(dropFirst().dropLast()) : String(self) }
}

/// A rule that says which addresses may be connected to.
///
/// The transport applies it before each connection, so also after a redirect and when a name gets another address. With
/// a proxy it sees only the proxy's address: the proxy must refuse the addresses behind it.
public struct AddressPolicy: Sendable {
    let allows: @Sendable (IPAddress) -> Bool
    var isAny = false

    /// A policy that allows every address.
    public static let any = AddressPolicy(allows: { _ in true }, isAny: true)

    /// A policy that allows only addresses that are open to everyone: no loopback, private or link-local ones.
    ///
    /// For programs that fetch URLs from strangers, who might otherwise reach the network behind the firewall.
    public static let publicOnly = AddressPolicy { $0.isPublic }

    /// Returns a policy with the caller's rule.
    ///
    /// ```swift
    /// configuration.network.addressPolicy = .custom { $0.isPublic || $0 == IPAddress("10.0.0.7") }
    /// ```
    /// - Parameter allows: returns whether an address may be connected to. Called on a thread of the transport, so it
    ///   must not block.
    public static func custom(_ allows: @escaping @Sendable (IPAddress) -> Bool) -> AddressPolicy {
        AddressPolicy(allows: allows)
    }
}
