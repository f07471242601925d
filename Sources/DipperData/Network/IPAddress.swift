import Foundation

/// An IPv4 or IPv6 address as a number.
public struct IPAddress: Hashable, Sendable {
    enum Family: Hashable, Sendable {
        case v4, v6

        /// The number of bits of an address.
        var width: Int { self == .v4 ? 32 : 128 }
    }

    let family: Family
    /// The first 64 bits. An IPv4 address fills the upper 32 of them, so that prefixes of both families are compared in
    /// the same way.
    let high: UInt64
    /// The last 64 bits.
    let low: UInt64

    private init(_ family: Family, high: UInt64, low: UInt64 = 0) {
        self.family = family
        self.high = high
        self.low = low
    }

    /// Creates an address from its bytes; `nil` for any other number of bytes.
    /// - Parameter bytes: 4 or 16 bytes in network order.
    init?(_ bytes: some Collection<UInt8>) {
        func number(_ bytes: some Sequence<UInt8>) -> UInt64 { bytes.reduce(0) { $0 << 8 | UInt64($1) } }
        switch bytes.count {
        case 4: self.init(.v4, high: number(bytes) << 32)
        case 16: self.init(.v6, high: number(bytes.prefix(8)), low: number(bytes.dropFirst(8)))
        default: return nil
        }
    }

    /// Creates an address from text such as `192.0.2.1`, `2001:db8::1` or `fe80::1%eth0`; the zone is ignored.
    ///
    /// ```swift
    /// if let address = IPAddress("2001:db8::1") { print(address, address.isPublic) }
    /// ```
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

    /// Creates an address from the host of a URL; `nil` if the host is a name. An IPv4 address may have any form that
    /// `inet_aton` reads, as in libcurl.
    init?(host: String) {
        var v4 = in_addr()
        guard
            let address = IPAddress(host)
                ?? (inet_aton(host, &v4) == 0 ? nil : IPAddress(withUnsafeBytes(of: &v4) { Array($0) }))
        else { return nil }
        self = address
    }

    /// Returns the address of a family whose bits are all zero.
    static func zero(_ family: Family) -> IPAddress { IPAddress(family, high: 0) }

    /// The IPv4 address for an address of the form `::ffff:a.b.c.d` (RFC 4291, 2.5.5.2); any other address unchanged.
    var unmapped: IPAddress {
        guard family == .v6, high == 0, low >> 32 == 0xFFFF else { return self }
        return IPAddress(.v4, high: low << 32)
    }

    var isUnspecified: Bool { high == 0 && low == 0 }
    /// Whether the address is a loopback address: 127.0.0.0/8 or ::1, also as an IPv4-mapped IPv6 address.
    public var isLoopback: Bool {
        let plain = unmapped
        return plain.family == .v4 ? plain.high >> 56 == 127 : plain.high == 0 && plain.low == 1
    }
    /// Whether the address is link-local: 169.254.0.0/16 (RFC 3927) or fe80::/10 (RFC 4291, 2.5.6).
    var isLinkLocal: Bool { family == .v4 ? high >> 48 == 0xA9FE : high >> 54 == 0xFE80 >> 6 }
    /// Whether the address is a multicast address: 224.0.0.0/4 or ff00::/8.
    var isMulticast: Bool { family == .v4 ? high >> 60 == 0xE : high >> 56 == 0xFF }
}

extension IPAddress: CustomStringConvertible {
    /// The address as text, in the form of `inet_ntop`.
    public var description: String {
        let bytes = (0..<16).map { UInt8(truncatingIfNeeded: ($0 < 8 ? high : low) >> (56 - UInt64($0 % 8) * 8)) }
        var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        _ = inet_ntop(family == .v4 ? AF_INET : AF_INET6, bytes, &text, socklen_t(text.count))
        return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}

extension IPAddress {
    /// Creates an address from a socket address; `nil` for another family. An IPv4-mapped IPv6 address becomes an IPv4
    /// address.
    init?(_ address: UnsafePointer<sockaddr>) {
        guard let found = Self.read(address) else { return nil }
        self = found.unmapped
    }

    private static func read(_ address: UnsafePointer<sockaddr>) -> IPAddress? {
        switch Int32(address.pointee.sa_family) {
        case AF_INET:
            IPAddress(
                address.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
                    withUnsafeBytes(of: $0.pointee.sin_addr) { Array($0) }
                })
        case AF_INET6:
            IPAddress(
                address.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) {
                    withUnsafeBytes(of: $0.pointee.sin6_addr) { Array($0) }
                })
        default:
            nil
        }
    }
}
