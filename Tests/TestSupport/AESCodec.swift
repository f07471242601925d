internal import CCrypto
package import DipperData
package import Foundation

/// A codec that encrypts with AES-256-GCM of libcrypto. The result is a nonce of 12 bytes, the encrypted record and a
/// tag of 16 bytes.
package struct AESCodec: RecordCodec {
    private let key: [UInt8]
    package let identifier: String

    /// - Parameter key: 32 bytes.
    package init(key: [UInt8], identifier: String) {
        self.key = key
        self.identifier = identifier
    }

    /// - Parameter seed: the byte that the whole key consists of.
    package init(_ seed: UInt8, identifier: String? = nil) {
        self.init(key: [UInt8](repeating: seed, count: 32), identifier: identifier ?? "aes-gcm, key \(seed)")
    }

    package func encode(_ record: Data) throws(DipperError) -> Data {
        let nonce = (0..<12).map { _ in UInt8.random(in: .min ... .max) }
        var tag = [UInt8](repeating: 0, count: 16)
        guard let bytes = cipher([UInt8](record), nonce, &tag, isEncrypting: true) else { throw .unencodable }
        return Data(nonce + bytes + tag)
    }

    package func decode(_ bytes: Data) throws(DipperError) -> Data {
        guard bytes.count >= 28 else { throw .undecodable }
        var tag = [UInt8](bytes.suffix(16))
        let (nonce, text) = ([UInt8](bytes.prefix(12)), [UInt8](bytes.dropFirst(12).dropLast(16)))
        guard let record = cipher(text, nonce, &tag, isEncrypting: false) else { throw .undecodable }
        return Data(record)
    }

    private func cipher(_ input: [UInt8], _ nonce: [UInt8], _ tag: inout [UInt8], isEncrypting: Bool) -> [UInt8]? {
        let context = EVP_CIPHER_CTX_new()
        defer { EVP_CIPHER_CTX_free(context) }
        var output = [UInt8](repeating: 0, count: input.count + 16)
        var end = [UInt8](repeating: 0, count: 16)
        var count: Int32 = 0
        var rest: Int32 = 0
        let direction: Int32 = isEncrypting ? 1 : 0
        guard EVP_CipherInit_ex(context, EVP_aes_256_gcm(), nil, key, nonce, direction) == 1 else { return nil }
        if !isEncrypting, EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, 16, &tag) != 1 { return nil }
        guard EVP_CipherUpdate(context, &output, &count, input, Int32(input.count)) == 1,
            EVP_CipherFinal_ex(context, &end, &rest) == 1
        else { return nil }
        if isEncrypting, EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, 16, &tag) != 1 { return nil }
        return Array(output.prefix(Int(count)))
    }
}
