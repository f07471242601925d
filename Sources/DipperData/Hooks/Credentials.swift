import Foundation

/// Who the request is made for. Sent to the origin of the request's URL alone, never along with a redirect to another.
///
/// Not part of the entry's key: programs that fetch for several people need a key, or a cache, for each.
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

    /// A name and a password (RFC 7617).
    public static func basic(user: String, password: String) -> Credentials {
        let token = Data("\(user):\(password)".utf8).base64EncodedString()
        return Credentials(field: { _ in "Basic \(token)" }, canAnswer: false)
    }

    /// A token (RFC 6750).
    public static func bearer(_ token: String) -> Credentials {
        Credentials(field: { _ in "Bearer \(token)" }, canAnswer: false)
    }

    /// Credentials from a closure, asked for before each attempt, and once more if the server answers 401: a token that
    /// has expired can be made anew.
    /// - Parameter field: the value of the `Authorization` field; `nil` sends none.
    public static func provider(_ field: @escaping @Sendable (Challenge) async -> String?) -> Credentials {
        Credentials(field: field, canAnswer: true)
    }
}
