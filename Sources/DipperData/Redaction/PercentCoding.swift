/// A lenient decoder of percent-encoded bytes (RFC 3986, section 2.1): bytes that are no escape stay as they are.
enum PercentCoding {
    /// Returns the bytes with one level of encoding undone; `nil` if there is none.
    static func decoded(_ bytes: [UInt8]) -> [UInt8]? {
        guard bytes.contains(UInt8(ascii: "%")) else { return nil }
        var result: [UInt8] = []
        result.reserveCapacity(bytes.count)
        var index = 0
        while index < bytes.count {
            if bytes[index] == UInt8(ascii: "%"), index + 2 < bytes.count, let high = digit(bytes[index + 1]),
                let low = digit(bytes[index + 2])
            {
                result.append(high << 4 | low)
                index += 3
            } else {
                result.append(bytes[index])
                index += 1
            }
        }
        return result.count == bytes.count ? nil : result
    }

    /// The most levels of encoding that are undone. No real name has more.
    static let mostLevels = 4

    /// Returns the bytes with all levels of encoding undone; `nil` if there are more than ``mostLevels``. The limit
    /// bounds the cost: each level takes a pass over the bytes, and `%252525…` has one level for every two bytes.
    static func fullyDecoded(_ bytes: [UInt8]) -> [UInt8]? {
        var bytes = bytes
        for _ in 0..<mostLevels {
            guard let next = decoded(bytes) else { return bytes }
            bytes = next
        }
        return decoded(bytes) == nil ? bytes : nil
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 0x30...0x39: byte - 0x30
        case 0x41...0x46: byte - 0x37
        case 0x61...0x66: byte - 0x57
        default: nil
        }
    }
}
