import CCrypto

/// A digest function of OpenSSL's libcrypto.
struct MessageDigest: @unchecked Sendable {
    static let sha256 = MessageDigest("SHA256")
    static let sha1 = MessageDigest("SHA1")
    static let md5 = MessageDigest("MD5")

    // Unchecked: libcrypto never changes a fetched method. The method is fetched once, because finding it by its name
    // costs more than the digest of a short text.
    private let method: OpaquePointer?

    private init(_ name: String) {
        method = EVP_MD_fetch(nil, name, nil)
    }

    /// Returns the digest of the text's UTF-8 bytes.
    func digest(_ text: String) -> [UInt8] {
        var text = text
        return text.withUTF8 { digest(UnsafeRawBufferPointer($0)) }
    }

    /// Returns the digest of the bytes.
    func digest(_ bytes: UnsafeRawBufferPointer) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: Int(EVP_MAX_MD_SIZE)) { buffer, count in
            var length: UInt32 = 0
            let isDone = EVP_Digest(bytes.baseAddress, bytes.count, buffer.baseAddress, &length, method, nil) == 1
            precondition(isDone, "libcrypto must provide MD5, SHA-1 and SHA-256")
            count = Int(length)
        }
    }

    /// Returns the digest of the text's UTF-8 bytes, in lower-case hexadecimal digits.
    func hex(_ text: String) -> String {
        let digest = digest(text)
        return String(unsafeUninitializedCapacity: digest.count * 2) { buffer in
            for (index, byte) in digest.enumerated() {
                buffer[index * 2] = Self.digits[Int(byte >> 4)]
                buffer[index * 2 + 1] = Self.digits[Int(byte & 15)]
            }
            return digest.count * 2
        }
    }

    private static let digits = Array("0123456789abcdef".utf8)
}
