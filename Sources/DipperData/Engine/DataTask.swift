import Foundation
import Synchronization

/// The handle of one call for bytes: await its ``value``, add hooks, cancel it, change its queue or priority.
///
/// ```swift
/// let task = cache.getData(url)
/// task.onProgress { progress in print(progress.fraction) }
/// let data = try await task.value
/// ```
///
/// ``FetchTask`` has the hooks, such as ``FetchTask/then(_:)`` and ``FetchTask/onFail(_:)``, and says when they are
/// called. The call continues if the handle is released. A task ends exactly once, with a result or an error.
public final class DataTask: FetchTask {
    /// The bytes of the answer.
    public typealias Value = Data
    /// The bytes and where they came from.
    public typealias Response = DataResponse

    /// The state of a task.
    public enum State: Sendable, Hashable {
        /// The task waits in its queue, or is being looked up on disk.
        case waiting
        case transferring
        /// The transfer is held back for more urgent work.
        case paused
        /// The task waits for the network or for a back-off.
        case parked
        case finished
        case failed(DipperError)
    }

    /// An event in the life of a task.
    public enum Event: Sendable {
        /// The state of the task when the stream was created. This event comes first.
        case state(DataTask.State)
        case progress(TaskProgress)
        /// A failure. If it is not fatal, the task waits and tries again.
        case failure(DipperError, isFatal: Bool)
        /// A new attempt begins.
        case retry
        case finished(DataResponse)
    }

    /// The call as it was made, or the call for the smaller source that has taken its place.
    var call: Call { substituted.load() ?? asked }
    private let asked: Call
    private let substitute: Call?
    private let substituted = AtomicLazyReference<Call>()
    let isRevalidation: Bool
    let tellsEnd: Bool
    /// The queue the call was made in.
    public let requestedQueue: FetchQueue
    let identity = EventIdentity()
    private let feed = TaskFeed<Event>()
    private let link: Mutex<Link>

    nonisolated(unsafe) var wait: FetchWait
    /// The task itself while it waits, so that the engine need not own it.
    private nonisolated(unsafe) var own: DataTask?
    nonisolated(unsafe) var isGivenUp = false

    private struct Link {
        /// `nil` before the task waits, and after its end.
        var engine: Engine?
        var priority: Priority
        var queue: FetchQueue?
        var attempts = 0
        var wantsProgress = false
        var viewer: (@Sendable (Data) -> Void)?
        var observers: [Observer] = []
        var hasEnded = false
    }

    init(
        _ call: Call, queue: FetchQueue, orElse substitute: Call? = nil, isRevalidation: Bool = false,
        tellsEnd: Bool = true
    ) {
        asked = call
        self.substitute = substitute
        self.isRevalidation = isRevalidation
        self.tellsEnd = tellsEnd
        requestedQueue = queue
        wait = FetchWait(Urgency(queue: queue, level: 0))
        link = Mutex(Link(priority: call.request.priority))
    }

    /// The request of this call. If its ``DataRequest/lowDataSource`` is fetched in place of the URL, this is the
    /// request for that source.
    public var request: DataRequest { call.request }

    /// The key by which the call is deduplicated and cached. If the request has a ``DataRequest/lowDataSource`` that is
    /// fetched in place of the URL, this is the key of that source, as soon as the cache has found nothing for the URL.
    public var key: CacheKey { call.key }

    // MARK: The result

    /// The bytes of the answer. Cancelling the Swift task that awaits them cancels this call.
    public var value: Data {
        get async throws(DipperError) { try await response.data }
    }

    /// The bytes and where they came from. Cancelling the Swift task that awaits them cancels this call.
    public var response: DataResponse {
        get async throws(DipperError) {
            let result = await withTaskCancellationHandler {
                await withUnsafeContinuation { feed.wait($0) }
            } onCancel: {
                cancel()
            }
            return try result.get()
        }
    }

    // MARK: Events

    /// Calls a closure now and then, as ``FetchTask/onProgress(_:)`` does, with the bytes of the body received so far. A
    /// second closure takes the place of the first. A body that is at hand anyway is not shown in parts.
    ///
    /// ```swift
    /// cache.getData(url).onBytes { bytes in parser.parse(bytes) }
    /// ```
    @discardableResult
    public func onBytes(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (Data) -> Void
    ) -> DataTask {
        let body = onItsActor(body)
        watchBytes { [weak self, queue = call.callbackQueue] bytes in
            guard let self else { return }
            // No closure is called after the end.
            queue.perform { if self.feed.outcome == nil { body(bytes) } }
        }
        return self
    }

    func watchBytes(_ body: @escaping @Sendable (Data) -> Void) {
        let engine = link.withLock { link in
            if !link.hasEnded { link.viewer = body }
            return link.engine
        }
        engine?.post { $0.want(.bytes, for: self) }
    }

    /// Work that hears of the task as soon as the engine tells it.
    struct Observer: Sendable {
        let hear: @Sendable (FetchNews) -> Void
        let end: @Sendable (Result<DataResponse, DipperError>, _ attempts: Int) -> Void
    }

    func add(_ observer: Observer) {
        let attempts = link.withLock { link -> Int? in
            if link.hasEnded { return link.attempts }
            link.observers.append(observer)
            return nil
        }
        if let attempts, let outcome = feed.outcome { observer.end(outcome, attempts) }
    }

