import Foundation

/// Who the request is made for. Sent to the origin of the request's URL alone, never along with a redirect to another.
///
/// Credentials have an identity, which is a part of the entry's key: requests with different ones never share bytes,
/// neither in flight nor in memory nor on disk, and pictures made of them no more.
///
/// ```swift
/// let credentials = Credentials.provider(identity: account.id) { challenge in
///     await account.token(renewing: challenge.demand != nil)
/// }
/// ```
public struct Credentials: Sendable {
    /// What is known when credentials are asked for.
    public struct Challenge: Sendable {
        /// The URL about to be asked.
        public let url: URL
        /// The server's `WWW-Authenticate`, if it has refused what was sent before.
        public let demand: String?
    }

    let field: @Sendable (Challenge) async -> String?
    /// Others than fixed ones may know better after a refusal.
    let canAnswer: Bool
    let identity: HookIdentity

    /// A name and a password (RFC 7617).
    /// - Parameters:
    ///   - user: The name.
    ///   - password: The password.
    ///   - identity: The account, as text; `nil` for name and password themselves.
    public static func basic(user: String, password: String, identity: String? = nil) -> Credentials {
        fixed("Basic \(Data("\(user):\(password)".utf8).base64EncodedString())", identity)
    }

    /// A token (RFC 6750).
    /// - Parameters:
    ///   - token: The token.
    ///   - identity: The account, as text, which keeps its answers when it gets another token; `nil` for the token itself.
    public static func bearer(_ token: String, identity: String? = nil) -> Credentials {
        fixed("Bearer \(token)", identity)
    }

    private static func fixed(_ field: String, _ identity: String?) -> Credentials {
        Credentials(field: { _ in field }, canAnswer: false, identity: HookIdentity(identity ?? field))
    }

    /// Credentials from a closure, asked for before each attempt, and once more if the server answers 401: a token that
    /// has expired can be made anew.
    /// - Parameters:
    ///   - identity: for whom the closure gives credentials, as text: an account, not a token. It is hashed and never
    ///     written in clear. Without one the answers are shared by requests with this value or copies of it alone, and
    ///     never go to disk.
    ///   - field: the value of the `Authorization` field; `nil` sends none.
    public static func provider(
        identity: String? = nil, _ field: @escaping @Sendable (Challenge) async -> String?
    ) -> Credentials {
        Credentials(field: field, canAnswer: true, identity: HookIdentity(identity))
    }
}
