import DipperData
import Foundation
import Synchronization

/// Brings pictures of a cache to one display: the newest that was asked for, and only that.
///
/// A binding belongs to one ``ImageDisplay``, which it does not keep alive, and has one queue on which the display is
/// called; its own calls are made there too. A picture in memory is shown before `setImage` returns. While the display is
/// off screen what it waits for goes on as a prefetch (``didDisappear()``), and is urgent again when it comes back
/// (``willAppear()``).
public final class ImageBinding: Sendable {
    /// Told once what has become of a picture that was set.
    public typealias Completion = @Sendable (Result<ImageResponse, DipperError>) -> Void

    // The display is touched on its own queue alone.
    private struct Target: @unchecked Sendable {
        weak var display: (any ImageDisplay)?
    }

    private struct Link {
        var state: DisplayState
        var request: ImageRequest?
        var options: DisplayOptions
        var completion: Completion?
        var task: ImageTask?
        var player: AnimatedImage?
        /// Changes with every call: what an older one tells is not heard.
        var token = 0
        /// Changes with every picture that is set.
        var setting = 0
        /// What is to be carried out, and for which setting.
        var pending: [(action: DisplayState.Action, setting: Int)] = []
        var isPerforming = false
    }

    private let target: Target
    private let cache: ImageCache
    private let queue: CallbackQueue
    /// For pictures that are set without any.
    public let options: DisplayOptions
    private let link: Mutex<Link>
    private let pressure = Mutex<ChangeObservation?>(nil)

    /// A binding for a display that is on screen.
    /// - Parameters:
    ///   - display: what shows the pictures.
    ///   - cache: where they come from.
    ///   - queue: where the display is called, a serial one: for a widget a `CallbackQueue.custom` that adds an idle call
    ///     to the loop of the user interface.
    ///   - options: for pictures that are set without any.
    public init(
        _ display: any ImageDisplay, cache: ImageCache = .shared, queue: CallbackQueue,
        options: DisplayOptions = DisplayOptions()
    ) {
        target = Target(display: display)
        self.cache = cache
        self.queue = queue
        self.options = options
        link = Mutex(Link(state: DisplayState(), options: options))
        let observation = cache.observeMemoryPressure { [weak self] in self?.press($0) }
        pressure.withLock { $0 = observation }
    }

    deinit {
        let link = link.withLock { $0 }
        link.task?.cancel()
        link.player?.stop()
        let (completion, isBusy) = (link.completion, link.state.activity != nil)
        guard completion != nil || isBusy else { return }
        queue.perform { [target] in
            if isBusy { target.display?.showActivity(nil) }
            completion?(.failure(.cancelled))
        }
    }

    // MARK: What is shown

    /// Shows a picture in place of what is shown now.
    /// - Parameters:
    ///   - request: which one; `nil` for none, which shows the placeholder.
    ///   - placeholder: shown until it is there.
    ///   - options: `nil` for those of the binding.
    ///   - completion: called once, on the display's queue: with the picture, or why there is none.
    ///     `DipperError.replaced` if another one was set meanwhile, `DipperError.noSource` if there was no request.
    public func setImage(
        _ request: ImageRequest?, placeholder: Placeholder? = nil, options: DisplayOptions? = nil,
        then completion: Completion? = nil
    ) {
        set(request, placeholder, options ?? self.options, presence, completion)
    }

