import Foundation

/// The rule that removes secrets from text: from keys, URLs and messages in logs, lists, timelines and errors.
///
/// User names and passwords in URLs, and the values of parameters with secret names, are replaced by ``mark``:
///
/// ```swift
/// let address = "https://alice:pw@example.org/a.jpg?size=2&access_token=abc"
/// print(Redaction.standard.text(address))     // https://***@example.org/a.jpg?size=2&access_token=***
/// ```
///
/// A cache uses the rule in ``DataCache/Configuration/redaction`` for its logs. Descriptions of keys, requests and
/// errors use ``standard``.
public struct Redaction: Sendable, Hashable {
    /// The text that replaces a secret.
    public static let mark = "***"

    /// The rule with the built-in list of secret names, such as `token`, `signature`, `password` and `X-Amz-…`.
    public static let standard = Redaction()

    private let names: SecretNames

    /// Creates a rule with the built-in names and further ones.
    /// - Parameter secretNames: names of parameters whose values are also secret. A name is compared word by word, in
    ///   any case and with any separator: `"session id"` also matches `sessionId` and `my-session-id`.
    public init(secretNames: some Sequence<String> = []) {
        names = SecretNames(standard: Self.secretNames, further: secretNames)
    }

    /// Returns whether the values of a parameter or header field with this name, perhaps percent-encoded, are secret.
    /// Whole words are compared: `access_token` and `accessToken` contain `token`, but `monkey` does not contain `key`.
    public func isSecret(_ name: String) -> Bool { names.contains(name.utf8) }

    /// Returns the text of a URL without its secrets.
    public func text(_ url: URL) -> String { text(url.absoluteString) }

    /// Returns the first line of a URL's text, well-formed or not, or of a custom key, without secrets. In other text,
    /// everything after a secret name and a colon or an equals sign is removed.
    public func text(_ text: String) -> String {
        let line = text.utf8.prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
        guard line.contains(where: RedactionScanner.isSuspicious) else { return String(Substring(line)) }
        return String(decoding: RedactionScanner.redact(Array(line), names, depth: 0), as: UTF8.self)
    }

    /// Returns a message, such as an error's, with the secrets in its URLs removed as by ``text(_:)-(String)``. Words
    /// with an `@` count as URLs.
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

/// A value that may hold secrets: `print`, `dump` and a debugger show its description alone.
package protocol RedactedStringConvertible: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {}

extension RedactedStringConvertible {
    /// The value's `description`, so that a debugger prints no secrets either.
    public var debugDescription: String { description }

    /// A mirror without children, so that `dump` and reflection reveal no secrets.
    public var customMirror: Mirror { Mirror(self, children: EmptyCollection()) }
}
