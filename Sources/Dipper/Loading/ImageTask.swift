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
    /// If a `DataRequest.lowDataSource` is loaded in place of the URL, this is the key of that source, as soon as the
    /// cache has found nothing for the URL.
    public var key: CacheKey { decided.load()?.key ?? ownKey }
    /// The key of the picture: the key of its bytes and the processing.
    public var imageKey: CacheKey { decided.load()?.imageKey ?? ownImageKey }
    private let askedRequest: ImageRequest
    private let ownKey: CacheKey
    private let ownImageKey: CacheKey
    /// Set once a look at the disk has decided between the source and the smaller one.
    private let decided = AtomicLazyReference<Names>()
    /// The queue in which the call was made.
    public let requestedQueue: FetchQueue
    let options: ResolvedOptions
    let callbackQueue: CallbackQueue
    /// `nil` unless memory has answered.
    private let hit = AtomicLazyReference<Hit>()
    private let madeFeed = AtomicLazyReference<Feed>()
    /// `nil` if memory has answered.
    private let call = AtomicLazyReference<ObjectCall>()

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

    /// A call that memory answers often has no listener, and so no feed.
    private final class Feed: Sendable {
        let news = TaskFeed<Event>()
    }

    private final class Hit: Sendable {
        let response: ImageResponse

        init(_ response: ImageResponse) { self.response = response }
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
    }

    // MARK: Results

    /// The picture. Cancelling the Swift task that awaits it cancels this call. The call's hooks may run later.
    public var value: Image {
        get async throws(DipperError) { try await response.image }
    }

    /// The picture and where it came from. Cancelling the Swift task that awaits it cancels this call. The call's hooks
    /// may run later.
    public var response: ImageResponse {
        get async throws(DipperError) {
            if let hit = hit.load() { return hit.response }
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
    public func cancel() {
        call.load()?.cancel()
        // The picture may be on its way from the cache.
        finish(.failure(.cancelled))
    }

    /// Turns this call into a prefetch. A transfer in progress is not restarted, and hooks stay in place.
    public func moveToSlowQueue() { call.load()?.moveToSlowQueue() }

    /// The order of the call inside its queue. It may be changed while the call waits.
    public var priority: Priority {
        get { call.load()?.priority ?? askedRequest.data.priority }
        set { call.load()?.priority = newValue }
    }

    /// The queue that the call is in now, or was in when it ended.
    public var queue: FetchQueue { call.load()?.queue ?? requestedQueue }

    /// The number of network attempts made so far for the bytes that this call waits for.
    public var attempts: Int { call.load()?.attempts ?? 0 }

    /// The present state of the task.
    public var state: State {
        if let outcome = answer { return Self.state(outcome) }
        switch call.load()?.stage {
        case .looking: return .waiting
        case .making: return .decoding
        case .fetching(let task):
            switch task.state {
            case .waiting: return .waiting
            case .transferring: return .transferring
            case .paused: return .paused
            case .parked: return .parked
            case .finished, .failed: return .decoding
            }
        // The cache has answered, and the picture is being handed out.
        case nil: return answer.map(Self.state) ?? (call.load() == nil ? .waiting : .decoding)
        }
    }

    private static func state(_ outcome: Result<ImageResponse, DipperError>) -> State {
        switch outcome {
        case .success: .finished
        case .failure(let error): .failed(error)
        }
    }

    // MARK: Loading

    func start(_ cache: ObjectCache, _ origin: Origin, _ step: any ObjectStep) {
        let made = ObjectCall(self, cache, origin, step, options.calling, requestedQueue)
        call.storeIfNil(made).start()
    }

    private var feed: Feed {
        if let feed = madeFeed.load() { return feed }
        let made = Feed()
        // There is no listener yet, so there is no hook to call.
        if let hit = hit.load() { made.news.end(.success(hit.response), on: callbackQueue) {} }
        return madeFeed.storeIfNil(made)
    }

    /// `nil` until the task has ended.
    var answer: Result<ImageResponse, DipperError>? {
        hit.load().map { .success($0.response) } ?? madeFeed.load()?.news.outcome
    }

    /// Must be called before anybody else has the task.
    func finish(atOnce response: ImageResponse) { _ = hit.storeIfNil(Hit(response)) }

    func finish(_ result: Result<ImageResponse, DipperError>) {
        if hit.load() == nil { feed.news.end(result, on: callbackQueue) { self.flush() } }
    }

    /// Adds a hook, as the methods of `FetchTask`, such as `onEnd`, do.
    public func add(_ hook: TaskHook<ImageResponse>) {
        if case .progress = hook { call.load()?.wantProgress() }
        feed.news.add(hook, on: callbackQueue) { self.flush() }
    }

    private func flush() { feed.news.flush(on: callbackQueue) }

    // MARK: Events

    /// Calls a closure with coarse or partial pictures while the bytes of a JPEG, PNG, WebP or GIF file arrive, if
    /// ``ImageOptions/showsPreviews`` is set.
    ///
    /// A progressive or interlaced picture is coarse. In other previews the rows that have not arrived are transparent.
    /// Previews are processed like the picture itself, and are not kept.
    ///
    /// ```swift
    /// cache.getImage(ImageRequest(url).with(\.showsPreviews, true))
    ///     .onPreview { preview in view.show(preview) }
    ///     .then { image in view.show(image) }
    /// ```
    @discardableResult
    public func onPreview(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (Image) -> Void
    ) -> ImageTask {
        feed.news.add(preview: onItsActor(body), on: callbackQueue) { self.flush() }
        return self
    }

    /// The events of the task from now on, after the present state. The stream ends with the task.
    ///
    /// ```swift
    /// for await event in cache.getImage(url).events {
    ///     switch event {
    ///     case .progress(let progress): bar.set(progress.fraction)
    ///     case .finished(let response): view.show(response.image)
    ///     default: break
    ///     }
    /// }
    /// ```
    public var events: AsyncStream<Event> {
        call.load()?.wantProgress()
        return feed.news.events(present: state) { [weak self] in self?.feed.news.forget(stream: $0) }
    }
}

extension ImageTask: ObjectTask {
    package func end(_ result: Result<MadeObject, DipperError>, _ renewal: ObjectCall.Renewal?) {
        let newer = renewal.map(self.newer)
        handingOut { [self] in
            finish(
                result.map { object in
                    ImageResponse(
                        options.handOut(object.product.value()), source: object.basis.source,
                        info: object.basis.info, attempts: object.basis.attempts, metrics: object.basis.metrics,
                        revalidation: newer)
                })
        }
    }

    /// Has a newer picture made, whether anyone waits for it or not.
    func newer(_ renewal: ObjectCall.Renewal) -> ImageTask {
        let newer = ImageTask(
            request, key: renewal.origin.request.cacheKey, options: options, queue: .slow, callbackQueue: callbackQueue)
        newer.start(renewal.cache, renewal.origin, renewal.step)
        return newer
    }

    /// A modifier is code of the program's own: it runs after the actions of the cache.
    private func handingOut(_ body: @escaping @Sendable () -> Void) {
        if options.options.imageModifier == nil { body() } else { Afterwards.run(body) }
    }

    package func hear(_ news: FetchNews) {
        feed.news.hear(news, on: callbackQueue) { self.flush() }
    }

    package func show(_ preview: Product) {
        handingOut { [self] in
            feed.news.preview(options.handOut(preview.value()), on: callbackQueue) { self.flush() }
        }
    }

    /// Has no effect the second time.
    package func choose(_ request: DataRequest) {
        let key = request.cacheKey
        _ = decided.storeIfNil(Names(askedRequest.with(\.data, request), key, options.key(key)))
    }
}

extension ImageTask {
    /// The state of a task.
    public enum State: Sendable, Hashable {
        /// The task is in its queue, or the cache is looking for the picture on disk.
        case waiting
        /// The bytes are arriving.
        case transferring
        /// The transfer is held back for urgent work.
        case paused
        /// The task waits for the network or for a back-off.
        case parked
        /// The bytes are there, and are being decoded and processed or wait for that.
        case decoding
        /// The task has ended with a picture.
        case finished
        /// The task has ended with an error.
        case failed(DipperError)
    }

    /// An event of a task. See ``ImageTask/events``.
    public enum Event: Sendable {
        /// The first event of a stream: the state of the task when the stream was made.
        case state(ImageTask.State)
        /// The arrival of bytes.
        case progress(TaskProgress)
        /// A coarse or partial picture, if ``ImageOptions/showsPreviews`` is set.
        case preview(Image)
        /// A failure. If it is fatal, it is the last event; otherwise the task waits to try again.
        case failure(DipperError, isFatal: Bool)
        /// The start of a new attempt.
        case retry
        /// The picture, as the last event.
        case finished(ImageResponse)
    }
}

extension ImageTask.Event: TaskEvent {
    package typealias Output = ImageResponse
    package typealias State = ImageTask.State
    package typealias Preview = Image
}

extension ImageTask: RedactedStringConvertible {}
