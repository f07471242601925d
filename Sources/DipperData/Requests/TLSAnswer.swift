import Foundation

/// The certificates and keys for TLS with one origin: those that the server is known by, and those of the client. Each
/// property that is not set is as the ``CurlConfiguration`` says. See
/// ``DataCache/Configuration/answerTLSChallenge``.
///
/// Names, dates and signatures of certificates are checked in any case. If the PEM text is no certificate or no key,
/// calls end with ``DipperError/tlsRejected``, as with a server that has none of the pinned keys.
///
/// ```swift
/// let answer = TLSAnswer(authorities: try Data(contentsOf: ownAuthority), pinnedPublicKeys: [pin])
/// ```
public struct TLSAnswer: Sendable {
    /// The certificates to trust in place of the system's, as PEM text: those of a private authority, or several
    /// authorities one after the other.
    public var authorities: Data?
    /// The only public keys that the server may have: base64 of the key's SHA-256, as in RFC 7469. If empty, those of
    /// ``CurlConfiguration/pinnedPublicKeys``. A pinned key must be signed as well.
    public var pinnedPublicKeys: [String]
    /// The client certificate, and those that lead to its authority, as PEM text, for this origin in place of
    /// ``CurlConfiguration/clientCertificate``.
    public var clientCertificate: Data?
    /// The private key of ``clientCertificate``, as PEM text; `nil` if it stands in the same text.
    public var clientKey: Data?
    /// The password of the private key, if it has one.
    public var clientKeyPassword: String?

    /// Creates an answer with what differs from the configuration.
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
}

extension TLSAnswer: RedactedStringConvertible {
    /// The name of the type; no keys or passwords are printed.
    public var description: String { "TLSAnswer" }
}
