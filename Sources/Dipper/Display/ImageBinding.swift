import Synchronization

/// The connection between a cache and one display, which shows the newest picture that was set and no other.
///
/// ```swift
/// let binding = ImageBinding(view)
/// binding.setImage(url, placeholder: .color(.clear))
/// ```
///
/// A binding does not keep its ``ImageDisplay`` alive. It calls the display on one queue, and must be called on that
/// queue too. A picture in memory is shown before `setImage` returns. Off screen (``didDisappear()``) the picture is
/// prefetched; back on screen (``willAppear()``) the call is urgent again.
public final class ImageBinding: Sendable {
    /// A closure that receives the result of a picture that was set, once.
    public typealias Completion = @Sendable @isolated(any) (Result<ImageResponse, DipperError>) -> Void

    // Safe to share, because the display is used on its own queue alone.
    private struct Target: @unchecked Sendable {
        weak var display: (any ImageDisplay)?
    }

    private struct Link: Sendable {
        var state = DisplayState()
        var request: ImageRequest?
        var completion: (@Sendable (Result<ImageResponse, DipperError>) -> Void)?
        var task: ImageTask?
        /// The call for the picture that is being set; `nil` while no picture is being set.
        var begun: ImageTask??
        var player: AnimationPlayer?
        var error: DipperError?
        /// The number of the latest call. News of earlier calls is ignored.
        var token = 0
        var setting = 0
        /// Decided and not yet performed, in order, each with the number of the picture that it is for.
        var actions: ArraySlice<(DisplayState.Action, setting: Int)> = []
        var isPerforming = false

        mutating func nextAction() -> (DisplayState.Action, setting: Int)? {
            let next = actions.popFirst()
            if next == nil { isPerforming = false }
            return next
        }
    }

    private let target: Target
    private let cache: ImageCache
    private let queue: CallbackQueue
    /// The options for pictures that are set without options.
    public let options: DisplayOptions
    private let link = Mutex(Link())
    private let pressure = AtomicLazyReference<ChangeObservation>()
    private let hiding = AtomicLazyReference<ChangeObservation>()

    /// Creates a binding for a display that is on screen.
    ///
    /// The cache logs a warning when the main queue or a custom one runs nothing for a second, and when `setImage` is
    /// called outside of the main queue that the binding has.
    /// - Parameters:
    ///   - display: the display, which the binding does not keep.
    ///   - cache: the cache that loads the pictures.
    ///   - queue: the serial queue on which the display is called: for a widget of another loop than the main queue's, such
    ///     as GTK's, a `CallbackQueue.custom` that adds an idle call to that loop. `nil` for the cache's `callbackQueue` if
    ///     that is a custom one, and otherwise the main queue, for displays of the main actor.
    ///   - options: the options for pictures that are set without options.
    public init(
        _ display: any ImageDisplay, cache: ImageCache = .shared, queue: CallbackQueue? = nil,
        options: DisplayOptions = DisplayOptions()
    ) {
        target = Target(display: display)
        self.cache = cache
        self.queue = queue ?? cache.data.displayQueue
        self.options = options
        let observation = cache.observeMemoryPressure { [weak self] in self?.press($0) }
        _ = pressure.storeIfNil(observation)
        _ = hiding.storeIfNil(cache.observeHiding { [weak self] in self?.hide($0) })
    }

    deinit {
        let isBusy = link.withLock { $0.state.activity != nil }
        let completion = abandon()
        guard completion != nil || isBusy else { return }
        queue.perform { [target] in
            if isBusy { target.display?.showActivity(nil) }
            completion?(.failure(.cancelled))
        }
    }

    /// Shows the picture of a request in place of the present content; without a request, the placeholder.
    ///
    /// The completion is called once, on the display's queue or on its own actor, with the picture or the error:
    /// `DipperError.replaced` if another picture was set meanwhile, `DipperError.noSource` if there was no request.
    ///
    /// ```swift
    /// binding.setImage(ImageRequest(url).processed(by: .circle), placeholder: .color(.black)) { result in
    ///     if case .failure(let error) = result, error != .replaced { print(error) }
    /// }
    /// ```
    /// - Returns: the call that loads the picture; `nil` if there is none, or if the method is called by the display or
    ///   a completion, so that the call is made afterwards.
    @discardableResult
    public func setImage(
        _ request: ImageRequest?, placeholder: DisplayOptions.Placeholder? = nil, options: DisplayOptions? = nil,
        @_inheritActorContext then completion: Completion? = nil
    ) -> ImageTask? {
        set(request, placeholder, options ?? self.options, presence, completion.map(onItsActor))
    }

