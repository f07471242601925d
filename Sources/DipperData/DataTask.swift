import Foundation
import Synchronization

/// The handle of one call: await its ``value``, add hooks, cancel it, change its lane or priority.
///
/// The handle may be let go of; the call goes on. Hooks added late hear what has happened already. A task ends
/// exactly once, with a result or an error, and nothing is told after that.
public final class DataTask: Sendable {
    /// What a task is doing.
    public enum State: Sendable, Hashable {
        /// In its lane, or being looked up on disk.
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
        case state(State)
        case progress(TaskProgress)
        /// A failure; if it is not fatal, the task waits to try again.
        case failure(DipperError, isFatal: Bool)
        /// A new attempt begins.
        case retry
        case finished(DataResponse)
    }

    let call: Call
    /// The lane the call was made in.
    public let requestedLane: Lane
    private let log = Mutex(TaskLog())
    private let link: Mutex<Link>

    /// What ties the task to the engine while it lasts.
    struct Link {
        var engine: FetchEngine?
        var id: TaskID?
        var job: FetchJob?
        var priority: Priority
        /// The lane the task ended in.
        var lane: Lane?
        /// Why the answer will not do for this task, if it does for others.
        var failure: DipperError?
        /// Of the job when the task ended.
        var attempts = 0
        /// Failures that counted as attempts, and the time of the first failure.
        var failures = 0
        var firstFailure: Duration?
        var isTimeoutArmed = false
    }

    init(_ call: Call, lane: Lane) {
        self.call = call
        requestedLane = lane
        link = Mutex(Link(priority: call.request.priority))
    }

    /// What was asked for.
    public var request: DataRequest { call.request }

    /// The key the call is deduplicated and cached by.
    public var key: CacheKey { call.key }

    // MARK: The result

    /// The bytes. Cancelling the Swift task that awaits them cancels this call.
    public var value: Data {
        get async throws(DipperError) { try await response.data }
    }

    /// The bytes and where they came from. Cancelling the Swift task that awaits them cancels this call.
    public var response: DataResponse {
        get async throws(DipperError) {
            let result = await withTaskCancellationHandler {
                await withCheckedContinuation { continuation in
                    let result = log.withLock { $0.await(continuation) }
                    if let result { continuation.resume(returning: result) }
                }
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
        link.withLock { $0.job }?.wantsProgress.store(true, ordering: .relaxed)
        return self
    }

    /// All that happens from now on, after the present state. Ends with the task.
    public var events: AsyncStream<Event> {
        let present = state
        link.withLock { $0.job }?.wantsProgress.store(true, ordering: .relaxed)
        return AsyncStream { continuation in
            let number = log.withLock { $0.add(continuation, present: present) }
            guard let number else { return }
            continuation.onTermination = { [weak self] _ in
                _ = self?.log.withLock { $0.streams.removeValue(forKey: number) }
            }
        }
    }

    /// Called if the call was answered with bytes that are out of date (`stale-while-revalidate`), once the newer ones
    /// are there, or could not be had. They are fetched in the slow lane; see ``DataResponse/revalidation``.
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
    public func cancel() {
        let (engine, id) = link.withLock { ($0.engine, $0.id) }
        if let engine, let id { engine.cancel(id) }
    }

    /// Makes this call a prefetch. Nothing is started anew and no hook is lost.
    public func moveToSlowQueue() {
        let (engine, id) = link.withLock { ($0.engine, $0.id) }
        if let engine, let id { engine.demote(id) }
    }

    /// The order inside the lane; may be changed while the call waits.
    public var priority: Priority {
        get { link.withLock { $0.priority } }
        set {
            let (engine, id) = link.withLock { link in
                link.priority = newValue
                return (link.engine, link.id)
            }
            if let engine, let id { engine.setPriority(newValue, of: id) }
        }
    }

    /// The lane the call is in now, or was in when it ended.
    public var lane: Lane {
        let (engine, id, last) = link.withLock { ($0.engine, $0.id, $0.lane) }
        guard last == nil, let engine, let id else { return last ?? requestedLane }
        return engine.lane(of: id) ?? link.withLock { $0.lane } ?? requestedLane
    }

    /// Network attempts made so far for what this call waits for.
    public var attempts: Int {
        let (job, attempts) = link.withLock { ($0.job, $0.attempts) }
        return job?.withState { $0.attempts } ?? attempts
    }

    /// What the task is doing now.
    public var state: State {
        if let outcome = log.withLock({ $0.outcome }) { return Self.state(outcome) }
        let (engine, id) = link.withLock { ($0.engine, $0.id) }
        guard let engine, let id, let state = engine.state(of: id) else {
            // Between the scheduler's word and the task's there may be a moment.
            return log.withLock { $0.outcome }.map(Self.state) ?? .waiting
        }
        return state
    }

    private static func state(_ outcome: Result<DataResponse, DipperError>) -> State {
        switch outcome {
        case .success: .finished
        case .failure(let error): .failed(error)
        }
    }

    // MARK: The engine's side

    func attach(_ engine: FetchEngine, id: TaskID, job: FetchJob) {
        link.withLock { link in
            link.engine = engine
            link.id = id
            link.job = job
        }
    }

    /// Lets go of engine and job, so that a task that is kept keeps no cache and no body alive. The caller releases them.
    func detach(in lane: Lane) -> (FetchEngine?, FetchJob?) {
        let attempts = link.withLock { $0.job }?.withState { $0.attempts } ?? 0
        return link.withLock { link in
            link.lane = lane
            link.attempts = attempts
            return (exchange(&link.engine, with: nil), exchange(&link.job, with: nil))
        }
    }

    func withLink<Result>(_ body: (inout sending Link) -> sending Result) -> Result {
        link.withLock(body)
    }

    /// Ends the task, once. True if ``flush()`` must be called when the caller holds nothing.
    func end(_ result: Result<DataResponse, DipperError>) -> Bool {
        let ended = log.withLock { $0.end(result) }
        guard let ended else { return false }
        for continuation in ended.continuations { continuation.resume(returning: result) }
        for stream in ended.streams {
            switch result {
            case .success(let response): stream.yield(.finished(response))
            case .failure(let error): stream.yield(.failure(error, isFatal: true))
            }
            stream.finish()
        }
        return deliver()
    }

    /// Tells what happened on the way. True if ``flush()`` must be called when the caller holds nothing.
    func tell(_ event: TaskLog.Entry) -> Bool {
        let streams = log.withLock { $0.append(event) }
        for stream in streams { stream.yield(event.event) }
        return deliver()
    }

    /// Takes the latest progress. True if ``flush()`` must be called when the caller holds nothing.
    func tell(_ progress: TaskProgress) -> Bool {
        let streams = log.withLock { $0.set(progress) }
        for stream in streams { stream.yield(.progress(progress)) }
        return deliver()
    }

    // MARK: Delivery

    @discardableResult
    private func add(_ hook: TaskLog.Hook) -> DataTask {
        log.withLock { $0.add(hook) }
        if deliver() { flush() }
        return self
    }

    /// Sees to it that waiting news reaches the hooks. True if that is to happen in place.
    private func deliver() -> Bool {
        guard log.withLock({ $0.claimDelivery() }) else { return false }
        guard let run = call.queue.run else { return true }
        run { self.flush() }
        return false
    }

    /// Calls the hooks that have something to hear, one after the other, without a lock held.
    func flush() {
        while let call = log.withLock({ $0.nextCall() }) { call() }
    }
}
