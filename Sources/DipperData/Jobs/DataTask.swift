import Foundation
import Synchronization

/// The handle of one call: await its ``value``, add hooks, cancel it, change its queue or priority.
///
/// ```swift
/// let task = cache.getData(url)
/// task.onProgress { progress in bar.set(progress.fraction) }
/// let data = try await task.value
/// ```
///
/// The call continues if the handle is released. Hooks that are added late receive the events that they missed; of many
/// failures and retries only the latest 64. A task ends exactly once, with a result or an error, and calls no hook
/// afterwards.
///
/// Hooks are called in the order of the events, the end last. Code that awaits ``value`` may continue before or after
/// the hooks are called, because a hook may wait for its queue. To continue after all hooks, use ``onEnd(_:)``.
public final class DataTask: Sendable {
    /// What a task is doing.
    public enum State: Sendable, Hashable {
        /// In its queue, or being looked up on disk.
        case waiting
        case transferring
        /// Transferring, but held back for urgent work.
        case paused
        /// Waiting for the network or for a back-off.
        case parked
        case finished
        case failed(DipperError)
    }

    /// What a task tells.
    public enum Event: Sendable {
        /// Comes first: the state at the time the stream was made.
        case state(DataTask.State)
        case progress(TaskProgress)
        /// A failure; if it is not fatal, the task waits to try again.
        case failure(DipperError, isFatal: Bool)
        /// A new attempt begins.
        case retry
        case finished(DataResponse)
    }

    /// Waits that end with the task.
    enum Timer: Hashable { case timeout, patience }

    /// The call as it was made, or the one for the smaller source in its place.
    var call: Call { substituted.load() ?? asked }
    private let asked: Call
    /// The call for the smaller source, to be made if the cache does not have the larger one.
    private let substitute: Call?
    private let substituted = AtomicLazyReference<Call>()
    /// Fetches newer bytes for others, who have been answered.
    let isRevalidation: Bool
    /// The queue the call was made in.
    public let requestedQueue: FetchQueue
    private let feed = TaskFeed<Event>()
    private let link: Mutex<Link>

    /// What ties the task to the engine while it lasts.
    struct Link {
        var engine: FetchEngine?
        var id: TaskID?
        var job: FetchJob?
        var priority: Priority
        /// The queue the task ended in.
        var queue: FetchQueue?
        /// Why the answer will not do for this task, if it does for others.
        var failure: DipperError?
        /// Of the job when the task ended.
        var attempts = 0
        /// Failures that counted as attempts, and the time of the first failure.
        var failures = 0
        var firstFailure: Duration?
        var isTimeoutArmed = false
        var timers: [Timer: TimerQueue.ID] = [:]
        var hasEnded: Bool { queue != nil }
        /// Looks at the bytes before all are there.
        var viewer: (@Sendable (Data) -> Void)?
    }

    init(_ call: Call, queue: FetchQueue, orElse substitute: Call? = nil, isRevalidation: Bool = false) {
        asked = call
        self.substitute = substitute
        self.isRevalidation = isRevalidation
        requestedQueue = queue
        link = Mutex(Link(priority: call.request.priority))
    }

    /// What was asked for.
    public var request: DataRequest { call.request }

    /// The key by which the call is deduplicated and cached. If the request has a ``DataRequest/lowDataSource`` that is
    /// fetched in place of the URL, this is the key of that source, as soon as the cache has found nothing for the URL.
    public var key: CacheKey { call.key }

    // MARK: The result

    /// The bytes. Cancelling the Swift task that awaits them cancels this call.
    /// This may return before the call's hooks have run.
    public var value: Data {
        get async throws(DipperError) { try await response.data }
    }

    /// The bytes and where they came from. Cancelling the Swift task that awaits them cancels this call.
    /// This may return before the call's hooks have run.
    public var response: DataResponse {
        get async throws(DipperError) {
            let result = await withTaskCancellationHandler {
                await withCheckedContinuation { feed.wait($0) }
            } onCancel: {
                cancel()
            }
            return try result.get()
        }
    }

