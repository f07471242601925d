import Foundation

/// File names made from keys.
enum KeyDigest {
    @Sendable static func sha256(_ key: CacheKey) -> String { MessageDigest.sha256.hex(key.string) }
    @Sendable static func sha1(_ key: CacheKey) -> String { MessageDigest.sha1.hex(key.string) }
    @Sendable static func md5(_ key: CacheKey) -> String { MessageDigest.md5.hex(key.string) }

    /// Returns whether a name consists of at most 200 letters, digits, `-`, `_`, and dots, but no dot at the start.
    /// Such a name cannot leave its folder, is not hidden, and has no meaning to a shell.
    static func isPlainFileName(_ name: String) -> Bool {
        !name.isEmpty && name.utf8.count <= 200 && name.utf8.first != UInt8(ascii: ".")
            && name.utf8.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F: true
                default: false
                }
            }
    }
}
