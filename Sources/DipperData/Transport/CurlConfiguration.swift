/// The limits and options of ``CurlTransport``.
public struct CurlConfiguration: Sendable {
    /// The longest to wait for a connection, TLS included.
    public var connectTimeout: Duration = .seconds(15)
    /// A transfer that moves fewer than `lowSpeedLimit` bytes a second for `lowSpeedTime` is given up, also one
    /// whose server never answers.
    public var lowSpeedLimit = 64
    /// See ``lowSpeedLimit``. Counted in whole seconds.
    public var lowSpeedTime: Duration = .seconds(30)
    /// The largest body taken, in bytes after content decoding.
    public var maximumBodySize = 1 << 30
    /// The largest body taken of an answer that came compressed, in bytes after decoding: a few kilobytes can stand
    /// for gigabytes.
    public var maximumDecodedSize = 64 << 20
    /// Whether bodies with a content coding are decoded, and such codings asked for. If not, they come as they are sent,
    /// for the caller to decode or to pass on; what may be sent is for a request's `Accept-Encoding` to say.
    public var decodesContent = true
    /// The most bytes that the header section may take, informational answers before it included.
    public var maximumHeaderSize = 256 << 10
    /// The addresses that may be connected to.
    public var addressPolicy = AddressPolicy.any
    /// A file of certificates in PEM form to trust in place of the system's.
    public var caBundle: String?
    /// The only public keys that a server may have: SHA-256 of the key in base64, as in RFC 7469. Empty for any key
    /// that the certificate authorities vouch for; a pinned key must be vouched for as well.
    public var pinnedPublicKeys: [String] = []
    /// A certificate in PEM form to identify this client by, its key and the key's password.
    public var clientCertificate: String?
    /// The file of the certificate's private key, in PEM form.
    public var clientKey: String?
    /// The password of that key, if it has one.
    public var clientKeyPassword: String?
    /// Such as `http://proxy:3128`; `nil` for what the environment says (`http_proxy` and so on).
    public var proxy: String?
    /// The `User-Agent` field, unless a request has its own.
    public var userAgent = "Dipper"
    /// Connections each lane keeps open for use again.
    public var keptConnections = 64

    /// Limits fit for the open web.
    public init() {}

    /// What libcurl is told. A proxy of the environment's would connect where the address policy forbids it.
    var proxySetting: String? { proxy ?? (addressPolicy.isAny ? nil : "") }
}
