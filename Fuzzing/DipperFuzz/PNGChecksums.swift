import Foundation

enum PNGChecksums {
    /// The file with the right checksum for each chunk that is complete.
    static func repaired(_ data: Data) -> Data {
        var bytes = [UInt8](data)
        var offset = 8
        while offset + 12 <= bytes.count {
            let end = offset + 8 + bytes[offset..<offset + 4].reduce(0) { $0 << 8 | Int($1) }
            guard end + 4 <= bytes.count else { break }
            var sum = UInt32.max
            for byte in bytes[offset + 4..<end] {
                let index = UInt8(truncatingIfNeeded: sum) ^ byte
                sum = table[Int(index)] ^ (sum >> 8)
            }
            for place in 0..<4 { bytes[end + place] = UInt8(truncatingIfNeeded: ~sum >> UInt32(24 - 8 * place)) }
            offset = end + 4
        }
        return Data(bytes)
    }

    /// W3C PNG, third edition, annex D.
    private static let table: [UInt32] = (0..<256).map { number in
        var sum = UInt32(number)
        for _ in 0..<8 { sum = sum & 1 == 0 ? sum >> 1 : 0xEDB8_8320 ^ (sum >> 1) }
        return sum
    }
}
