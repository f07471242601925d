/// Fetches many things that someone may look at later, in `slowQueue`, a few at a time: a ``DataPrefetcher``, or an
/// `ImagePrefetcher` of `Dipper`.
///
/// ```swift
/// let prefetcher = DataPrefetcher(cache, urls: urls)
///     .onProgress { print($0.fraction) }
///     .onEnd { print($0.failed.count) }
/// prefetcher.start()
/// ```
///
/// What is there already is skipped, of which no more is read than is noted with it. What is out of date counts as not
/// there, so that the server is asked whether it still holds. Few calls are under way at a time: a million URLs cost no
/// more than their list. What is asked for urgently meanwhile is promoted, and fetched once.
///
/// All calls may be made from any thread and return at once. Letting go of the prefetcher stops it.
public final class Prefetcher<Request: Sendable>: Sendable {
    private let core: PrefetchCore<Request>

    package init(_ core: PrefetchCore<Request>) {
        self.core = core
    }

    /// Begins. Without effect the second time.
    @discardableResult
    public func start() -> Prefetcher {
        core.start()
        return self
    }

    /// Adds requests behind those that wait.
    /// - Returns: false, and nothing is added, if the prefetcher has ended.
    @discardableResult
    public func add(_ requests: [Request]) -> Bool { core.add(requests) }

    /// Starts no more calls. Those under way go on to their ends, which are near: there are few of them.
    public func pause() { core.pause() }

    /// Goes on after a pause.
    public func resume() { core.resume() }

    /// Whether it has been paused.
    public var isPaused: Bool { core.isPaused }

    /// Cancels the calls under way, unless others wait for the same, and starts no more. It ends at once; what was not done
    /// is told as ``PrefetchResult/remaining``. What has arrived of broken off bodies is kept, to go on from there later.
    public func stop() { core.stop() }

    /// How far it has come.
    public var progress: PrefetchProgress { core.progress }

    /// Called at the start and as requests end, on the cache's callback queue; with the latest state where they end faster
    /// than that.
    @discardableResult
    public func onProgress(_ body: @escaping @Sendable (PrefetchProgress) -> Void) -> Prefetcher {
        core.onProgress(body)
        return self
    }

    /// Called once, when all requests have ended or the prefetcher has been stopped, on the cache's callback queue. Nothing
    /// is told after that.
    @discardableResult
    public func onEnd(_ body: @escaping @Sendable (PrefetchResult<Request>) -> Void) -> Prefetcher {
        core.onEnd(body)
        return self
    }

    /// Starts, and returns when all requests have ended or the prefetcher has been stopped, whether its closures have been
    /// called by then or not. Cancelling the Swift task that awaits it stops the prefetcher.
    public var value: PrefetchResult<Request> {
        get async {
            core.start()
            return await core.value
        }
    }

    deinit { core.stop() }
}