    func set(
        _ request: ImageRequest?, _ placeholder: Placeholder?, _ options: DisplayOptions,
        _ presence: DisplayState.Presence, _ completion: Completion?
    ) {
        let request = request?.with(\.callbackQueue, queue)
        let policy = request.map { cache.data.policy(of: $0.data) } ?? .useCache
        var glimpse: Image?
        if let request, options.loadsFromDiskAtOnce, presence == .visible, policy == .useCache || policy == .cacheOnly {
            // Puts it into memory, where it is found at once.
            glimpse = cache.image(for: request)
        }
        let (old, setting) = link.withLock { link in
            // Kept to the end, for nothing is to be freed under the lock.
            let old = link
            link.request = request
            link.options = options
            link.completion = completion
            link.setting += 1
            // What the call for the picture before tells is not about this one.
            link.token += 1
            return (old, link.setting)
        }
        old.completion?(.failure(.replaced))
        // Whoever was told may have set another one.
        guard link.withLock({ $0.setting == setting }) else { return }
        change {
            $0.set(
                isWanted: request != nil, placeholder, options, presence,
                mayGlimpse: policy == .useCache || policy == .cacheOnly, glimpse: glimpse)
        }
    }

    /// The same for a URL.
    public func setImage(
        _ url: URL, placeholder: Placeholder? = nil, options: DisplayOptions? = nil,
        then completion: Completion? = nil
    ) {
        setImage(ImageRequest(url), placeholder: placeholder, options: options, then: completion)
    }