    /// Called with the bytes once they are there.
    @discardableResult
    public func then(_ body: @escaping @Sendable (Data) -> Void) -> DataTask {
        onEnd { result in
            if case .success(let response) = result { body(response.data) }
        }
    }

    /// Called once with the end, good or bad.
    @discardableResult
    public func onEnd(
        _ body: @escaping @Sendable (Result<DataResponse, DipperError>) -> Void
    ) -> DataTask {
        add(.end(body))
    }

    // MARK: Hooks

    /// Called just before each new attempt after a failure.
    @discardableResult
    public func onRetry(_ body: @escaping @Sendable () -> Void) -> DataTask {
        add(.retry(body))
    }

    /// Called at each failure: with `false` if the call waits to try again, with `true` if that was its end.
    @discardableResult
    public func onFail(_ body: @escaping @Sendable (_ error: DipperError, _ isFatal: Bool) -> Void) -> DataTask {
        add(.failure(body))
    }

    /// Called as bytes arrive, at most once per interval of the cache's configuration, and at the last byte.
    @discardableResult
    public func onProgress(_ body: @escaping @Sendable (TaskProgress) -> Void) -> DataTask {
        add(.progress(body))
        wantProgress()
        return self
    }

    /// Called now and then with what has come of the body so far, in place: on a thread that moves bytes, or this one.
    package func onBytes(_ body: @escaping @Sendable (Data) -> Void) {
        let (engine, job) = link.withLock { link in
            link.viewer = body
            return (link.engine, link.job)
        }
        guard let engine, let job else { return }
        job.wantsBytes.store(true, ordering: .relaxed)
        engine.showBytes(of: job)
    }

    /// All that happens from now on, after the present state. Ends with the task.
    public var events: AsyncStream<Event> {
        let events = feed.events(present: state) { [weak self] in self?.feed.forget(stream: $0) }
        wantProgress()
        return events
    }

    /// Has progress told from now on, beginning with what there is: the next bytes may be long in coming.
    private func wantProgress() {
        let (engine, job) = link.withLock { ($0.engine, $0.job) }
        guard let engine, let job else { return }
        job.wantsProgress.store(true, ordering: .relaxed)
        engine.showProgress(of: job)
    }

    /// Called if the call was answered with bytes that are out of date (`stale-while-revalidate`), once the newer ones
    /// are there, or could not be had. They are fetched in `slowQueue`; see ``DataResponse/revalidation``.
    @discardableResult
    public func onRevalidate(
        _ body: @escaping @Sendable (Result<DataResponse, DipperError>) -> Void
    ) -> DataTask {
        onEnd { result in
            if case .success(let response) = result { response.revalidation?.onEnd(body) }
        }
    }

    // MARK: Changing one's mind

    /// Ends this call as ``DipperError/cancelled``. The fetch goes on if others wait for it.
    public func cancel() { tell { $0.cancel($1) } }

    /// Makes this call a prefetch. Nothing is started anew and no hook is lost.
    public func moveToSlowQueue() { tell { $0.demote($1) } }

    /// Tells the engine something of this task, under the name that it has there: another after it has turned to a
    /// substitute.
    /// - Parameter body: false if the engine does not know the name any more.
    private func tell(_ body: (FetchEngine, TaskID) -> Bool) {
        var last: TaskID?
        while true {
            let (engine, id) = link.withLock { ($0.engine, $0.id) }
            guard let engine, let id, id != last, !body(engine, id) else { return }
            last = id
        }
    }

    /// The order inside the queue; may be changed while the call waits.
    public var priority: Priority {
        get { link.withLock { $0.priority } }
        set {
            link.withLock { $0.priority = newValue }
            tell { $0.setPriority(newValue, of: $1) }
        }
    }

    /// The queue the call is in now, or was in when it ended.
    public var queue: FetchQueue {
        let (engine, id, last) = link.withLock { ($0.engine, $0.id, $0.queue) }
        guard last == nil, let engine, let id else { return last ?? requestedQueue }
        return engine.queue(of: id) ?? link.withLock { $0.queue } ?? requestedQueue
    }

