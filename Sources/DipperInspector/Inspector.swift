import Dipper
import DipperData
import Foundation
import Synchronization

/// A live page about a cache, in the browser: its queues and why each fetch waits, the story of each fetch, the entries,
/// and sums.
///
/// ```swift
/// let inspector = Inspector(cache)
/// print(try inspector.start())        // http://127.0.0.1:41234/8f0c…/
/// ```
///
/// The page is served on the loopback address, at a URL with a random token, to nobody who does not know that URL. While
/// no page is open, the inspector costs the cache nothing: no event is built. The inspector and its cache live until
/// ``stop()``.
public final class Inspector: Sendable {
    /// The options of an inspector.
    public struct Options: Sendable {
        /// The IP address to listen on; by default `127.0.0.1`, which only this machine reaches. Everybody who can reach
        /// another address and reads the URL, which is sent without encryption, can see and change the cache.
        public var address = "127.0.0.1"
        /// The port to listen on; 0, the default, for any free port.
        public var port = 0
        /// Names of this machine that the page may be opened by, beside its address; see ``address``.
        public var hostNames: Set<String> = []
        /// Whether the page only shows the cache: it cannot open, change or remove anything.
        public var isReadOnly = false
        /// Whether events are recorded from ``Inspector/start()`` on, and not only while a page is open. A page then shows
        /// what happened before it was opened.
        public var recordsAlways = false
        /// The number of fetches that are kept for the timeline; the oldest leave.
        public var historyLimit = 10_000

        /// Creates the default options.
        public init() {}

        /// Options for a page that can change nothing.
        public static var readOnly: Options {
            var options = Options()
            options.isReadOnly = true
            return options
        }
    }

    private struct State {
        var server: InspectorServer?
        var recording: ChangeObservation?
        var pages = 0
        /// The number of the start, so that a page of an earlier one is not taken for one of this.
        var run = 0
        /// The conditions that pages have set last.
        var network: SimulatedNetwork?
        var pressure: MemoryPressure?
    }

    let cache: DataCache
    let images: ImageCache?
    let options: Options
    let model: InspectorModel
    let desk = InspectorDesk()
    private let state = Mutex(State())

    /// Creates an inspector of a data cache; ``start()`` opens its page. Thumbnails are decoded apart if an image cache
    /// decodes pictures of these bytes apart; see `Isolation`.
    public convenience init(_ cache: DataCache, _ options: Options = Options()) {
        self.init(cache, nil, options)
    }

    /// Creates an inspector of an image cache and its `ImageCache.data`; ``start()`` opens its page.
    public convenience init(_ cache: ImageCache, _ options: Options = Options()) {
        self.init(cache.data, cache, options)
    }

    private init(_ cache: DataCache, _ images: ImageCache?, _ options: Options) {
        (self.cache, self.images, self.options) = (cache, images, options)
        model = InspectorModel(limit: options.historyLimit)
    }

    /// The URL of the page, with its token; `nil` while the inspector is stopped.
    public var url: URL? { state.withLock { $0.server?.url } }

    /// Starts to serve the page, unless it is being served.
    /// - Returns: the URL of the page. Whoever has it can do what the page can do.
    /// - Throws: ``InspectorError``, if the port is in use, for example.
    @discardableResult
    public func start() throws(InspectorError) -> URL {
        if let url { return url }
        let server = try InspectorServer(address: options.address, port: options.port, hosts: options.hostNames) {
            [self] request, server in answer(request, server)
        }
        let present = state.withLock { state in
            if let server = state.server { return server }
            state.server = server
            return server
        }
        if present !== server { server.end() }
        if options.recordsAlways { pageOpened() }
        return present.url
    }

    /// Closes the page's connections, ends the conditions that pages simulate, and returns when the inspector's threads
    /// have ended.
    public func stop() async {
        let old = state.withLock { state in exchange(&state, with: State(run: state.run + 1)) }
        endRecording(old.recording)
        // The program may have set another one since.
        if let network = old.network, cache.simulatedNetwork == network { cache.simulatedNetwork = nil }
        if let pressure = old.pressure, cache.simulatedMemoryPressure == pressure {
            cache.simulatedMemoryPressure = nil
        }
        await old.server?.stop()
    }

    func simulate(network: SimulatedNetwork?) {
        state.withLock { $0.network = network }
        cache.simulatedNetwork = network
    }

    func simulate(pressure: MemoryPressure?) {
        state.withLock { $0.pressure = pressure }
        cache.simulatedMemoryPressure = pressure
    }

    /// Records events from now on.
    /// - Returns: the number of the run, for ``pageClosed(_:)``.
    @discardableResult
    func pageOpened() -> Int {
        let (isFirst, run) = state.withLock { state in
            state.pages += 1
            return (state.pages == 1 && state.server != nil, state.run)
        }
        guard isFirst else { return run }
        model.awaitFetches()
        let recording = cache.observe(model)
        let isNeeded = state.withLock { state in
            guard state.run == run, state.pages > 0, state.recording == nil else { return false }
            state.recording = recording
            return true
        }
        if isNeeded { model.reopen(cache.queueSnapshot(limit: 1_000)) } else { withExtendedLifetime(recording) {} }
        return run
    }

    func pageClosed(_ run: Int) {
        endRecording(
            state.withLock { state in
                guard state.run == run else { return nil }
                state.pages = max(0, state.pages - 1)
                return state.pages == 0 ? state.recording.take() : nil
            })
    }

    private func endRecording(_ recording: ChangeObservation?) {
        guard let recording else { return }
        withExtendedLifetime(recording) {}
        model.interrupt()
    }
}

/// The reason for which an inspector cannot be started.
public struct InspectorError: Error, Hashable, CustomStringConvertible {
    /// The system's number of the error, such as `EADDRINUSE`.
    public let errno: Int32

    /// Another program, or another inspector, listens on the port.
    public static let addressInUse = InspectorError(errno: EADDRINUSE)
    /// This machine does not have the address.
    public static let addressNotAvailable = InspectorError(errno: EADDRNOTAVAIL)
    /// The system lets this user not listen on the port.
    public static let notPermitted = InspectorError(errno: EACCES)
    /// The address is no IP address, or the port is not between 0 and 65,535.
    public static let invalidAddress = InspectorError(errno: EINVAL)

    /// The system's sentence for the error.
    public var description: String { "the inspector cannot listen: \(String(cString: strerror(errno)))" }
}
