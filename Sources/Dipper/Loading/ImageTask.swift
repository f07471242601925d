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
public final class ImageTask: FetchTask, ObjectTask, RedactedStringConvertible {
    /// The picture.
    public typealias Value = Image
    /// The picture and where it came from.
    public typealias Response = ImageResponse

    /// The request of the call, or the one that replaces it if the cache loads its `DataRequest.lowDataSource`.
    public var request: ImageRequest { (decided.load()?.value ?? asked).request }
    /// The key of the bytes, under which they are fetched once.
    ///
    /// If a `DataRequest.lowDataSource` is loaded in place of the URL, this is the key of that source, as soon as the
    /// cache has found nothing for the URL.
    public var key: CacheKey { (decided.load()?.value ?? asked).key }
    /// The key of the picture: the key of its bytes and the processing.
    public var imageKey: CacheKey { (decided.load()?.value ?? asked).imageKey }
    private let asked: Names
    /// Set once a look at the disk has decided between the source and the smaller one.
    private let decided = AtomicLazyReference<Reference<Names>>()
    /// The queue in which the call was made.
    public let requestedQueue: FetchQueue
    let options: ResolvedOptions
    package let callbackQueue: CallbackQueue
    /// The end of a call that was answered at once, which often has no listener, and so no feed.
    private let answer: Result<ImageResponse, DipperError>?
    private let madeFeed = AtomicLazyReference<Reference<TaskFeed<Event>>>()

    /// The best preview so far: 0 for none, 1 for a part of the picture, 2 for another size, 3 for the whole.
    private let shown = Atomic(0)

    private struct Names {
        let request: ImageRequest
        let key: CacheKey
        let imageKey: CacheKey
    }

    init(
        _ request: ImageRequest, key: CacheKey, imageKey: CacheKey, options: ResolvedOptions, queue: FetchQueue,
        callbackQueue: CallbackQueue, answer: Result<ImageResponse, DipperError>? = nil
    ) {
        asked = Names(request: request, key: key, imageKey: imageKey)
        self.options = options
        self.callbackQueue = callbackQueue
        self.answer = answer
        requestedQueue = queue
    }

    private var feed: Reference<TaskFeed<Event>> {
        let priority = asked.request.data.priority
        return madeFeed.load()
            ?? madeFeed.storeIfNil(
                Reference(TaskFeed(priority: priority, queue: requestedQueue, outcome: answer)))
    }

    // MARK: Results

    /// The picture. Cancelling the Swift task that awaits it cancels this call. The call's hooks may run later.
    public var value: Image {
        get async throws { try await response.image }
    }

    /// The picture and where it came from. Cancelling the Swift task that awaits it cancels this call. The call's hooks
    /// may run later.
    public var response: ImageResponse {
        get async throws {
            if let answer { return try answer.get() }
            return try await awaited
        }
    }

    // MARK: Cancellation, queue and state

    /// Ends this call with `DipperError.cancelled`. The work continues if other calls wait for it.
    public func cancel() {
        feed.value.cancel()
        // The picture may be on its way from the cache.
        end(.failure(.cancelled))
    }

    /// Turns this call into a prefetch. A transfer in progress is not restarted, and hooks stay in place.
    public func moveToSlowQueue() { feed.value.moveToSlowQueue() }

    /// The order of the call inside its queue. It may be changed while the call waits.
    public var priority: Priority {
        get { feed.value.priority }
        set { feed.value.setPriority(newValue) }
    }

    /// The queue that the call is in now, or was in when it ended.
    public var queue: FetchQueue { feed.value.queue }

    /// The number of network attempts made so far for the bytes that this call waits for.
    public var attempts: Int { feed.value.attempts }

    /// The present state of the task.
    public var state: TaskState { presentState }

    // MARK: Events

    /// Calls a closure with coarse or partial pictures while the bytes of a JPEG, PNG, WebP or GIF file arrive, unless
    /// ``ImageOptions/showsPreviews`` is `false`.
    ///
    /// A progressive or interlaced picture is coarse. In other previews the rows that have not arrived are transparent.
    /// Previews are processed like the picture itself, and are not kept.
    ///
    /// ```swift
    /// cache.getImage(url)
    ///     .onPreview { preview in view.show(preview) }
    ///     .then { image in view.show(image) }
    /// ```
    @discardableResult
    public func onPreview(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (Image) -> Void
    ) -> ImageTask {
        feed.value.add(preview: onItsActor(body), for: self)
        wantPreviews()
        return self
    }