    /// Network attempts made so far for what this call waits for.
    public var attempts: Int {
        let (job, attempts) = link.withLock { ($0.job, $0.attempts) }
        return job?.withState { $0.attempts } ?? attempts
    }

    /// What the task is doing now.
    public var state: State {
        if let outcome = feed.outcome { return Self.state(outcome) }
        let (engine, id) = link.withLock { ($0.engine, $0.id) }
        guard let engine, let id, let state = engine.state(of: id) else {
            // Between the scheduler's word and the task's there may be a moment.
            return feed.outcome.map(Self.state) ?? .waiting
        }
        return State(state)
    }

    private static func state(_ outcome: Result<DataResponse, DipperError>) -> State {
        switch outcome {
        case .success: .finished
        case .failure(let error): .failed(error)
        }
    }

    // MARK: The engine's side

    /// Whether it is not known yet what is called for.
    var isUndecided: Bool { substitute != nil && substituted.load() == nil }

    /// The cache has not what was asked for.
    func turnToSubstitute() {
        if let substitute { _ = substituted.storeIfNil(substitute) }
    }

    func attach(_ engine: FetchEngine, id: TaskID, job: FetchJob) {
        link.withLock { link in
            link.engine = engine
            link.id = id
            link.job = job
        }
    }

    /// Lets go of engine and job, so that a task that is kept keeps no cache and no body alive. The caller releases them.
    /// - Returns: those, and the timers that are not needed any more.
    func detach(in queue: FetchQueue) -> (held: (FetchEngine?, FetchJob?), timers: [TimerQueue.ID]) {
        let attempts = link.withLock { $0.job }?.withState { $0.attempts } ?? 0
        return link.withLock { link in
            link.queue = queue
            link.attempts = attempts
            let timers = Array(exchange(&link.timers, with: [:]).values)
            return ((exchange(&link.engine, with: nil), exchange(&link.job, with: nil)), timers)
        }
    }

    func withLink<Result>(_ body: (inout sending Link) -> sending Result) -> Result {
        link.withLock(body)
    }

    // Each is true if `flush` must be called when the caller holds nothing.

    /// Ends the task, once.
    func end(_ result: Result<DataResponse, DipperError>) -> Bool {
        feed.end(result, on: call.callbackQueue) { self.flush() }
    }

    func tellFailure(_ error: DipperError) -> Bool {
        feed.fail(error, on: call.callbackQueue) { self.flush() }
    }

    func tellRetry() -> Bool {
        feed.retry(on: call.callbackQueue) { self.flush() }
    }

    /// No more of ``onBytes(_:)``.
    package func ignoreBytes() {
        let viewer = link.withLock { exchange(&$0.viewer, with: nil) }
        _ = consume viewer
    }

    var wantsBytes: Bool { link.withLock { $0.viewer != nil } }

    func show(_ bytes: Data) { link.withLock { $0.viewer }?(bytes) }

    /// Takes the latest progress.
    func tell(_ progress: TaskProgress) -> Bool {
        feed.progress(progress, on: call.callbackQueue) { self.flush() }
    }

    @discardableResult
    private func add(_ hook: TaskHook<Event>) -> DataTask {
        if feed.add(hook, on: call.callbackQueue, { self.flush() }) { flush() }
        return self
    }

    /// Calls the hooks that have something to hear, one after the other, without a lock held.
    func flush() { feed.flush() }
}

extension DataTask.State {
    /// The state of a task whose job is in this state.
    init(_ state: JobState) {
        self =
            switch state {
            case .waiting: .waiting
            case .transferring: .transferring
            case .paused: .paused
            case .parked: .parked
            }
    }
}

extension DataTask.Event: TaskEvent {
    package typealias Output = DataResponse
    package typealias State = DataTask.State
    package typealias Preview = Never
}

extension DataTask: RedactedStringConvertible {
    /// The key without secrets, the queue, and the state of the task.
    public var description: String { "\(key) \(queue.rawValue) \(state)" }
}