    @discardableResult
    func set(
        _ request: ImageRequest?, _ placeholder: DisplayOptions.Placeholder?, _ options: DisplayOptions,
        _ presence: DisplayState.Presence, _ completion: (@Sendable (Result<ImageResponse, DipperError>) -> Void)?
    ) -> ImageTask? {
        if request != nil { cache.data.watch(queue) }
        var request = request?.with(\.callbackQueue, queue)
        let sizes = request?.givenOptions?.sizes
        if let asked = request, options.downsampling != nil || sizes != nil, let size = target.display?.pixelSize {
            let chain = asked.resolved(cache.defaults).chain
            if let mode = options.downsampling, chain.processors.isEmpty {
                request = asked.processed(by: .resize(to: TargetSize(size, mode)))
            } else if chain.decodeTarget == nil, sizes?.pixels == nil, !size.isEmpty {
                request = asked.sized(for: size)
            }
        }
        let policy = request.map { cache.policy(of: $0) } ?? .useCache
        var glimpse: Image?
        // This puts the picture into memory, where the call finds it at once, unless the picture may not be kept there.
        if let request, options.loadsFromDiskAtOnce, presence == .visible, policy.readsDisk, policy != .diskOnly {
            glimpse = cache.readImage(for: request)
        }
        let (old, setting) = link.withLock { link in
            // Kept until the end, because nothing must be freed while the lock is held.
            let old = link
            link.request = request
            link.completion = completion
            link.error = nil
            link.setting += 1
            link.token += 1
            return (old, link.setting)
        }
        old.completion?(.failure(.replaced))
        // The completion may have set another picture.
        guard link.withLock({ $0.setting == setting }) else { return nil }
        link.withLock { $0.begun = .some(nil) }
        change {
            $0.set(
                isWanted: request != nil, placeholder, options, presence,
                mayGlimpse: policy.readsDisk, glimpse: glimpse)
        }
        return link.withLock { exchange(&$0.begun, with: nil) } ?? nil
    }

    /// Shows the picture of a URL, which may be text, in place of the present content; without a URL, the placeholder.
    @discardableResult
    public func setImage(
        _ source: (some ImageRequestConvertible)?, placeholder: DisplayOptions.Placeholder? = nil,
        options: DisplayOptions? = nil,
        @_inheritActorContext then completion: Completion? = nil
    ) -> ImageTask? {
        setImage(source?.imageRequest, placeholder: placeholder, options: options, then: completion)
    }

    /// Shows a picture of the program's own files, found as by ``ImageCache/getImage(named:)``.
    @discardableResult
    public func setImage(
        named name: String, placeholder: DisplayOptions.Placeholder? = nil, options: DisplayOptions? = nil,
        @_inheritActorContext then completion: Completion? = nil
    ) -> ImageTask? {
        setImage(ImageRequest(named: name, in: cache), placeholder: placeholder, options: options, then: completion)
    }

    /// Shows the picture of a URL or request, and returns when it is shown. May be called from any task; cancelling that task
    /// cancels the picture.
    /// - Throws: `DipperError.replaced` if another picture was set meanwhile, and every error that a call of the cache
    ///   may end with.
    @discardableResult
    public func setImageAndWait(
        _ source: some ImageRequestConvertible, placeholder: DisplayOptions.Placeholder? = nil,
        options: DisplayOptions? = nil
    ) async throws -> ImageResponse {
        let request = source.imageRequest
        if Task.isCancelled { throw DipperError.cancelled }
        let (results, end) = AsyncStream.makeStream(of: Result<ImageResponse, DipperError>.self)
        let cancellation = Cancellation()
        let setting = await withTaskCancellationHandler {
            await withCheckedContinuation { (continuation: CheckedContinuation<Int?, Never>) in
                queue.perform {
                    // A picture that was set while this one waited for the queue stays.
                    if cancellation.isSet { return continuation.resume(returning: nil) }
                    self.setImage(request, placeholder: placeholder, options: options) { end.yield($0) }
                    continuation.resume(returning: self.link.withLock { $0.setting })
                }
            }
        } onCancel: {
            cancellation.set()
        }
        guard let setting else { throw DipperError.cancelled }
        // The stream ends without a result as soon as the task is cancelled.
        for await result in results { return try result.get() }
        queue.perform { [weak self] in self?.cancel(setting: setting) }
        throw DipperError.cancelled
    }

