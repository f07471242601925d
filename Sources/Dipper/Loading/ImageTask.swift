import Foundation
import Synchronization

/// The handle of one call for a picture: await its ``value``, add hooks, cancel it, change its queue or priority.
///
/// ```swift
/// let task = cache.getImage(url)
/// task.onProgress { progress in bar.set(progress.fraction) }
/// task.priority = .high               // before other urgent calls
/// let image = try await task.value
/// ```
///
/// The call continues if the handle is released. Hooks that are added late first receive the events that they missed;
/// of many failures and retries only the latest 64. A task ends exactly once and delivers no event afterwards.
public final class ImageTask: Sendable {
    /// The request of the call, or the one that replaces it if the cache loads its `DataRequest.lowDataSource`.
    public var request: ImageRequest { decided.load()?.request ?? askedRequest }
    /// The key of the bytes, under which they are fetched once.
    ///
    /// If the request has a `DataRequest.lowDataSource` that is loaded in place of the URL, this is the key of that
    /// source, as soon as the cache has found nothing for the URL.
    public var key: CacheKey { decided.load()?.key ?? ownKey }
    /// The key of the picture: the key of its bytes and the processing.
    public var imageKey: CacheKey { decided.load()?.imageKey ?? ownImageKey }
    private let askedRequest: ImageRequest
    private let ownKey: CacheKey
    private let ownImageKey: CacheKey
    /// The request and the keys that apply once a look at the disk has decided between the source and the smaller one.
    private let decided = AtomicLazyReference<Names>()
    /// The key of the picture in memory, and of the work that makes the picture.
    @inline(__always)
    var memoryKey: CacheKey { options.inMemory(imageKey) }
    /// The queue in which the call was made.
    public let requestedQueue: FetchQueue
    /// The key of the request as it was made. It may name bytes that a smaller source replaces.
    let askedKey: CacheKey
    /// Whether the fetch belongs to this call alone and ends with it.
    private let ownsFetch: Bool
    let options: ResolvedOptions
    let callbackQueue: CallbackQueue
    private let link: Mutex<Link>

    /// A request and the keys of its bytes and its picture.
    private final class Names: Sendable {
        let request: ImageRequest
        let key: CacheKey
        let imageKey: CacheKey

        init(_ request: ImageRequest, _ key: CacheKey, _ imageKey: CacheKey) {
            self.request = request
            self.key = key
            self.imageKey = imageKey
        }
    }

    /// The stage that the call has reached.
    enum Stage: Sendable {
        case waiting(FastReservation?)
        case fetching(DataTask)
        case decoding(DecodeWork)
        case ended
    }

    /// Delivers news to listeners. The feed is made with the first listener, or with the first news before the end: a
    /// call that memory answers often has neither.
    final class Feed: Sendable {
        let news = TaskFeed<Event>()
    }

    private struct Link {
        /// The loader, which keeps this call in its table until the call has ended.
        var loader: ImageLoader?
        var feed: Feed?
        /// The result, while there is no feed.
        var outcome: Result<ImageResponse, DipperError>?
        var stage = Stage.waiting(nil)
        var queue: FetchQueue
        var priority: Priority
        var wantsProgress = false
        var attempts = 0
        /// Whether kept bytes could not be decoded and are fetched again.
        var hasRefetched = false
        var viewer: PreviewDecoder?
        /// The removals that concern the picture since the call began.
        var removed = Removed()
    }

    init(
        _ request: ImageRequest, askedKey: CacheKey, key: CacheKey, imageKey: CacheKey, options: ResolvedOptions,
        queue: FetchQueue, callbackQueue: CallbackQueue, loader: ImageLoader? = nil, ownsFetch: Bool = true
    ) {
        askedRequest = request
        ownKey = key
        ownImageKey = imageKey
        self.askedKey = askedKey
        self.ownsFetch = ownsFetch
        self.options = options
        self.callbackQueue = callbackQueue
        requestedQueue = queue
        link = Mutex(Link(loader: loader, queue: queue, priority: request.data.priority))
    }

    // MARK: Results

    /// The picture. Cancelling the Swift task that awaits it cancels this call.
    ///
    /// The property may return before the call's hooks have run.
    public var value: Image {
        get async throws(DipperError) { try await response.image }
    }

    /// The picture and where it came from. Cancelling the Swift task that awaits it cancels this call.
    ///
    /// The property may return before the call's hooks have run. See ``ImageResponse``.
    public var response: ImageResponse {
        get async throws(DipperError) {
            let result = await withTaskCancellationHandler {
                await withCheckedContinuation { feed.news.wait($0) }
            } onCancel: {
                cancel()
            }
            return try result.get()
        }
    }

    // MARK: Cancellation, queue and state

