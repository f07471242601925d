/// Has the last word on each request before it is sent, also on those after a redirect: signs it, adds fields, changes
/// the URL.
///
/// A modifier has an identity, which is a part of the entry's key: requests with different ones never share bytes, neither
/// in flight nor in memory nor on disk, and pictures made of them no more.
///
/// ```swift
/// let signed = RequestModifier(identity: account.id) { request in
///     var request = request
///     request.headers["X-Signature"] = account.signature(of: request.url)
///     return request
/// }
/// ```
///
/// Lane, throttling and offset are the cache's. Each request that is sent is changed once, beginning from the URL that was
/// asked for or that a redirect led to; so a URL may be signed anew each time. The `If-None-Match`, `Range` and `If-Range`
/// that the cache has added are about what that URL has brought before: a modifier that leads to another resource removes
/// them.
public struct RequestModifier: Sendable {
    let modify: @Sendable (TransferRequest) async throws(DipperError) -> TransferRequest
    let identity: HookIdentity

    /// - Parameters:
    ///   - identity: whatever decides what the server answers, as text: an account, a tenant, a language. A constant where
    ///     answers are the same for everyone. It is hashed and never written in clear. Without one the answers are shared
    ///     by requests with this value or copies of it alone, and never go to disk.
    ///   - modify: the request to send in place of the one given; what it throws ends the attempt.
    public init(
        identity: String? = nil,
        _ modify: @escaping @Sendable (TransferRequest) async throws(DipperError) -> TransferRequest
    ) {
        self.modify = modify
        self.identity = HookIdentity(identity)
    }
}
