import Foundation

/// The interface that moves bytes from a server into memory; `DipperTesting` has a scripted transport for tests.
///
/// A transport sends the ``TransferRequest/method``, the ``TransferRequest/headers`` and the ``TransferRequest/body`` of
/// a request to its ``TransferRequest/url``, and leaves redirects, retries and ranges to the cache. The other properties
/// of the request are for transports that keep connections, use proxies or check certificates.
///
/// A transport built on another one also passes on ``networkChanged()``, ``firstHop(to:)`` and ``proxy(for:)``, whose
/// default implementations know of no connections and no proxies.
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
    /// The transport calls `receive` from any thread, one call at a time, also before this method returns: with progress
    /// and parts any number of times, and last with the end, also after a cancel. A transport that wraps another's
    /// `receive` must return from it at once and wait for no cache: all caches of the process may wait for that thread.
    func start(
        _ request: TransferRequest, receive: @escaping @Sendable (TransferEvent) -> Void
    ) -> any Transfer

    /// Tells the transport that links, addresses or routes have changed. Connections that no longer work must fail now.
    func networkChanged()

    /// Returns the host that a request for the URL is sent to: the URL's, or a proxy.
    func firstHop(to url: URL) -> String

    /// Returns the HTTP proxy that a request for the URL goes through, without user and password; `nil` for none.
    func proxy(for url: URL) -> URL?

    /// Ends all transfers as cancelled, and the transport's threads, and waits for them.
    func shutdown() async
}

extension Transport {
    public func networkChanged() {}
    public func firstHop(to url: URL) -> String { url.host(percentEncoded: false) ?? "" }
    public func proxy(for url: URL) -> URL? { nil }
}

extension DataRequest {
    /// The transport that fetches the bytes of this request; `nil` for the cache's. The cache keeps the answer as any
    /// other. If several calls share a fetch, the transport of the call that made it is used. The program shuts it down.
    ///
    /// ```swift
    /// var proxied = CurlConfiguration()
    /// proxied.proxy = "http://proxy:3128"
    /// let request = DataRequest(url).with(\.transport, CurlTransport(proxied))
    /// ```
    public var transport: (any Transport)? {
        get { hooks.transport as? any Transport }
        set { hooks.transport = newValue }
    }
}

/// A running transfer.
public protocol Transfer: Sendable {
    /// Stops the transfer, which then ends with ``DipperError/cancelled`` unless it has ended before.
    func cancel()
    /// Throttles the transfer or lets it continue. A throttled transfer uses the link as little as possible.
    func setThrottled(_ isThrottled: Bool)
    /// Moves the transfer to a queue.
    func setQueue(_ queue: FetchQueue)
    /// Calls back once, on any thread, with the received bytes of the body and their position in the whole body: zero,
    /// or the request's ``TransferRequest/offset``. Does not if there are none or the transfer has ended. The bytes may
    /// share storage with the transfer: do not change them in place.
    func copyBody(_ reply: @escaping @Sendable (_ bytes: Data, _ offset: Int) -> Void)
}

extension Transfer {
    /// Does nothing: for a transfer that cannot be slowed down.
    public func setThrottled(_ isThrottled: Bool) {}
    /// Does nothing: for a transfer that is the same in both queues.
    public func setQueue(_ queue: FetchQueue) {}
    /// Does not call back.
    public func copyBody(_ reply: @escaping @Sendable (_ bytes: Data, _ offset: Int) -> Void) {}
}

/// An event that a transfer reports.
public enum TransferEvent: Sendable {
    /// Progress: the number of body bytes received, before content decoding, and the expected number, if announced. Both
    /// include the request's ``TransferRequest/offset`` if the answer continues those bytes.
    case progress(received: Int, expected: Int?)
    /// An answer that comes before the final one. The cache tells the tasks that wait, and keeps nothing of it.
    case interim(InterimResponse)
    /// The answer, with the status 200 or 206, and the part of its body that has come so far, before content decoding. A
    /// transport may report it with each mebibyte of a long body, so that the cache writes the part to disk. Each part
    /// begins with the one before. The bytes may share storage with the transfer: do not change them in place.
    case partial(TransferResponse)
    /// The answer with the received part of its body; comes just before a failure.
    case interrupted(TransferResponse)
    /// The end of the transfer: the answer or an error.
    case finished(Result<TransferResponse, DipperError>)
}