    /// Ends this call with `DipperError.cancelled`. The work continues if other calls wait for it.
    ///
    /// ```swift
    /// let task = cache.getImage(url)
    /// task.cancel()                       // other calls for the URL are not cancelled
    /// ```
    public func cancel() { finish(.failure(.cancelled)) }

    /// Turns this call into a prefetch. A transfer in progress is not restarted, and hooks stay in place.
    public func moveToSlowQueue() {
        change {
            $0.queue = .slow
        } act: { stage in
            switch stage {
            case .waiting(let reservation):
                reservation?.release()
                link.withLock { $0.loader }?.updateLook(of: self)
            case .fetching(let task): task.moveToSlowQueue()
            case .decoding(let work): work.update(self)
            case .ended: break
            }
        }
    }

    /// The order of the call inside its queue. It may be changed while the call waits.
    public var priority: Priority {
        get { link.withLock { $0.priority } }
        set {
            change {
                $0.priority = newValue
            } act: { stage in
                switch stage {
                case .fetching(let task): task.priority = newValue
                case .decoding(let work): work.update(self)
                case .waiting: link.withLock { $0.loader }?.updateLook(of: self)
                case .ended: break
                }
            }
        }
    }

    private func change(_ body: (inout Link) -> Void, act: (Stage) -> Void) {
        let stage = link.withLock { link in
            if case .ended = link.stage { return Stage.ended }
            body(&link)
            return link.stage
        }
        act(stage)
    }

    /// The urgency of the call now.
    var wish: Wish { link.withLock { .init(queue: $0.queue, priority: $0.priority) } }

    /// The removals that concern the picture since the call began.
    var removed: Removed { link.withLock { $0.removed } }
    func revoke(_ removed: Removed) { link.withLock { $0.removed.add(removed) } }

    /// The queue that the call is in now, or was in when it ended.
    public var queue: FetchQueue { link.withLock { $0.queue } }

    /// The number of network attempts made so far for the bytes that this call waits for.
    public var attempts: Int {
        let (stage, attempts) = link.withLock { ($0.stage, $0.attempts) }
        if case .fetching(let task) = stage { return task.attempts }
        return attempts
    }

    /// The present state of the task.
    public var state: State {
        switch answer {
        case .success: return .finished
        case .failure(let error): return .failed(error)
        case nil: break
        }
        switch link.withLock({ $0.stage }) {
        case .waiting: return .waiting
        case .decoding, .ended: return .decoding
        case .fetching(let task):
            switch task.state {
            case .waiting: return .waiting
            case .transferring: return .transferring
            case .paused: return .paused
            case .parked: return .parked
            case .finished, .failed: return .decoding
            }
        }
    }

    // MARK: Loading

    /// Sets the request that applies in place of the one that was made. Has no effect the second time.
    func decide(_ request: ImageRequest) {
        let key = request.data.cacheKey
        _ = decided.storeIfNil(Names(request, key, options.key(key)))
    }

    /// Gives the task its loader, which owns the call from its start until its end.
    func attach(_ loader: ImageLoader) { link.withLock { $0.loader = loader } }

    var feed: Feed {
        link.withLock { link in
            if let feed = link.feed { return feed }
            let feed = Feed()
            // There is no listener yet, so there is no hook to call.
            if let end = exchange(&link.outcome, with: nil) { _ = feed.news.end(end, on: callbackQueue) {} }
            link.feed = feed
            return feed
        }
    }

    /// The result; `nil` until the task has ended.
    var answer: Result<ImageResponse, DipperError>? {
        let (feed, end) = link.withLock { ($0.feed, $0.outcome) }
        return end ?? feed?.news.outcome
    }

    var hasEnded: Bool {
        if case .ended = link.withLock({ $0.stage }) { true } else { false }
    }

    /// Keeps prefetches from starting until it is known whether this call fetches.
    /// - Returns: a reservation that the caller must release: the earlier one, or the given one if the call has no use
    ///   for it.
    func hold(_ reservation: FastReservation?) -> FastReservation? {
        link.withLock { link in
            guard case .waiting(let old) = link.stage else { return reservation }
            guard link.queue == .fast else { return reservation }
            link.stage = .waiting(reservation)
            return old
        }
    }

    /// Follows the fetch of the bytes.
    func follow(_ task: DataTask) {
        let (previous, queue, priority, wantsProgress) = link.withLock { link -> (Stage, FetchQueue, Priority, Bool) in
            let previous = link.stage
            if case .ended = previous { return (previous, link.queue, link.priority, false) }
            link.stage = .fetching(task)
            return (previous, link.queue, link.priority, link.wantsProgress)
        }
        switch previous {
        case .ended:
            if ownsFetch { task.cancel() }
            return
        case .waiting(let reservation): reservation?.release()
        case .fetching, .decoding: break
        }
        // The queue and the priority may have changed while the fetch was being started.
        if queue == .slow, task.requestedQueue == .fast { task.moveToSlowQueue() }
        if priority != task.priority { task.priority = priority }
        task.onFail { error, isFatal in if !isFatal { self.tellFailure(error) } }
        task.onRetry { self.tellRetry() }
        if wantsProgress { forwardProgress(of: task) }
    }

