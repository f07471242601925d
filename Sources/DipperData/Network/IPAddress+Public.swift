/// The distinction between public and special addresses.
extension IPAddress {
    /// Whether the address is open to everyone: not loopback, private, link-local, shared, multicast, documentation or
    /// otherwise reserved (RFC 6890 and IANA's special-purpose registries).
    public var isPublic: Bool {
        if let embedded { return embedded.isPublic }
        // All other IPv6 addresses are unassigned or reserved (RFC 4291, section 2.4).
        if family == .v6, high >> 61 != 0b001 { return false }
        return !Self.special.contains { $0.contains(self) }
    }

    /// The IPv4 address to which an IPv6 address leads: mapped (`::ffff:0:0/96`), compatible (`::/96`), by 6to4
    /// (`2002::/16`), or by a translator (`64:ff9b::/96`, RFC 6052).
    private var embedded: IPAddress? {
        guard family == .v6 else { return nil }
        if high >> 48 == 0x2002 { return IPAddress(v4: UInt32(truncatingIfNeeded: high >> 16)) }
        let isMapped = high == 0 && low >> 32 == 0xFFFF
        let isCompatible = high == 0 && low >> 32 == 0 && low > 1
        let isTranslated = high == 0x64_FF9B << 32 && low >> 32 == 0
        return isMapped || isCompatible || isTranslated ? IPAddress(v4: UInt32(truncatingIfNeeded: low)) : nil
    }

    private init?(v4 number: UInt32) {
        self.init((0..<4).map { UInt8(truncatingIfNeeded: number >> (24 - $0 * 8)) })
    }

    private static let special: [IPPrefix] = [
        ("0.0.0.0", 8), ("10.0.0.0", 8), ("100.64.0.0", 10), ("127.0.0.0", 8), ("169.254.0.0", 16),
        ("172.16.0.0", 12), ("192.0.0.0", 24), ("192.0.2.0", 24), ("192.88.99.0", 24), ("192.168.0.0", 16),
        ("198.18.0.0", 15), ("198.51.100.0", 24), ("203.0.113.0", 24), ("224.0.0.0", 4), ("240.0.0.0", 4),
        ("2001::", 23), ("2001:db8::", 32), ("3fff::", 20),
    ].compactMap { text, length in IPAddress(text).map { IPPrefix($0, length: length) } }
}
