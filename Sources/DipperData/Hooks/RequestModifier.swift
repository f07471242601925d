/// Has the last word on each request before it is sent, also on those after a redirect: signs it, adds fields, changes
/// the URL.
///
/// What it changes is not part of the entry's key. Lane, throttling and offset are the cache's.
public struct RequestModifier: Sendable {
    let modify: @Sendable (TransferRequest) async throws(DipperError) -> TransferRequest

    /// - Parameter modify: the request to send in place of the one given; what it throws ends the attempt.
    public init(_ modify: @escaping @Sendable (TransferRequest) async throws(DipperError) -> TransferRequest) {
        self.modify = modify
    }
}
