/// A closure that changes each request before it is sent, also after a redirect: it can sign the request, add fields or
/// change the URL.
///
/// A modifier has an identity, which is part of the entry's key: requests with different identities never share bytes
/// in flight, in memory or on disk, nor pictures decoded from them.
///
/// ```swift
/// let signed = RequestModifier(identity: session.account) { request in
///     var request = request
///     request.headers["X-Signature"] = session.signature(of: request.url)
///     return request
/// }
/// let data = try await cache.getData(DataRequest(url).with(\.modifier, signed)).value
/// ```
///
/// The cache sets queue, throttling and offset; a modifier cannot change them. The modifier runs once for each request
/// that is sent, and starts from the requested URL or the redirect's target, so that a URL can be signed anew each
/// time. The fields `If-None-Match`, `If-Modified-Since`, `Range` and `If-Range` that the cache has added refer to
/// earlier answers for that URL: a modifier that changes the URL to another resource must remove them.
public struct RequestModifier: Sendable {
    let modify: @Sendable (TransferRequest) async throws -> TransferRequest
    let identity: HookIdentity

    /// Creates a modifier.
    /// - Parameters:
    ///   - identity: everything that decides the server's answer, as text: an account, a tenant, a language; a constant
    ///     if the answers are the same for everyone. The cache hashes it and never writes it in clear. Without an
    ///     identity the answers are not written to disk, and only requests with this value or a copy of it share them.
    ///   - modify: returns the request to send in place of the given one. An error that it throws ends the attempt;
    ///     another error than a ``DipperError`` as ``DipperError/rejected``.
    public init(
        identity: String? = nil,
        _ modify: @escaping @Sendable (TransferRequest) async throws -> TransferRequest
    ) {
        self.modify = modify
        self.identity = HookIdentity(identity)
    }
}