    /// Cancels the picture that the binding waits for. The display keeps what it shows.
    public func cancel() { change { $0.cancel() } }

    private func cancel(setting: Int) {
        if link.withLock({ $0.setting == setting }) { cancel() }
    }

    /// The player of the animated picture that is shown, for hooks on its loops and end; `nil` if there is none.
    public var player: AnimationPlayer? { link.withLock { $0.player } }

    /// The reason for which the latest call for the picture has failed; `nil` if none has ended, or it brought the picture.
    /// A picture that is loaded again, because the display is back on screen, calls no completion.
    package var error: DipperError? { link.withLock { $0.error } }

    // MARK: Presence

    /// Whether the display is on screen, as far as the binding knows.
    public var isOnScreen: Bool { [.visible, .passing].contains(presence) }

    /// Tells the binding that the display comes on screen. The call for the picture becomes urgent, a picture that was
    /// released is loaded again, and an animation continues.
    public func willAppear() { move(to: .visible) }

    /// Tells the binding that the display has gone off screen. The call for the picture continues as a prefetch, an
    /// animation pauses, and the picture is released if the system is short of memory.
    public func didDisappear() { move(to: .offScreen) }

    private var presence: DisplayState.Presence { link.withLock { $0.state.presence } }

    func move(to presence: DisplayState.Presence) { change { $0.move(to: presence) } }

    func onQueue(_ work: @escaping @Sendable () -> Void) { queue.perform(work) }

    /// Called on any thread.
    private func press(_ level: MemoryPressure) {
        queue.perform { [weak self] in self?.change { $0.press(level) } }
    }

    /// Called on any thread.
    private func hide(_ isHidden: Bool) {
        queue.perform { [weak self] in self?.change { $0.hide(isHidden) } }
    }

    // MARK: Actions

    /// Performs the actions that follow from an event, after those that are being performed. `token` is the number of
    /// the call that the event comes from; `nil` for other events.
    private func change(token: Int? = nil, _ event: (inout DisplayState) -> [DisplayState.Action]) {
        guard target.display != nil else {
            abandon()?(.failure(.cancelled))
            return
        }
        let (old, isFirst) = link.withLock { link -> (DisplayState, Bool) in
            // Kept until the end, because nothing must be freed while the lock is held.
            let old = link.state
            guard token == nil || token == link.token else { return (old, false) }
            link.actions += event(&link.state).map { ($0, setting: link.setting) }
            return (old, !exchange(&link.isPerforming, with: true))
        }
        withExtendedLifetime(old) {}
        guard isFirst else { return }
        while let (action, setting) = link.withLock({ $0.nextAction() }) { perform(action, setting) }
    }

    /// Ends the call and the player, when the display or the binding is gone. Returns the completion to call.
    private func abandon() -> (@Sendable (Result<ImageResponse, DipperError>) -> Void)? {
        let (task, player, completion) = link.withLock { link in
            link.token += 1
            return (
                exchange(&link.task, with: nil), exchange(&link.player, with: nil),
                exchange(&link.completion, with: nil)
            )
        }
        task?.cancel()
        player?.stop()
        return completion
    }

