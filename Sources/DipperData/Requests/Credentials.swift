import Foundation

/// The credentials for a protection space: the origin of a request (``DataRequest/credentials``) or a proxy
/// (``DataCache/Configuration/proxyCredentials``). They are sent to that space only, never to another origin after a
/// redirect. The identity of a request's credentials is part of the entry's key.
///
/// ```swift
/// let credentials = Credentials.bearer(token, identity: "alice")
/// let data = try await cache.getData(DataRequest(url).with(\.credentials, credentials)).value
/// ```
public struct Credentials: Sendable, RedactedStringConvertible {
    /// The information given to the closure that supplies credentials.
    public struct Challenge: Sendable, RedactedStringConvertible {
        /// The URL of the request that needs credentials, or of the proxy.
        public let url: URL
        /// The field `WWW-Authenticate` of a server, or `Proxy-Authenticate` of a proxy, that refused the credentials
        /// sent before: empty if the answer had no such field, or if a proxy refused a tunnel to an https server. `nil`
        /// if there was no refusal.
        public let demand: String?

        /// The URL without secrets.
        public var description: String { Redaction.standard.text(url) }
    }

    private let supply: @Sendable (Challenge) async throws -> String?
    /// Whether the closure may supply other credentials after a refusal. Fixed credentials stay the same.
    let canAnswer: Bool
    let identity: HookIdentity

    /// Returns credentials with a user name and a password (RFC 7617). The `identity` is the account, as text; with
    /// `nil` it consists of the name and the password.
    public static func basic(user: String, password: String, identity: String? = nil) -> Credentials {
        fixed("Basic \(Data("\(user):\(password)".utf8).base64EncodedString())", identity)
    }

    /// Returns credentials with a bearer token (RFC 6750). The `identity` is the account, as text, so that the
    /// account's entries survive a change of token; with `nil` it is the token.
    public static func bearer(_ token: String, identity: String? = nil) -> Credentials {
        fixed("Bearer \(token)", identity)
    }

    private static func fixed(_ field: String, _ identity: String?) -> Credentials {
        Credentials(supply: { _ in field }, canAnswer: false, identity: HookIdentity(identity ?? field))
    }

    /// Returns credentials that a closure supplies: before each attempt, and once more if the server answers 401, or
    /// the proxy 407, so that an expired token can be renewed.
    ///
    /// ```swift
    /// let credentials = Credentials.provider(identity: session.account) { challenge in
    ///     let token = await session.token(renewing: challenge.demand != nil)
    ///     return "Bearer \(token)"
    /// }
    /// ```
    /// - Parameters:
    ///   - identity: the account for which the closure supplies credentials, as text; not a token. The cache hashes it
    ///     and never writes it in clear. Without an identity the answers are not written to disk, and only requests
    ///     with this value or a copy of it share them.
    ///   - field: returns the value of the `Authorization` or `Proxy-Authorization` field; `nil` sends none. An error
    ///     that it throws ends the attempt; another error than a ``DipperError`` as ``DipperError/rejected``.
    public static func provider(
        identity: String? = nil, _ field: @escaping @Sendable (Challenge) async throws -> String?
    ) -> Credentials {
        Credentials(supply: field, canAnswer: true, identity: HookIdentity(identity))
    }

    func field(_ challenge: Challenge) async throws(DipperError) -> String? {
        try await Result(ofHook: .rejected) { try await supply(challenge) }.get()
    }

    /// The name of the type; no part of the credentials is printed.
    public var description: String { "Credentials" }
}

/// The certificates and keys for TLS with one origin, of the server and of the client. Each property that is not set is
/// as the ``CurlConfiguration`` says. See ``DataCache/Configuration/answerTLSChallenge``.
///
/// Names, dates and signatures of certificates are checked in any case. If the PEM text is no certificate or no key,
/// calls end with ``DipperError/tlsRejected``, as with a server that has none of the pinned keys.
public struct TLSAnswer: Sendable, RedactedStringConvertible {
    /// The certificates of authorities to trust in place of the system's, as PEM text, one after the other.
    public var authorities: Data?
    /// The only public keys that the server may have: base64 of the key's SHA-256, as in RFC 7469. If empty, those of
    /// ``CurlConfiguration/pinnedPublicKeys``. A pinned key must be signed as well.
    public var pinnedPublicKeys: [String]
    /// The client certificate, and those that lead to its authority, as PEM text.
    public var clientCertificate: Data?
    /// The private key of ``clientCertificate``, as PEM text; `nil` if it stands in the same text.
    public var clientKey: Data?
    /// The password of the private key, if it has one.
    public var clientKeyPassword: String?

    /// Creates an answer with the properties that differ from the configuration.
    public init(
        authorities: Data? = nil, pinnedPublicKeys: [String] = [], clientCertificate: Data? = nil,
        clientKey: Data? = nil, clientKeyPassword: String? = nil
    ) {
        self.authorities = authorities
        self.pinnedPublicKeys = pinnedPublicKeys
        self.clientCertificate = clientCertificate
        self.clientKey = clientKey
        self.clientKeyPassword = clientKeyPassword
    }

    /// The name of the type; no keys or passwords are printed.
    public var description: String { "TLSAnswer" }
}