    /// The events of the task from now on, after its present state. The stream ends with the task.
    ///
    /// ```swift
    /// for await event in task.events {
    ///     if case .progress(let progress) = event { print(progress.fraction) }
    /// }
    /// ```
    public var events: AsyncStream<Event> {
        let events = feed.events(present: state) { [weak self] in self?.feed.forget(stream: $0) }
        wantProgress()
        return events
    }

    func wantProgress() {
        let engine = link.withLock { link in
            link.wantsProgress = true
            return link.engine
        }
        engine?.post { $0.want(.progress, for: self) }
    }

    // MARK: Cancelling and moving

    /// Cancels this call, which ends with ``DipperError/cancelled``. The fetch goes on if other calls wait for it.
    public func cancel() { engine?.post { $0.cancel(self) } }

    /// Moves this call to `slowQueue`, where it is a prefetch. Nothing is started anew and no hook is lost.
    public func moveToSlowQueue() { engine?.post { $0.move(self, to: .slow) } }
    /// Moves this call to `fastQueue`, as an urgent call that joins it would.
    package func moveToFastQueue() { engine?.post { $0.move(self, to: .fast) } }

    private var engine: Engine? { link.withLock { $0.engine } }

    /// The priority of the call inside its queue. It can be changed while the call waits.
    public var priority: Priority {
        get { link.withLock { $0.priority } }
        set {
            let engine = link.withLock { link in
                link.priority = newValue
                return link.engine
            }
            engine?.post { $0.setPriority(newValue, of: self) }
        }
    }

    /// The queue the call is in now, or was in when it ended.
    public var queue: FetchQueue {
        let now = engine?.ask { _ in self.wait.fetch == nil ? nil : self.wait.want.queue } ?? nil
        return now ?? link.withLock { $0.queue } ?? requestedQueue
    }

    /// The number of network attempts made so far by the fetch that this call waits for.
    public var attempts: Int {
        let now = engine?.ask { _ in self.wait.fetch?.attempts } ?? nil
        return now ?? link.withLock { $0.attempts }
    }

    /// The state of the task now.
    public var state: State {
        if let outcome = feed.outcome { return Self.state(outcome) }
        let now = engine?.ask { _ in self.wait.fetch?.state } ?? nil
        return feed.outcome.map(Self.state) ?? now ?? .waiting
    }

    private static func state(_ outcome: Result<DataResponse, DipperError>) -> State {
        switch outcome {
        case .success: .finished
        case .failure(let error): .failed(error)
        }
    }

    /// The identifier of the call in the events of the cache.
    package var eventID: CacheEvent.ID { identity.id }

    // MARK: Engine interface

    var isUndecided: Bool { substitute != nil && substituted.load() == nil }

    func turnToSubstitute() {
        if let substitute { _ = substituted.storeIfNil(substitute) }
    }

    func isIn(_ engine: Engine) -> Bool { self.engine === engine }

    func attach(_ engine: Engine) { link.withLock { $0.engine = engine } }

    func begin(reads: Bool) {
        wait = FetchWait(Urgency(requestedQueue, priority), reads: reads, fetches: call.mayFetch)
        own = self
    }

    /// Lets go of the engine, so that a task that is kept keeps no cache and no body alive.
    func detach(in queue: FetchQueue, attempts: Int) {
        own = nil
        let engine = link.withLock { link in
            link.queue = queue
            link.attempts = attempts
            return exchange(&link.engine, with: nil)
        }
        withExtendedLifetime(engine) {}
    }

    /// Without effect on a task that has ended.
    func end(_ result: Result<DataResponse, DipperError>) {
        feed.end(result, on: call.callbackQueue) { self.flush() }
        let (observers, attempts, viewer) = link.withLock { link in
            link.hasEnded = true
            return (exchange(&link.observers, with: []), link.attempts, exchange(&link.viewer, with: nil))
        }
        _ = consume viewer
        for observer in observers { observer.end(result, attempts) }
    }

    func tell(_ news: FetchNews) {
        for observer in link.withLock({ $0.observers }) { observer.hear(news) }
        feed.hear(news, on: call.callbackQueue) { self.flush() }
    }

    func ignoreBytes() {
        let viewer = link.withLock { exchange(&$0.viewer, with: nil) }
        _ = consume viewer
    }

    var hasViewer: Bool { link.withLock { $0.viewer != nil } }
    var wantsProgress: Bool { link.withLock { $0.wantsProgress } }

    func show(_ bytes: Data) { link.withLock { $0.viewer }?(bytes) }

    /// Adds a hook. The methods of ``FetchTask``, such as ``FetchTask/onEnd(_:)``, add hooks of each kind.
    public func add(_ hook: TaskHook<DataResponse>) {
        feed.add(hook, on: call.callbackQueue) { self.flush() }
        if case .progress = hook { wantProgress() }
    }

    private func flush() { feed.flush(on: call.callbackQueue) }
}

extension DataTask.Event: TaskEvent {
    package typealias Output = DataResponse
    package typealias State = DataTask.State
    package typealias Preview = Never
}

extension DataTask: RedactedStringConvertible {}
