import Foundation

/// Entries whose bytes follow from key and version, so that any process can check them at any time.
public enum TortureEntry {
    /// Makes bytes from a key and a version: a first line with both, then a sequence that follows from them.
    public static func body(key: String, version: UInt64, size: Int) -> Data {
        var body = Data("\(key) \(version) \(size)\n".utf8)
        var state = version &* 0x9E37_79B9_7F4A_7C15 &+ UInt64(key.utf8.count)
        for byte in key.utf8 { state = (state ^ UInt64(byte)) &* 0x100_0000_01B3 }
        while body.count < size {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            withUnsafeBytes(of: state) { body.append(contentsOf: $0) }
        }
        return body
    }

    /// Returns the version of the bytes, if they are complete and were written under the key.
    public static func version(of data: Data, key: String) -> UInt64? {
        guard let end = data.firstIndex(of: UInt8(ascii: "\n")) else { return nil }
        let words = String(decoding: data[..<end], as: UTF8.self).split(separator: " ")
        guard words.count == 3, words[0] == key, let version = UInt64(words[1]), let size = Int(words[2]),
            body(key: key, version: version, size: size) == data
        else { return nil }
        return version
    }
}
