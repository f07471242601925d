import Crypto
import Foundation

/// File names made from keys.
enum KeyDigest {
    @Sendable static func sha256(_ key: CacheKey) -> String { hex(SHA256.self, key) }
    @Sendable static func sha1(_ key: CacheKey) -> String { hex(Insecure.SHA1.self, key) }
    @Sendable static func md5(_ key: CacheKey) -> String { hex(Insecure.MD5.self, key) }

    /// Letters, digits, `-`, `_`, and dots but not at the start: nothing that leaves its folder, is hidden, or
    /// means something to a shell.
    static func isPlainFileName(_ name: String) -> Bool {
        !name.isEmpty && name.utf8.count <= 200 && name.utf8.first != UInt8(ascii: ".")
            && name.utf8.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F: true
                default: false
                }
            }
    }

    private static func hex<H: HashFunction>(_ function: H.Type, _ key: CacheKey) -> String {
        var hasher = H()
        var text = key.string
        text.withUTF8 { hasher.update(bufferPointer: UnsafeRawBufferPointer($0)) }
        let digest = hasher.finalize()
        return String(unsafeUninitializedCapacity: H.Digest.byteCount * 2) { buffer in
            var position = 0
            for byte in digest {
                buffer[position] = digits[Int(byte >> 4)]
                buffer[position + 1] = digits[Int(byte & 15)]
                position += 2
            }
            return position
        }
    }

    private static let digits = Array("0123456789abcdef".utf8)
}
