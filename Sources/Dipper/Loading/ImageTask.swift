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
/// `FetchTask` has the hooks, such as `then` and `onFail`, and says when they are called. The call continues if the
/// handle is released. A task ends exactly once and delivers no event afterwards.
public final class ImageTask: FetchTask {
    /// The picture.
    public typealias Value = Image
    /// The picture and where it came from.
    public typealias Response = ImageResponse

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
    /// The queue in which the call was made.
    public let requestedQueue: FetchQueue
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

    /// Delivers news to listeners. The feed is made with the first listener, or with the first news before the end: a
    /// call that memory answers often has neither.
    final class Feed: Sendable {
        let news = TaskFeed<Event>()
    }

    private struct Link {
        var feed: Feed?
        /// The result, while there is no feed.
        var outcome: Result<ImageResponse, DipperError>?
        var hasEnded = false
        var wantsProgress = false
        /// The request of the cache; `nil` for a call that memory has answered.
        var call: ObjectCall<ImageMaker>?
    }

    init(
        _ request: ImageRequest, key: CacheKey, options: ResolvedOptions, queue: FetchQueue,
        callbackQueue: CallbackQueue
    ) {
        askedRequest = request
        ownKey = key
        ownImageKey = options.key(key)
        self.options = options
        self.callbackQueue = callbackQueue
        requestedQueue = queue
        link = Mutex(Link())
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
                await withUnsafeContinuation { feed.news.wait($0) }
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
    public func cancel() {
        _ = call?.cancel()
        // The picture may be on its way from the cache.
        finish(.failure(.cancelled))
    }

    /// Turns this call into a prefetch. A transfer in progress is not restarted, and hooks stay in place.
    public func moveToSlowQueue() { call?.moveToSlowQueue() }

    /// The order of the call inside its queue. It may be changed while the call waits.
    public var priority: Priority {
        get { call?.priority ?? askedRequest.data.priority }
        set { call?.priority = newValue }
    }

    /// The queue that the call is in now, or was in when it ended.
    public var queue: FetchQueue { call?.queue ?? requestedQueue }

    /// The number of network attempts made so far for the bytes that this call waits for.
    public var attempts: Int { call?.attempts ?? 0 }

    /// The present state of the task.
    public var state: State {
        switch answer {
        case .success: return .finished
        case .failure(let error): return .failed(error)
        case nil: break
        }
        switch call?.stage {
        case .searching: return .waiting
        // The cache has answered, and the picture is being handed out.
        case nil: return call?.hasBegun == true ? .decoding : .waiting
        case .making: return .decoding
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

    private var call: ObjectCall<ImageMaker>? { link.withLock { $0.call } }

    /// Has a cache make the picture.
    func start(_ objects: ImageObjects, _ origin: FetchOrigin, _ path: [ImageStep]) {
        let call = ObjectCall<ImageMaker>(requestedQueue, askedRequest.data.priority)
        // The task may have been handed out before, and cancelled.
        let (isOver, wantsProgress) = link.withLock { link in
            if !link.hasEnded { link.call = call }
            return (link.hasEnded, link.wantsProgress)
        }
        if isOver { return }
        let end: @Sendable (Result<ImageObjects.Object, DipperError>) -> Void = { [weak objects] result in
            let object = try? result.get()
            let newer = object?.revalidation.flatMap { bytes in
                objects.map { Revalidation(self, $0, origin.with(self.request.data), path, object?.claim) { bytes } }
            }
            self.handingOut {
                self.finish(
                    result.map { object in
                        ImageResponse(
                            self.options.handOut(object.product), source: object.source, info: object.info,
                            attempts: object.attempts, metrics: object.metrics, revalidation: newer)
                    })
            }
        }
        let waiter = ImageObjects.Waiter(
            options, end: end, tell: { self.hear($0) },
            show: { image in self.handingOut { self.tellPreview(image) } }, chose: { self.decide($0.request) })
        var interest: FetchInterest = options.options.showsPreviews == true ? .previews : []
        if wantsProgress { interest.insert(.progress) }
        call.begin(objects) { [interest] want in objects.ask(waiter, origin, path, want, interest: interest) }
    }

    /// Runs a closure that hands out a picture. A modifier is code of the program's own: it runs after the actions of
    /// the cache.
    private func handingOut(_ body: @escaping @Sendable () -> Void) {
        if options.options.imageModifier == nil { body() } else { Afterwards.run(body) }
    }

    /// Sets the request that applies in place of the one that was made. Has no effect the second time.
    private func decide(_ request: DataRequest) {
        let key = request.cacheKey
        _ = decided.storeIfNil(Names(askedRequest.with(\.data, request), key, options.key(key)))
    }

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

    /// Ends the task, once.
    func finish(_ result: Result<ImageResponse, DipperError>) {
        let (feed, call, isFirst) = link.withLock { link -> (Feed?, ObjectCall<ImageMaker>?, Bool) in
            if exchange(&link.hasEnded, with: true) { return (nil, nil, false) }
            if link.feed == nil { link.outcome = result }
            return (link.feed, link.call, true)
        }
        guard isFirst else { return }
        call?.end(attempts: (try? result.get())?.attempts)
        if let feed, feed.news.end(result, on: callbackQueue, { self.flush() }) { Afterwards.run { self.flush() } }
    }

    func tellPreview(_ image: Image) {
        let flush: @Sendable () -> Void = { self.flush() }
        if feed.news.preview(options.handOut(image), on: callbackQueue, flush) { Afterwards.run(flush) }
    }

    private func hear(_ news: FetchNews) {
        let flush: @Sendable () -> Void = { self.flush() }
        let flushes: Bool =
            switch news {
            case .failure(let error): feed.news.fail(error, on: callbackQueue, flush)
            case .retry: feed.news.retry(on: callbackQueue, flush)
            case .progress(let progress): feed.news.progress(progress, on: callbackQueue, flush)
            case .ended, .moved: false
            }
        call?.note(news)
        if flushes { Afterwards.run(flush) }
    }

    func wantProgress() {
        let call = link.withLock { link in
            link.wantsProgress = true
            return link.call
        }
        call?.listen(to: .progress)
    }

    /// Adds a hook. The methods of `FetchTask`, such as `onEnd`, add hooks of each kind.
    public func add(_ hook: TaskHook<ImageResponse>) {
        if case .progress = hook { wantProgress() }
        if feed.news.add(hook, on: callbackQueue, { self.flush() }) { flush() }
    }

    func flush() { feed.news.flush() }
}