    /// A display or a completion may have set another picture since the action was decided.
    private func perform(_ action: DisplayState.Action, _ setting: Int) {
        switch action {
        case .complete(let result):
            let completion = link.withLock { link in
                link.setting == setting ? exchange(&link.completion, with: nil) : nil
            }
            completion?(result)
        case .demote: link.withLock { $0.task }?.moveToSlowQueue()
        case .dispose(let disposal):
            let task = link.withLock { link in
                link.token += 1
                return exchange(&link.task, with: nil)
            }
            dispose(of: task, disposal)
        case .pause: player?.pause()
        case .resume: player?.resume()
        case .stop: link.withLock { exchange(&$0.player, with: nil) }?.stop()
        case .releaseFrames: player?.releaseBuffer()
        // Carried out even if out of date: the state relies on what the display has been told.
        case .show(let content, let transition): target.display?.show(content, transition)
        case .activity(let activity): target.display?.showActivity(activity)
        case _ where link.withLock({ $0.setting != setting }): break
        case .fetch(let fetch, let disposal): self.fetch(fetch, disposal)
        case .play(let image): play(image, setting)
        }
    }

    private func play(_ image: Image, _ setting: Int) {
        var options = link.withLock { $0.state.options.animation }
        options.callbackQueue = queue
        let player = AnimationPlayer(image, options: options)
        link.withLock { exchange(&$0.player, with: player) }?.stop()
        player.onFrame { [weak self] frame, index in
            guard let self else { return }
            if link.withLock({ $0.setting == setting }) { change { $0.advance(to: frame, index) } }
        }
        player.start()
    }

    private func fetch(_ fetch: DisplayState.Fetch, _ disposal: DisplayOptions.Abandonment) {
        guard let wanted = link.withLock({ $0.request }) else { return }
        // The binding itself looks for another size, which is shown in place of the placeholder.
        let shows = wanted.resolved(cache.defaults).options.showsOtherSizes
        let request = shows == true ? wanted.with(\.showsOtherSizes, false) : wanted
        let task =
            switch fetch {
            case .urgent: cache.getImage(request)
            case .cached: cache.getImage(request.with(\.cachePolicy, .cacheOnly))
            case .slow: cache.slowGetImage(request)
            }
        let (token, old) = link.withLock { link in
            link.token += 1
            if link.begun != nil { link.begun = task }
            return (link.token, exchange(&link.task, with: task))
        }
        if let answer = task.outcome {
            end(answer, token)
        } else {
            let standIn = shows == false ? nil : cache.otherSizeInMemory(of: wanted)
            change(token: token) { $0.began(standIn) }
            listen(to: task, token)
            if standIn == nil, shows != false, fetch == .urgent { readOtherSize(of: wanted, for: task, token) }
        }
        dispose(of: old, disposal)
    }

    private func readOtherSize(of request: ImageRequest, for task: ImageTask, _ token: Int) {
        cache.readOtherSize(of: request, for: task) { [weak self, queue] image in
            queue.perform { [weak self] in self?.change(token: token) { $0.show(inPlace: image) } }
        }
    }

    private func dispose(of task: ImageTask?, _ disposal: DisplayOptions.Abandonment) {
        switch disposal {
        case .moveToSlowQueue: task?.moveToSlowQueue()
        case .cancel: task?.cancel()
        }
    }

    private func listen(to task: ImageTask, _ token: Int) {
        if task.options.options.showsPreviews == true {
            task.onPreview { [weak self] image in self?.change(token: token) { $0.preview(image) } }
        }
        task.onProgress { [weak self] progress in
            self?.change(token: token) {
                $0.progress { $0.progress = progress.expected == nil ? nil : progress }
            }
        }
        task.onFail { [weak self] _, isFatal in
            if !isFatal { self?.change(token: token) { $0.progress { $0.isWaiting = true } } }
        }
        task.onRetry { [weak self] in self?.change(token: token) { $0.progress { $0.isWaiting = false } } }
        task.onEnd { [weak self] in self?.end($0, token) }
    }

    private func end(_ result: Result<ImageResponse, DipperError>, _ token: Int) {
        // A call that has ended still holds its picture.
        let ended = link.withLock { link -> ImageTask? in
            guard link.token == token else { return nil }
            link.error = if case .failure(let error) = result { error } else { nil }
            return exchange(&link.task, with: nil)
        }
        withExtendedLifetime(ended) {}
        change(token: token) { $0.end(result) }
        guard case .success(let response) = result, let revalidation = response.revalidation else { return }
        revalidation.onEnd { [weak self] newer in
            if case .success(let response) = newer { self?.change(token: token) { $0.renew(response) } }
        }
    }
}