    /// The same from any task, returning when the picture is shown.
    ///
    /// Cancelling the task that waits gives the picture up.
    /// - Throws: `DipperError.replaced` if another one was set meanwhile, and all that a call of the cache may end as.
    @discardableResult
    public func setImageAndWait(
        _ request: ImageRequest, placeholder: Placeholder? = nil, options: DisplayOptions? = nil
    ) async throws(DipperError) -> ImageResponse {
        let wait = Wait()
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation {
                (continuation: CheckedContinuation<Result<ImageResponse, DipperError>, Never>) in
                queue.perform {
                    if wait.isCancelled { return continuation.resume(returning: .failure(.cancelled)) }
                    self.setImage(request, placeholder: placeholder, options: options) {
                        continuation.resume(returning: $0)
                    }
                    wait.setting = self.link.withLock { $0.setting }
                }
            }
        } onCancel: {
            wait.isCancelled = true
            queue.perform { [weak self] in self?.cancel(setting: wait.setting) }
        }
        return try result.get()
    }

    /// Gives up the picture that is waited for; what is shown stays.
    public func cancel() { change { $0.cancel() } }

    /// Between a task that waits and its cancellation.
    private final class Wait: Sendable {
        private let state = Mutex((isCancelled: false, setting: 0))

        var isCancelled: Bool {
            get { state.withLock { $0.isCancelled } }
            set { state.withLock { $0.isCancelled = newValue } }
        }

        var setting: Int {
            get { state.withLock { $0.setting } }
            set { state.withLock { $0.setting = newValue } }
        }
    }

    private func cancel(setting: Int) {
        if link.withLock({ $0.setting == setting }) { cancel() }
    }

    /// What plays the picture that is shown, if it moves: for hooks on its loops and its end.
    public var animatedImage: AnimatedImage? { link.withLock { $0.player } }

    // MARK: Where the display is

    /// Whether someone can see the display, as far as this binding has been told.
    public var isOnScreen: Bool { [.visible, .passing].contains(presence) }

    /// The display comes on screen: what it waits for is urgent, what it let go of comes back, what moves goes on.
    public func willAppear() { move(to: .visible) }

    /// The display has gone off screen: what it waits for goes on as a prefetch, what moves stops, and the picture is let
    /// go of if the system is short of memory.
    public func didDisappear() { move(to: .offScreen) }

    private var presence: DisplayState.Presence { link.withLock { $0.state.presence } }

    func move(to presence: DisplayState.Presence) { change { $0.move(to: presence) } }

    func onQueue(_ work: @escaping @Sendable () -> Void) { queue.perform(work) }

    /// On any thread.
    private func press(_ level: MemoryPressure) {
        queue.perform { [weak self] in self?.change { $0.press(level) } }
    }

    // MARK: Carrying out

    /// - Parameter token: of the call that tells it; `nil` for what no call tells.
    private func change(token: Int? = nil, _ event: (inout DisplayState) -> [DisplayState.Action]) {
        guard target.display != nil else { return giveUp() }
        let (isFirst, old) = link.withLock { link in
            // Kept to the end, for nothing is to be freed under the lock.
            let old = link.state
            guard token == nil || token == link.token else { return (false, old) }
            link.pending += event(&link.state).map { ($0, link.setting) }
            return (!exchange(&link.isPerforming, with: true), old)
        }
        withExtendedLifetime(old) {}
        // What a display or a completion sets off comes behind what it was called for.
        guard isFirst else { return }
        while let next = takePending() { perform(next.action, next.setting) }
    }

    private func takePending() -> (action: DisplayState.Action, setting: Int)? {
        link.withLock { link in
            if link.pending.isEmpty {
                link.isPerforming = false
                return nil
            }
            return link.pending.removeFirst()
        }
    }

    /// The display is gone.
    private func giveUp() {
        let (task, player, completion) = link.withLock { link in
            link.token += 1
            return (
                exchange(&link.task, with: nil), exchange(&link.player, with: nil),
                exchange(&link.completion, with: nil)
            )
        }
        task?.cancel()
        player?.stop()
        completion?(.failure(.cancelled))
    }

    /// - Parameter setting: of the picture that it is about. A display or a completion may have set another one meanwhile.
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
        case .pause: animatedImage?.pause()
        case .resume: animatedImage?.resume()
        case .stop: link.withLock { exchange(&$0.player, with: nil) }?.stop()
        case .releaseFrames: animatedImage?.releaseBuffer()
        // Even if out of date by now: the state counts on the display's having been told.
        case .show(let content, let transition): target.display?.show(content, transition)
        case .activity(let activity): target.display?.showActivity(activity)
        case _ where link.withLock({ $0.setting != setting }): break
        case .fetch(let fetch, let disposal): self.fetch(fetch, disposal)
        case .play(let image): play(image, setting)
        }
    }

    private func play(_ image: Image, _ setting: Int) {
        var options = link.withLock { $0.options.animation }
        options.callbackQueue = queue
        let player = AnimatedImage(image, options: options)
        link.withLock { exchange(&$0.player, with: player) }?.stop()
        player.onFrame { [weak self] frame, index in
            guard let self else { return }
            if link.withLock({ $0.setting == setting }) { change { $0.advance(to: frame, index) } }
        }
        player.start()
    }

    private func fetch(_ fetch: DisplayState.Fetch, _ disposal: DisplayOptions.Abandonment) {
        guard let request = link.withLock({ $0.request }) else { return }
        let task =
            switch fetch {
            case .urgent: cache.getImage(request)
            case .cached: cache.getImage(request.with(\.cachePolicy, .cacheOnly))
            case .slow: cache.slowGetImage(request)
            }
        let (token, old) = link.withLock { link in
            link.token += 1
            return (link.token, exchange(&link.task, with: task))
        }
        if let answer = task.answer {
            end(answer, token)
        } else {
            change(token: token) { $0.began() }
            listen(to: task, token)
        }
        dispose(of: old, disposal)
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
                $0.progress { $0.fraction = progress.expected == nil ? nil : progress.fraction }
            }
        }
        task.onFail { [weak self] _, isFatal in
            if !isFatal { self?.change(token: token) { $0.progress { $0.isWaiting = true } } }
        }
        task.onRetry { [weak self] in self?.change(token: token) { $0.progress { $0.isWaiting = false } } }
        task.onEnd { [weak self] in self?.end($0, token) }
    }

    private func end(_ result: Result<ImageResponse, DipperError>, _ token: Int) {
        // An ended call holds its picture.
        let ended = link.withLock { $0.token == token ? exchange(&$0.task, with: nil) : nil }
        withExtendedLifetime(ended) {}
        change(token: token) { $0.end(result) }
        // A picture that is out of date may be followed by a newer one.
        guard case .success(let response) = result, let revalidation = response.revalidation else { return }
        revalidation.onEnd { [weak self] newer in
            if case .success(let response) = newer { self?.change(token: token) { $0.renew(response) } }
        }
    }
}