    /// Makes the task wait for work, now that the bytes are there. Returns `false` if the task has ended.
    func join(_ work: DecodeWork) -> Bool {
        let (previous, viewer, isWanted) = link.withLock { link -> (Stage, PreviewDecoder?, Bool) in
            let previous = link.stage
            if case .ended = previous { return (previous, nil, false) }
            link.stage = .decoding(work)
            return (previous, exchange(&link.viewer, with: nil), true)
        }
        if let viewer { work.loader.previews.leave(self, viewer) }
        if case .waiting(let reservation) = previous { reservation?.release() }
        if case .fetching(let task) = previous {
            let attempts = task.attempts
            link.withLock { $0.attempts = attempts }
        }
        return isWanted
    }

    /// Returns `true` the first time.
    func mayRefetch() -> Bool {
        link.withLock { link in
            defer { link.hasRefetched = true }
            return !link.hasRefetched
        }
    }

    /// Returns the decoder of previews, which the task joins the first time; `nil` if the task is not waiting for
    /// bytes.
    func previewDecoder(of previews: Previews) -> PreviewDecoder? {
        let (decoder, latest, old) = link.withLock { link -> (PreviewDecoder?, Image?, PreviewDecoder.State?) in
            // A call that has all its bytes needs no preview: the picture comes soon.
            guard case .fetching = link.stage else { return (nil, nil, nil) }
            if let decoder = link.viewer { return (decoder, nil, nil) }
            let joined = previews.join(self)
            link.viewer = joined.decoder
            return joined
        }
        _ = consume old
        if let latest { tellPreview(latest) }
        return decoder
    }

    func succeed(
        _ image: Image, source: ResponseSource, info: EntryInfo, attempts: Int = 0,
        metrics: TransferMetrics? = nil, revalidation: Revalidation? = nil
    ) {
        guard !hasEnded else { return }
        finish(
            .success(
                ImageResponse(
                    options.handOut(image), source: source, info: info, attempts: attempts, metrics: metrics,
                    revalidation: revalidation)))
    }

    /// Ends the task, once. The task releases its reservation, and leaves its fetch, its work and its previews.
    func finish(_ result: Result<ImageResponse, DipperError>) {
        let (stage, loader, feed, viewer) = link.withLock { link -> (Stage, ImageLoader?, Feed?, PreviewDecoder?) in
            let stage = link.stage
            if case .ended = stage { return (stage, nil, nil, nil) }
            if case .fetching(let task) = stage { link.attempts = task.attempts }
            link.stage = .ended
            if link.feed == nil { link.outcome = result }
            return (stage, exchange(&link.loader, with: nil), link.feed, exchange(&link.viewer, with: nil))
        }
        switch stage {
        case .ended: return
        case .waiting(let reservation):
            reservation?.release()
            loader?.updateLook(of: self)
        case .fetching(let task): if ownsFetch { task.cancel() }
        case .decoding(let work): work.leave(self)
        }
        loader?.live.remove(self)
        if let viewer { loader?.previews.leave(self, viewer) }
        if let feed, feed.news.end(result, on: callbackQueue, { self.flush() }) { flush() }
    }

    func tellPreview(_ image: Image) {
        if feed.news.preview(options.handOut(image), on: callbackQueue, { self.flush() }) { flush() }
    }

    private func tellFailure(_ error: DipperError) {
        if feed.news.fail(error, on: callbackQueue, { self.flush() }) { flush() }
    }

    private func tellRetry() {
        if feed.news.retry(on: callbackQueue, { self.flush() }) { flush() }
    }

    func wantProgress() {
        let task = link.withLock { link -> DataTask? in
            guard !link.wantsProgress else { return nil }
            link.wantsProgress = true
            if case .fetching(let task) = link.stage { return task }
            return nil
        }
        if let task { forwardProgress(of: task) }
    }

    private func forwardProgress(of task: DataTask) {
        task.onProgress { progress in
            if self.feed.news.progress(progress, on: self.callbackQueue, { self.flush() }) { self.flush() }
        }
    }

    func add(_ hook: TaskHook<Event>) -> ImageTask {
        if feed.news.add(hook, on: callbackQueue, { self.flush() }) { flush() }
        return self
    }

    private func flush() { feed.news.flush() }
}

extension ImageTask.Event: TaskEvent {
    package typealias Output = ImageResponse
    package typealias State = ImageTask.State
    package typealias Preview = Image
}
