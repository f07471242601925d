import Foundation

/// The limits and options of ``CurlTransport``.
public struct CurlConfiguration: Sendable {
    /// The longest to wait for a connection, the host's name looked up and TLS included.
    public var connectTimeout: Duration = .seconds(15)
    /// A transfer that moves fewer than `lowSpeedLimit` bytes a second for `lowSpeedTime` without a break is given up, also
    /// one whose server never answers.
    public var lowSpeedLimit = 64
    /// See ``lowSpeedLimit``. Counted in whole seconds.
    public var lowSpeedTime: Duration = .seconds(30)
    /// A transfer that moves fewer than `minimumRate` bytes a second on average over any ``minimumRateWindow`` is given up,
    /// with a failure that may pass: what has come is kept, and the next attempt asks for the rest. So servers that send a
    /// few bytes now and then do not occupy all places. The default lets eight transfers at once share a line of 1 KB/s.
    /// Zero for no limit.
    public var minimumRate = 128
    /// See ``minimumRate``. Only time in which the transfer is not held back counts.
    public var minimumRateWindow: Duration = .seconds(120)
    /// The longest that one transfer may take, with a failure that may pass; only time in which it is not held back counts.
    /// `nil` for no limit.
    public var transferTimeLimit: Duration? = .seconds(3_600)
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
    /// The file of a certificate in PEM form to identify this client by. It is offered to the origin that a request was made
    /// for, and not where a redirect or an alternative leads elsewhere, unless ``clientCertificateOrigins`` says otherwise.
    public var clientCertificate: String?
    /// The only origins that ``clientCertificate`` is offered to, such as `https://api.example.com`; `nil` for the one that
    /// each request was made for.
    public var clientCertificateOrigins: [URL]?
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

    /// Whether the client shows who it is to the server of a request, if that asks.
    func offersIdentity(to request: TransferRequest) -> Bool {
        guard let clientCertificateOrigins else { return request.isForOwnOrigin }
        return clientCertificateOrigins.contains { Redirect.isSameOrigin($0, request.url) }
    }

    /// What ``ProxySettings`` is told. A proxy of the environment's would connect where the address policy forbids it.
    var proxySetting: String? { proxy ?? (addressPolicy.isAny ? nil : "") }
}
