import Foundation

/// The rule that keeps secrets out of text: how keys, URLs and sentences look in logs, lists, timelines and errors.
///
/// User names and passwords in URLs, and the values of parameters whose names say that they are secret, are replaced by
/// ``mark``; everything else stays readable:
///
/// ```swift
/// let url = "https://alice:pw@example.org/a.jpg?size=2&access_token=abc"
/// Redaction.standard.text(url)    // https://***@example.org/a.jpg?size=2&access_token=***
/// ```
///
/// A cache uses the rule in ``DataCache/Configuration/redaction`` for its logs. Descriptions of keys, requests and
/// errors use ``standard``.
public struct Redaction: Sendable, Hashable {
    /// Stands in place of a secret.
    public static let mark = "***"

    /// The rule for the names that are secret everywhere, such as `token`, `signature`, `password` and `X-Amz-…`.
    public static let standard = Redaction()

    private let names: SecretNames

    /// Makes the standard rule, with further names.
    /// - Parameter secretNames: names of parameters whose values are secret as well. The words of a name count, whatever
    ///   their case and whatever separates them: `"session id"` also names `sessionId` and `my-session-id`.
    public init(secretNames: some Sequence<String> = []) {
        names = SecretNames(standard: Self.secretNames, further: secretNames)
    }

    /// Tells whether the values of a parameter or of a header field with this name are secret.
    ///
    /// The name may be percent-encoded. Whole words count: `access_token` and `accessToken` contain `token`, but
    /// `monkey` does not contain `key`.
    public func isSecret(_ name: String) -> Bool { names.contains(name.utf8) }

    /// Returns the text of a URL without its secrets.
    public func text(_ url: URL) -> String { text(url.absoluteString) }

    /// Returns the first line of a key, which for a default key is its URL, without its secrets.
    public func text(_ key: CacheKey) -> String { text(key.string) }

    /// Returns the first line of the text of a URL, well-formed or not, or of a key of the caller's own, without its
    /// secrets. In text that is not a URL, everything after a secret name and a colon or an equals sign is left out.
    public func text(_ text: String) -> String {
        let line = text.utf8.prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
        guard line.contains(where: RedactionScanner.isSuspicious) else { return String(Substring(line)) }
        return String(decoding: RedactionScanner.redact(Array(line), names, depth: 0), as: UTF8.self)
    }

    /// Returns a sentence, such as an error's, with its URLs as ``text(_:)-(String)`` returns them. Other words stay, but
    /// for those with an `@`, which may be URLs without a scheme.
    public func sentence(_ text: String) -> String {
        guard Self.mayHoldURL(text[...]) else { return text }
        return text.split(omittingEmptySubsequences: false) { $0.isWhitespace || "'\"<>`".contains($0) }
            .reduce(into: (result: "", position: text.startIndex)) { partial, word in
                partial.result += text[partial.position..<word.startIndex]
                partial.result += Self.mayHoldURL(word) ? self.text(String(word)) : String(word)
                partial.position = word.endIndex
            }.result
    }

    private static func mayHoldURL(_ text: Substring) -> Bool {
        text.utf8.contains("://".utf8) || text.utf8.contains(UInt8(ascii: "@"))
    }

    private static let secretNames = [
        "access key", "access token", "apikey", "auth", "auth token", "authorization", "bearer", "client secret",
        "code",
        "cookie", "credential", "credentials", "hmac", "id token", "jsessionid", "jwt", "key", "oauth", "otp", "pass",
        "passphrase", "password", "passwd", "phpsessid", "private key", "pwd", "refresh token", "secret", "secret key",
        "sessid", "session", "session id", "sid", "sig", "signature", "token", "X-Amz", "X-Goog",
    ]
}
