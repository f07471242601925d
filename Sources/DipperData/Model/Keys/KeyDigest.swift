import Foundation

/// File names made from keys.
enum KeyDigest {
    @Sendable static func sha256(_ key: CacheKey) -> String { MessageDigest.sha256.hex(key.string) }
    @Sendable static func sha1(_ key: CacheKey) -> String { MessageDigest.sha1.hex(key.string) }
    @Sendable static func md5(_ key: CacheKey) -> String { MessageDigest.md5.hex(key.string) }

    /// Whether a file's name begins with one of the digests, and ends there or with an extension.
    static func isDigest(_ name: String) -> Bool {
        let parts = name.split(separator: ".", omittingEmptySubsequences: false)
        guard let digest = parts.first, [32, 40, 64].contains(digest.utf8.count), parts.count <= 2 else { return false }
        return digest.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }
    }

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
}
