import Foundation

extension FaultServer {
    /// Returns the bytes that `/bytes/SIZE/…` serves: pseudo-random, the same on every run.
    ///
    /// Each 8 bytes are a little-endian output of SplitMix64 seeded with the FNV-1a hash of the
    /// path, so no two offsets look alike, and a test can detect a shifted or torn body.
    ///
    /// - Parameters:
    ///   - path: the path as sent; a query is ignored.
    ///   - size: how many bytes; a shorter body is a prefix of a longer one.
    public static func body(of path: String, size: Int) -> Data {
        var seed: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in path.utf8 {
            if byte == UInt8(ascii: "?") { break }
            seed = (seed ^ UInt64(byte)) &* 0x100_0000_01B3
        }
        var words = [UInt64](repeating: 0, count: (size + 7) / 8)
        words.withUnsafeMutableBufferPointer { words in
            var index = 0
            while index < words.count {
                seed &+= 0x9E37_79B9_7F4A_7C15
                var word = seed
                word = (word ^ (word &>> 30)) &* 0xBF58_476D_1CE4_E5B9
                word = (word ^ (word &>> 27)) &* 0x94D0_49BB_1331_11EB
                words[index] = (word ^ (word &>> 31)).littleEndian
                index &+= 1
            }
        }
        return words.withUnsafeBytes { Data($0.prefix(size)) }
    }

    /// Returns the bytes of a version of a resource, for the parameter `changes`; the first version has the number 0.
    public static func body(of path: String, size: Int, version: Int) -> Data {
        let path = path.prefix { $0 != "?" }
        return body(of: version == 0 ? String(path) : "\(path)~\(version)", size: size)
    }

    /// Returns the text that `/text/…` serves: lines that repeat the path, 10 KiB and the rest of the last line.
    ///
    /// - Parameter path: the path as sent; a query is ignored.
    public static func text(of path: String) -> Data {
        let path = path.prefix { $0 != "?" }
        var text = Data()
        var line = 1
        while text.count < 10_240 {
            text += "\(path) \(line): The quick brown fox jumps over the lazy dog.\n".utf8
            line += 1
        }
        return text
    }
}
