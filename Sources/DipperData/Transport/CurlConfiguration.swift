import Foundation

/// The limits and options of ``CurlTransport``.
public struct CurlConfiguration: Sendable {
    /// The longest time to establish a connection, including name resolution and the TLS handshake.
    public var connectTimeout: Duration = .seconds(15)
    /// The lowest speed of a transfer, in bytes a second. A transfer that stays below it for ``lowSpeedTime`` without a
    /// break is aborted, also one whose server never answers.
    public var lowSpeedLimit = 64
    /// The time after which a transfer below ``lowSpeedLimit`` is aborted, in whole seconds.
    public var lowSpeedTime: Duration = .seconds(30)
    /// The lowest average speed of a transfer over any ``minimumRateWindow``, in bytes a second; zero for no limit.
    ///
    /// A slower transfer is aborted with a transient failure: the received bytes are kept, and the next attempt asks
    /// for the rest. So a server that sends a few bytes now and then does not occupy a slot of its queue for ever. With
    /// the default of 128, eight transfers can share a link of 1 KB/s.
    public var minimumRate = 128
    /// The time over which ``minimumRate`` is averaged. Time in which the transfer is paused does not count.
    public var minimumRateWindow: Duration = .seconds(120)
    /// The longest duration of one transfer; `nil` for no limit. A longer transfer is aborted with a transient failure.
    /// Time in which the transfer is paused does not count.
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
    /// The path of a PEM file with the client certificate. The certificate is offered to the origin of the request, and
    /// not to other origins after a redirect or to an alternative, unless ``clientCertificateOrigins`` lists them.
    public var clientCertificate: String?
    /// The only origins to which ``clientCertificate`` is offered, such as `https://api.example.com`; `nil` for the
    /// origin of each request.
    public var clientCertificateOrigins: [URL]?
    /// The file of the certificate's private key, in PEM form.
    public var clientKey: String?
    /// The password of that key, if it has one.
    public var clientKeyPassword: String?
    /// Such as `http://proxy:3128`; `nil` for what the environment says (`http_proxy` and so on).
    public var proxy: String?
    /// The `User-Agent` field, unless a request has its own.
    public var userAgent = "Dipper"
    /// Connections each queue keeps open for use again.
    public var keptConnections = 64

    /// Limits fit for the open web.
    public init() {}

    /// Whether the client shows who it is to the server of a request, if that asks.
    func offersIdentity(to request: TransferRequest) -> Bool {
        guard let clientCertificateOrigins else { return request.isForOwnOrigin }
        return clientCertificateOrigins.contains { Redirect.isSameOrigin($0, request.url) }
    }

    /// The proxy that libcurl is given: a proxy of the environment's would connect where the address policy forbids it.
    var proxySetting: String? { proxy ?? (addressPolicy.isAny ? nil : "") }
}

extension CurlConfiguration: RedactedStringConvertible {
    /// The name of the type; no proxies, keys or passwords are printed.
    public var description: String { "CurlConfiguration" }
}
