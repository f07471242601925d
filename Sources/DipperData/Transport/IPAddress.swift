import CCurl
import Foundation

/// An IPv4 or IPv6 address.
public struct IPAddress: Sendable, Hashable, CustomStringConvertible {
    /// Four bytes, or sixteen.
    public let bytes: [UInt8]

    /// - Parameter bytes: in network order; `nil` unless there are four or sixteen.
    public init?(bytes: [UInt8]) {
        guard bytes.count == 4 || bytes.count == 16 else { return nil }
        self.bytes = bytes
    }

    /// An address in text, such as `192.0.2.1`, `2001:db8::1` or `fe80::1%eth0`.
    public init?(_ text: String) {
        let plain = String(text.prefix { $0 != "%" })
        var bytes = [UInt8](repeating: 0, count: 16)
        if inet_pton(AF_INET6, plain, &bytes) == 1 {
            self.bytes = bytes
        } else if inet_pton(AF_INET, plain, &bytes) == 1 {
            self.bytes = Array(bytes.prefix(4))
        } else {
            return nil
        }
    }

    init?(_ address: UnsafePointer<sockaddr>) {
        switch Int32(address.pointee.sa_family) {
        case AF_INET:
            bytes = address.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
                withUnsafeBytes(of: $0.pointee.sin_addr) { Array($0) }
            }
        case AF_INET6:
            bytes = address.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) {
                withUnsafeBytes(of: $0.pointee.sin6_addr) { Array($0) }
            }
        default:
            return nil
        }
    }

    /// The IPv4 address that an IPv6 one stands for: mapped (`::ffff:0:0/96`), compatible (`::/96`), 6to4
    /// (`2002::/16`), or behind a translator (`64:ff9b::/96`, RFC 6052).
    var embedded: IPAddress? {
        guard bytes.count == 16 else { return nil }
        if bytes[0..<2] == [0x20, 0x02] { return IPAddress(bytes: Array(bytes[2..<6])) }
        let isMapped = bytes[0..<10].allSatisfy { $0 == 0 } && bytes[10] == 0xFF && bytes[11] == 0xFF
        let isCompatible = bytes[0..<12].allSatisfy { $0 == 0 } && bytes[12..<15].contains { $0 != 0 }
        let isTranslated = bytes[0..<4] == [0x00, 0x64, 0xFF, 0x9B] && bytes[4..<12].allSatisfy { $0 == 0 }
        return isMapped || isCompatible || isTranslated ? IPAddress(bytes: Array(bytes[12...])) : nil
    }

    /// 127.0.0.0/8 and ::1.
    public var isLoopback: Bool {
        if let embedded { return embedded.isLoopback }
        return bytes.count == 4 ? bytes[0] == 127 : bytes[0..<15].allSatisfy { $0 == 0 } && bytes[15] == 1
    }

    /// True for an address that is open to everyone: not loopback, private, link-local, shared, multicast,
    /// documentation or otherwise set aside (RFC 6890 and IANA's special-purpose registries).
    public var isPublic: Bool {
        if let embedded { return embedded.isPublic }
        return !(bytes.count == 4 ? Self.special4 : Self.special6).contains { $0.contains(self) }
    }

    public var description: String {
        var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        _ = inet_ntop(bytes.count == 4 ? AF_INET : AF_INET6, bytes, &text, socklen_t(text.count))
        return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    private struct Block {
        let start: IPAddress
        let bits: Int

        func contains(_ address: IPAddress) -> Bool {
            let whole = bits / 8
            guard address.bytes.prefix(whole) == start.bytes.prefix(whole) else { return false }
            let rest = bits % 8
            return rest == 0 || (address.bytes[whole] ^ start.bytes[whole]) >> (8 - rest) == 0
        }
    }

    private static func blocks(_ texts: [(String, Int)]) -> [Block] {
        texts.compactMap { text, bits in IPAddress(text).map { Block(start: $0, bits: bits) } }
    }

    private static let special4 = blocks([
        ("0.0.0.0", 8), ("10.0.0.0", 8), ("100.64.0.0", 10), ("127.0.0.0", 8), ("169.254.0.0", 16),
        ("172.16.0.0", 12), ("192.0.0.0", 24), ("192.0.2.0", 24), ("192.88.99.0", 24), ("192.168.0.0", 16),
        ("198.18.0.0", 15), ("198.51.100.0", 24), ("203.0.113.0", 24), ("224.0.0.0", 4), ("240.0.0.0", 4),
    ])

    private static let special6 = blocks([
        ("::", 127), ("64:ff9b:1::", 48), ("100::", 64), ("2001::", 23), ("2001:db8::", 32), ("3fff::", 20),
        ("5f00::", 16), ("fc00::", 7), ("fe80::", 10), ("fec0::", 10), ("ff00::", 8),
    ])
}
