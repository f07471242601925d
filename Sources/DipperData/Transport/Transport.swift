import Foundation

/// Moves bytes from a server into memory. `CurlTransport` is the real one; `DipperTesting` has a scripted one.
public protocol Transport: Sendable {
    /// Starts a transfer. Never blocks. `receive` is called from any thread, one call at a time: any number of
    /// times with progress and once, as the last call, with the end; also after a cancel.
    func start(
        _ request: TransferRequest, receive: @escaping @Sendable (TransferEvent) -> Void
    ) -> any Transfer

    /// The machine's links, addresses or routes have changed: connections that cannot work any more are to fail now.
    func networkChanged()

    /// Whom a request for the URL is sent to: its host, or a proxy.
    func firstHop(to url: URL) -> String

    /// Ends all transfers as cancelled, ends the transport's threads and waits for them.
    func shutdown() async
}

extension Transport {
    public func networkChanged() {}
    public func firstHop(to url: URL) -> String { url.host(percentEncoded: false) ?? "" }
}

/// A transfer that is under way.
public protocol Transfer: Sendable {
    /// Stops it; it ends with ``DipperError/cancelled`` unless it has ended.
    func cancel()
    /// While true the transfer is to use the link as little as the transport can make it.
    func setThrottled(_ isThrottled: Bool)
    /// Tells in which queue the transfer counts from now on.
    func setQueue(_ queue: FetchQueue)
    /// Calls back once with the bytes of the body received so far and their position: zero, or the request's
    /// ``TransferRequest/offset``. Does not call back if nothing has been received or the transfer has ended.
    ///
    /// The callback may run on any thread. The bytes may share storage with the transfer: do not change them in place.
    func copyBody(_ reply: @escaping @Sendable (_ bytes: Data, _ offset: Int) -> Void)
}

extension Transfer {
    /// Nothing to look at before the end.
    public func copyBody(_ reply: @escaping @Sendable (_ bytes: Data, _ offset: Int) -> Void) {}
}

/// What a transfer tells.
public enum TransferEvent: Sendable {
    /// Bytes of the body so far, decoded, and how many there will be, if the server said; those of the request's
    /// ``TransferRequest/offset`` included if the answer continues them.
    case progress(received: Int, expected: Int?)
    /// Comes just before a failure: the answer with as much of its body as has arrived.
    case interrupted(TransferResponse)
    case finished(Result<TransferResponse, DipperError>)
}