    /// Adds a hook, as the methods of `FetchTask`, such as `onEnd`, do.
    public func add(_ hook: TaskHook<ImageResponse>) { feed.value.add(hook, for: self) }

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
        feed.value.events(present: state) { [weak self] in self?.feed.value.forget($0) }
    }

    /// The arrival of the bytes, as `FetchTask.progress` describes.
    public var progress: AsyncStream<TaskProgress> {
        feed.value.progress { [weak self] in self?.feed.value.forget($0) }
    }

    /// The previews of the picture from now on, the latest first; see ``onPreview(_:)``. The sequence ends with the task.
    /// A reader that falls behind gets the latest preview.
    ///
    /// ```swift
    /// for await preview in task.previews { view.show(preview) }
    /// view.show(try await task.value)
    /// ```
    public var previews: AsyncStream<Image> {
        wantPreviews()
        return feed.value.previews { [weak self] in self?.feed.value.forget($0) }
    }

    private func wantPreviews() { if options.options.showsPreviews != false { feed.value.wantPreviews() } }

    package var outcome: Result<ImageResponse, DipperError>? { answer ?? madeFeed.load()?.value.outcome }
    package func withFeed<Answer>(_ body: (borrowing TaskFeed<Event>) -> Answer) -> Answer { body(feed.value) }

    package func end(_ result: Result<MadeObject, DipperError>, _ renewal: Making?) {
        let newer = renewal.map { Self.begin($0, request, options, callbackQueue) }
        handingOut { [self] in
            end(
                result.map { object in
                    ImageResponse(
                        options.handOut(object.product.value()), source: object.basis.source,
                        info: object.basis.info, attempts: object.basis.attempts, metrics: object.basis.metrics,
                        revalidation: newer, asked: object.basis.asked)
                })
        }
    }

    /// Has a newer picture made, whether anyone waits for it or not.
    static func begin(
        _ renewal: Making, _ request: ImageRequest, _ options: ResolvedOptions, _ callbackQueue: CallbackQueue
    ) -> ImageTask {
        let key = renewal.origin.dataKey
        let newer = ImageTask(
            request, key: key, imageKey: options.key(key), options: options, queue: .slow,
            callbackQueue: callbackQueue)
        ObjectCall.start(newer, renewal, options.calling)
        return newer
    }

    /// A modifier is code of the program's own: it runs after the actions of the cache.
    private func handingOut(_ body: @escaping @Sendable () -> Void) {
        if options.options.imageModifier == nil { body() } else { Afterwards.run(body) }
    }

    /// Shows the picture in another size as a preview, unless one of the arriving bytes has come.
    func show(inPlace other: Image) {
        let isFirst = shown.compareExchange(expected: 0, desired: 2, ordering: .relaxed).exchanged
        if isFirst { feed.value.preview(other, for: self) }
    }

    package func show(_ preview: Product) {
        let image = preview.value(as: Image.self)
        let quality = image.isOpaque ? 3 : 1
        guard shown.max(quality, ordering: .relaxed).oldValue <= quality else { return }
        handingOut { [self] in feed.value.preview(options.handOut(image), for: self) }
    }

    func runBeside(_ cost: @escaping Workers.Measure, _ work: @escaping WorkBeside) {
        feed.value.runBeside(cost, work)
    }

    /// Has no effect the second time.
    package func choose(_ request: DataRequest, _ key: CacheKey) {
        let names = Names(request: asked.request.with(\.data, request), key: key, imageKey: options.key(key))
        _ = decided.storeIfNil(Reference(names))
    }

    /// An event of a task. See ``ImageTask/events``.
    public enum Event: Sendable, TaskEvent {
        /// The first event of a stream: the state of the task when the stream was made.
        case state(TaskState)
        /// The arrival of bytes.
        case progress(TaskProgress)
        /// An answer that came before the final one.
        case interim(InterimResponse)
        /// A coarse or partial picture, if ``ImageOptions/showsPreviews`` is set or previews have been asked for.
        case preview(Image)
        /// A failure. If it is fatal, it is the last event; otherwise the task waits to try again.
        case failure(DipperError, isFatal: Bool)
        /// The start of a new attempt after a failure.
        case retry(after: DipperError)
        /// The picture, as the last event.
        case finished(ImageResponse)

        package typealias Output = ImageResponse
        package typealias Preview = Image
    }
}
