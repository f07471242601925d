/// Small gzip streams (RFC 1952) that stand for much.
public enum GzipBomb {
    /// So many zeros, 159 times smaller.
    public static func zeros(_ count: Int) -> [UInt8] { compress([UInt8](repeating: 0, count: count)) }

    /// Zeros in a stream in a stream.
    public static func nested(_ count: Int) -> [UInt8] { compress(zeros(count)) }

    /// Codes repetitions at a distance of 1 and 13 bytes, the latter for what zeros have become. The checksum is left
    /// out: who has come to it has taken the whole.
    private static func compress(_ bytes: [UInt8]) -> [UInt8] {
        // The last block, with the fixed codes (RFC 1951, section 3.2.6).
        var bits = BitWriter()
        bits.write(0b011, 3)
        bytes.withUnsafeBufferPointer { bytes in
            var position = 0
            while position < bytes.count {
                let distance = [1, 13].first { repeats(bytes, at: position, distance: $0) }
                if let distance {
                    // A length of 258, and distance 1, or 13 as the first of the four from 13 on.
                    bits.writeCode(0b1100_0101, 8)
                    bits.writeCode(distance == 1 ? 0 : 7, 5)
                    if distance == 13 { bits.write(0, 2) }
                    position += 258
                } else {
                    let byte = Int(bytes[position])
                    if byte < 144 { bits.writeCode(0x30 + byte, 8) } else { bits.writeCode(0x190 + byte - 144, 9) }
                    position += 1
                }
            }
        }
        bits.writeCode(0, 7)
        return [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255] + bits.bytes + [UInt8](repeating: 0, count: 8)
    }

    private static func repeats(_ bytes: UnsafeBufferPointer<UInt8>, at position: Int, distance: Int) -> Bool {
        guard position >= distance, position + 258 <= bytes.count else { return false }
        return (position..<(position + 258)).allSatisfy { bytes[$0] == bytes[$0 - distance] }
    }

    private struct BitWriter {
        private(set) var bytes: [UInt8] = []
        private var used = 8

        /// Least significant bit first, as numbers go.
        mutating func write(_ value: Int, _ count: Int) {
            for bit in 0..<count { append(value >> bit & 1) }
        }

        /// Most significant bit first, as codes go.
        mutating func writeCode(_ code: Int, _ count: Int) {
            for bit in (0..<count).reversed() { append(code >> bit & 1) }
        }

        private mutating func append(_ bit: Int) {
            if used == 8 {
                bytes.append(0)
                used = 0
            }
            bytes[bytes.count - 1] |= UInt8(bit) << used
            used += 1
        }
    }
}
