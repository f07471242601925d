import CServerHashes
import Foundation

/// The keys that sign the paths of pictures, so that strangers cannot have the server fetch what they like.
///
/// A signature is the HMAC-SHA256 of all that follows it in the path, after the slash, in base64url without padding:
///
///     printf %s 'fit:400x300/format:auto/https://example.org/a.jpg' |
///         openssl dgst -sha256 -hmac "$KEY" -binary | basenc --base64url | tr -d =
struct Signer: Sendable {
    /// Each of them is accepted, so that a key can be changed while pages with older paths are in use.
    let keys: [[UInt8]]
    /// Whether the word `unsafe` is accepted in place of a signature.
    let allowsUnsigned: Bool

    /// Signs with the first key; `nil` if there is none.
    func signature(of text: some StringProtocol) -> String? { keys.first.map { Self.signature(of: text, $0) } }

    func accepts(_ signature: some StringProtocol, of text: some StringProtocol) -> Bool {
        if signature == "unsafe" { return allowsUnsigned }
        let given = Array(signature.utf8)
        return keys.contains { key in
            let right = Array(Self.signature(of: text, key).utf8)
            // Takes the same time wherever the first difference is.
            return given.count == right.count && CRYPTO_memcmp(given, right, right.count) == 0
        }
    }

    private static func signature(of text: some StringProtocol, _ key: [UInt8]) -> String {
        let bytes = Array(text.utf8)
        var digest = [UInt8](repeating: 0, count: Int(SHA256_DIGEST_LENGTH))
        HMAC(EVP_sha256(), key, Int32(clamping: key.count), bytes, bytes.count, &digest, nil)
        return Data(digest).base64URL
    }
}

extension Data {
    var base64URL: String {
        base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }

    /// A strong entity tag: a hash of the bytes, made for each answer.
    var entityTag: String {
        let hash = withUnsafeBytes { XXH3_128bits($0.baseAddress, $0.count) }
        return "\"\(String(hash.high64, radix: 36))-\(String(hash.low64, radix: 36))\""
    }
}
