import Foundation

/// The interface that moves bytes from a server into memory. ``CurlTransport`` uses libcurl; `DipperTesting` has a
/// scripted transport for tests.
///
/// A transport that is built on another one also passes on ``networkChanged()``, ``firstHop(to:)`` and ``proxy(for:)``,
/// whose default implementations know of no connections and no proxies.
///
/// ```swift
/// struct PrintingTransport: Transport {
///     let base = CurlTransport()
///     func start(_ request: TransferRequest, receive: @escaping @Sendable (TransferEvent) -> Void) -> any Transfer {
///         print(request)
///         return base.start(request, receive: receive)
///     }
///     func shutdown() async { await base.shutdown() }
/// }
/// ```
public protocol Transport: Sendable {
    /// Starts a transfer. Never blocks.
    ///
    /// The transport calls `receive` from any thread, one call at a time: any number of times with progress, and once,
    /// as the last call, with the end. The end is reported after a cancel as well.
    func start(
        _ request: TransferRequest, receive: @escaping @Sendable (TransferEvent) -> Void
    ) -> any Transfer

    /// Tells the transport that the machine's links, addresses or routes have changed. Connections that no longer work
    /// must fail now.
    func networkChanged()

    /// Returns the host that a request for the URL is sent to: the URL's own host, or a proxy.
    func firstHop(to url: URL) -> String

    /// Returns the HTTP proxy that a request for the URL goes through, without user and password; `nil` for none.
    func proxy(for url: URL) -> URL?

    /// Ends all transfers as cancelled, ends the transport's threads and waits for them.
    func shutdown() async
}

extension Transport {
    public func networkChanged() {}
    public func firstHop(to url: URL) -> String { url.host(percentEncoded: false) ?? "" }
    public func proxy(for url: URL) -> URL? { nil }
}

/// A running transfer.
///
/// ```swift
/// struct BackgroundTransfer: Transfer {
///     let work: Task<Void, Never>
///     func cancel() { work.cancel() }
///     func setThrottled(_ isThrottled: Bool) {}
///     func setQueue(_ queue: FetchQueue) {}
/// }
/// ```
public protocol Transfer: Sendable {
    /// Stops the transfer, which then ends with ``DipperError/cancelled`` unless it has ended before.
    func cancel()
    /// Throttles the transfer or lets it continue. A throttled transfer uses the link as little as the transport can
    /// manage.
    func setThrottled(_ isThrottled: Bool)
    /// Moves the transfer to a queue.
    func setQueue(_ queue: FetchQueue)
    /// Calls back once with the bytes of the body received so far and their position in the whole body: zero, or the
    /// request's ``TransferRequest/offset``. Does not call back if no bytes have been received or the transfer has
    /// ended.
    ///
    /// The callback may run on any thread. The bytes may share storage with the transfer: do not change them in place.
    func copyBody(_ reply: @escaping @Sendable (_ bytes: Data, _ offset: Int) -> Void)
}

extension Transfer {
    /// Does not call back: for transfers that have no bytes to show before the end.
    public func copyBody(_ reply: @escaping @Sendable (_ bytes: Data, _ offset: Int) -> Void) {}
}

/// An event that a transfer reports.
///
/// ```swift
/// let receive: @Sendable (TransferEvent) -> Void = { event in
///     switch event {
///     case .progress(let received, _): print(received, "bytes")
///     case .interrupted(let response): print("broken off after \(response.body.count) bytes")
///     case .finished(let result): print(result)
///     }
/// }
/// ```
public enum TransferEvent: Sendable {
    /// Progress: the number of body bytes received so far, after content decoding, and the expected number, if the
    /// server announced one. Both include the request's ``TransferRequest/offset`` if the answer continues those bytes.
    case progress(received: Int, expected: Int?)
    /// The answer with the part of its body that has arrived; comes just before a failure.
    case interrupted(TransferResponse)
    /// The end of the transfer: the answer or an error.
    case finished(Result<TransferResponse, DipperError>)
}
