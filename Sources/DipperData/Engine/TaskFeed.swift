import Foundation
import Synchronization

/// The part that all tasks have: the events and those who listen to them, and the way to the engine. Everything that
/// changes is under one lock.
package struct TaskFeed<Event: TaskEvent>: ~Copyable, Sendable {
    package typealias Outcome = Result<Event.Output, DipperError>

    // Not private: Swift 6.3 does not emit it for other files then.
    struct State {
        var log: TaskLog<Event>
        /// `nil` before the call waits in an engine, and after its end, so that a task that is kept keeps no cache alive.
        var call: WaitingCall?
        var priority: Priority
        var queue: FetchQueue
        var wantsProgress = false
        var attempts: Int32 = 0
    }

    private let state: Mutex<State>
    /// Whether the task has ended: who is about to wait need not ask under the lock.
    private let isOver: Atomic<Bool>

    /// - Parameters:
    ///   - queue: the queue in which the call is made.
    ///   - outcome: the end of a task that has ended at once.
    package init(priority: Priority, queue: FetchQueue, outcome: Outcome? = nil) {
        state = Mutex(State(log: TaskLog(outcome), priority: priority, queue: queue))
        isOver = Atomic(outcome != nil)
    }

    package var outcome: Outcome? { isOver.load(ordering: .acquiring) ? state.withLock { $0.log.outcome } : nil }

    fileprivate func wait(_ continuation: UnsafeContinuation<Outcome, Never>) {
        let result = state.withLock { $0.log.await(continuation) }
        if let result { continuation.resume(returning: result) }
    }

    /// Called with the number of a stream that is no longer read; must call ``forget(_:)``.
    package typealias Forget = @Sendable (Int) -> Void

    /// Streams the events from now on, after the present state.
    package func events(present: TaskState, forget: @escaping Forget) -> AsyncStream<Event> {
        wantProgress()
        return stream(of: 256, after: .state(present), forget) { $0.event }
    }

    package func progress(forget: @escaping Forget) -> AsyncStream<TaskProgress> {
        wantProgress()
        return stream(of: 1, forget) { if case .progress(let progress) = $0 { progress } else { nil } }
    }

    package func previews(forget: @escaping Forget) -> AsyncStream<Event.Preview> {
        stream(of: 1, forget) { if case .preview(let preview) = $0 { preview } else { nil } }
    }

    /// Streams a part of what the task tells, until its end. A reader that falls behind gets the latest `count` elements.
    private func stream<Element: Sendable>(
        of count: Int, after first: Element? = nil, _ forget: @escaping Forget,
        _ select: @escaping @Sendable (TaskLog<Event>.Item) -> Element?
    ) -> AsyncStream<Element> {
        AsyncStream(bufferingPolicy: .bufferingNewest(count)) { stream in
            let tell: TaskLog<Event>.Follower = { item, isLast in
                if let element = select(item) { stream.yield(element) }
                if isLast { stream.finish() }
            }
            if let first { stream.yield(first) }
            let number = follow(tell) { tell($0, false) }
            if let number { stream.onTermination = { _ in forget(number) } }
        }
    }

    /// Tells a follower each event from now on as it occurs, or the end if the task has ended.
    /// - Parameter startingWith: called first with the latest progress and preview, under the lock.
    /// - Returns: the number of the follower; `nil` if the task has ended.
    @discardableResult
    func follow(
        _ tell: @escaping TaskLog<Event>.Follower, startingWith: (TaskLog<Event>.Item) -> Void = { _ in }
    ) -> Int? {
        let (number, outcome) = state.withLock { state -> (Int?, Outcome?) in
            for item in state.log.latest { startingWith(item) }
            return (state.log.follow(tell), state.log.outcome)
        }
        if let outcome { tell(.end(outcome), true) }
        return number
    }

    package func forget(_ number: Int) {
        let follower = state.withLock { $0.log.forget(number) }
        _ = consume follower
    }

    // MARK: Events

    fileprivate func end(_ result: Outcome, for task: some FedTask) {
        let (ended, delivers) = state.withLock { state -> (TaskLog<Event>.Told?, Bool) in
            guard let ended = state.log.end(result) else { return (nil, false) }
            isOver.store(true, ordering: .releasing)
            return (ended, state.log.claimDelivery())
        }
        guard let ended else { return }
        for tell in ended.followers { tell(.end(result), true) }
        if !ended.continuations.isEmpty {
            Afterwards.wake { for continuation in ended.continuations { continuation.resume(returning: result) } }
        }
        if delivers { deliver(for: task) }
    }

    fileprivate func hear(_ news: DataTask.Event, for task: some FedTask) {
        switch news {
        case .failure(let error, let isFatal): tell(.failure(error, isFatal: isFatal), for: task)
        case .retry(let error): tell(.retry(after: error), for: task)
        case .progress(let progress): tell(.progress(progress), for: task)
        case .interim(let response): tell(.interim(response), for: task)
        case .state, .finished: break
        }
    }

    package func preview(_ preview: Event.Preview, for task: some FedTask) { tell(.preview(preview), for: task) }

    private func tell(_ item: TaskLog<Event>.Item, for task: some FedTask) {
        let (told, delivers) = state.withLock { ($0.log.add(item), $0.log.claimDelivery()) }
        for tell in told.followers { tell(item, false) }
        if delivers { deliver(for: task) }
    }

    package func add(_ hook: TaskHook<Event.Output>, for task: some FedTask) {
        add(.events(hook), for: task)
        if case .progress = hook { wantProgress() }
    }

    package func add(preview body: @escaping @Sendable (Event.Preview) -> Void, for task: some FedTask) {
        add(.preview(body), for: task)
    }

    private func add(_ hook: TaskLog<Event>.Hook, for task: some FedTask) {
        let delivers = state.withLock { state in
            state.log.listen(hook)
            return state.log.claimDelivery()
        }
        if delivers { deliver(for: task) }
    }

    private func deliver(for task: some FedTask) {
        let queue = task.callbackQueue
        queue.pending?.begin()
        switch queue.kind {
        case .inPlace: Afterwards.run { task.callHooks() }
        case .dispatch(let queue): Afterwards.wake(on: queue) { task.callHooks() }
        case .custom(let run): Afterwards.run { run { task.callHooks() } }
        }
    }

    /// Calls the hooks, one closure at a time, until all have heard of everything.
    fileprivate func flush(on queue: CallbackQueue) {
        while let call = state.withLock({ $0.log.nextCall() }) { call() }
        queue.pending?.end()
    }

    // MARK: The engine

    func attach(_ call: WaitingCall) { state.withLock { $0.call = call } }

    /// - Parameter queue: the queue that the call was in at its end.
    func detach(in queue: FetchQueue, attempts: Int) {
        let call = state.withLock { state in
            (state.queue, state.attempts) = (queue, Int32(clamping: attempts))
            return exchange(&state.call, with: nil)
        }
        _ = consume call
    }

    var call: WaitingCall? { state.withLock { $0.call } }

    package func cancel() { if let call { call.engine.post { call.cancel() } } }
    package func moveToSlowQueue() { if let call { call.engine.post { call.demote() } } }

    package var priority: Priority { state.withLock { $0.priority } }
    package func setPriority(_ priority: Priority) {
        state.withLock { $0.priority = priority }
        // On the loop at once, so that no other fetch takes the place of one that has become more urgent.
        if let call { call.engine.perform { _ in call.setPriority(priority) } }
    }

    /// The progress of the present attempt, until the end.
    var progress: TaskProgress? { state.withLock { $0.log.progress } }
    var wantsProgress: Bool { state.withLock { $0.wantsProgress } }
    package func wantProgress() {
        state.withLock { $0.wantsProgress = true }
        if let call { call.engine.post { call.wantProgress() } }
    }
    package func wantPreviews() { if let call { call.engine.post { call.wantPreviews() } } }
    /// Has the work done as urgently as the call, and only for as long as the call waits in `fastQueue`.
    package func runBeside(_ cost: @escaping Workers.Measure, _ work: @escaping WorkBeside) {
        if let call { call.engine.post { call.runBeside(cost, work) } }
    }

    /// The queue that the call is in now, or was in when it ended.
    package var queue: FetchQueue { status?.queue ?? state.withLock { $0.queue } }
    package var attempts: Int { status?.attempts ?? state.withLock { Int($0.attempts) } }

    /// `nil` unless the call waits in an engine.
    package var status: CallStatus? { call.flatMap { call in call.engine.ask { _ in call.status() } ?? nil } }
}

/// Cancels calls in one turn of their engine, so that none fetches because another has ended.
package func cancelTogether(_ tasks: [any FetchTask]) {
    let engine = tasks.lazy.compactMap { ($0 as? any FedTask)?.engine }.first
    let cancel = { @Sendable in for task in tasks { task.cancel() } }
    if engine?.post({ cancel() }) != true { cancel() }
}

/// A task with a ``TaskFeed``.
package protocol FedTask: FetchTask where Event: TaskEvent, Event.Output == Response {
    var callbackQueue: CallbackQueue { get }
    func withFeed<Answer>(_ body: (borrowing TaskFeed<Event>) -> Answer) -> Answer
}

extension FedTask {
    /// `nil` until the task has ended.
    package var outcome: Result<Response, DipperError>? { withFeed { $0.outcome } }

    package var awaited: Response {
        get async throws(DipperError) {
            if let outcome { return try outcome.get() }
            let result = await withTaskCancellationHandler {
                await withUnsafeContinuation {
                    (continuation: UnsafeContinuation<Result<Response, DipperError>, Never>) in
                    withFeed { $0.wait(continuation) }
                }
            } onCancel: {
                cancel()
            }
            return try result.get()
        }
    }

    fileprivate var engine: Engine? { withFeed { $0.call?.engine } }
    package var isParkedOnTestClock: Bool {
        engine?.time.isReal == false && withFeed { $0.status?.state == .parked }
    }
    func attach(_ call: WaitingCall) { withFeed { $0.attach(call) } }
    func detach(in queue: FetchQueue, attempts: Int) { withFeed { $0.detach(in: queue, attempts: attempts) } }
    func hear(_ news: DataTask.Event) { withFeed { $0.hear(news, for: self) } }
    /// Without effect on a task that has ended.
    package func end(_ result: Result<Response, DipperError>) { withFeed { $0.end(result, for: self) } }
    fileprivate func callHooks() { withFeed { $0.flush(on: callbackQueue) } }
}

package protocol TaskEvent: Sendable {
    associatedtype Output: Sendable
    /// The part of the result that can be seen before the end.
    associatedtype Preview: Sendable

    static func state(_ state: TaskState) -> Self
    static func progress(_ progress: TaskProgress) -> Self
    static func interim(_ response: InterimResponse) -> Self
    static func preview(_ preview: Preview) -> Self
    static func failure(_ error: DipperError, isFatal: Bool) -> Self
    static func retry(after error: DipperError) -> Self
    static func finished(_ output: Output) -> Self
}

extension TaskEvent where Preview == Never {
    package static func preview(_ preview: Never) -> Self {}
}

/// The events of a task, and how much of them each hook has heard. Decides which hook is called next, and calls none.
struct TaskLog<Event: TaskEvent> {
    typealias Outcome = Result<Event.Output, DipperError>

    /// An event that hooks of its kind hear, also those added later: of progress and previews the latest, of all others
    /// the latest few.
    enum Item: Sendable {
        case failure(DipperError, isFatal: Bool)
        case retry(after: DipperError)
        case progress(TaskProgress)
        case interim(InterimResponse)
        case preview(Event.Preview)
        case end(Outcome)

        var event: Event {
            switch self {
            case .failure(let error, let isFatal): .failure(error, isFatal: isFatal)
            case .retry(let error): .retry(after: error)
            case .progress(let progress): .progress(progress)
            case .interim(let response): .interim(response)
            case .preview(let preview): .preview(preview)
            case .end(.success(let output)): .finished(output)
            case .end(.failure(let error)): .failure(error, isFatal: true)
            }
        }

        /// Whether hooks that have not heard the item hear only the latest one of its kind.
        var isReplaceable: Bool {
            switch self {
            case .progress, .preview: true
            case .failure, .retry, .interim, .end: false
            }
        }

        func replaces(_ other: Item) -> Bool {
            switch (self, other) {
            // Previews do not outlive the task.
            case (.progress, .progress), (.preview, .preview), (.end, .preview): true
            default: false
            }
        }
    }

    /// Is told of each event as it occurs.
    typealias Follower = @Sendable (_ item: Item, _ isLast: Bool) -> Void

    /// The rest to be done outside of the lock.
    struct Told {
        var followers: [Follower] = []
        var continuations: [UnsafeContinuation<Outcome, Never>] = []
        /// An item that is to be released.
        var replaced: Item?
    }

    enum Hook {
        case events(TaskHook<Event.Output>)
        case preview(@Sendable (Event.Preview) -> Void)

        func call(with item: Item) -> (@Sendable () -> Void)? {
            switch (self, item) {
            case (.events(.end(let body)), .end(let result)): { body(result) }
            case (.events(.failure(let body)), .failure(let error, let isFatal)): { body(error, isFatal) }
            case (.events(.retry(let body)), .retry(let error)): { body(error) }
            case (.events(.progress(let body)), .progress(let progress)): { body(progress) }
            case (.events(.interim(let body)), .interim(let response)): { body(response) }
            case (.preview(let body), .preview(let preview)): { body(preview) }
            default: nil
            }
        }
    }

    private struct Listener {
        let hook: Hook
        var heard = 0
    }

    /// The part that a task has once there is something to tell, or if others follow it.
    private final class Contents {
        var items: [(number: Int, item: Item)] = []
        var lastNumber = 0
        var continuations: [UnsafeContinuation<Outcome, Never>] = []
        var followers: [Int: Follower] = [:]
        var lastFollower = 0
        var isDelivering = false

        init(after outcome: Outcome?) {
            if let outcome { _ = end(outcome) }
        }

        func add(_ item: Item) -> Item? {
            var replaced: Item?
            if let place = items.firstIndex(where: { item.replaces($0.item) }) {
                replaced = items.remove(at: place).item
            } else if !item.isReplaceable, items.count(where: { !$0.item.isReplaceable }) == mostItems,
                let oldest = items.firstIndex(where: { !$0.item.isReplaceable })
            {
                items.remove(at: oldest)
            }
            lastNumber += 1
            items.append((lastNumber, item))
            return replaced
        }

        func end(_ outcome: Outcome) -> Item? {
            if case .failure(let error) = outcome { _ = add(.failure(error, isFatal: true)) }
            return add(.end(outcome))
        }

        var progress: TaskProgress? {
            for (_, item) in items.reversed() {
                switch item {
                case .progress(let progress): return progress
                case .preview, .interim: continue
                case .failure, .retry, .end: return nil
                }
            }
            return nil
        }
    }

    private(set) var outcome: Outcome?
    private var first: UnsafeContinuation<Outcome, Never>?
    private var listeners = ArrayOfFew<Listener>()
    private var kept: Contents?

    init(_ outcome: Outcome?) { self.outcome = outcome }

    private var contents: Contents {
        mutating get {
            if let kept { return kept }
            let new = Contents(after: outcome)
            kept = new
            return new
        }
    }

    /// The number of events kept for late hooks: a call that retries for days must not remember each failure.
    static var mostItems: Int { 64 }

    // MARK: Events

    mutating func add(_ item: Item) -> Told {
        guard outcome == nil else { return Told() }
        let contents = contents
        if case .progress(let progress) = item, progress == contents.progress { return Told() }
        return Told(followers: Array(contents.followers.values), replaced: contents.add(item))
    }

    /// - Returns: `nil` if the task has ended before.
    mutating func end(_ result: Outcome) -> Told? {
        guard outcome == nil else { return nil }
        outcome = result
        var ended = Told()
        if let first = exchange(&first, with: nil) { ended.continuations = [first] }
        guard let contents = kept else { return ended }
        ended.continuations += exchange(&contents.continuations, with: [])
        ended.followers = Array(exchange(&contents.followers, with: [:]).values)
        ended.replaced = contents.end(result)
        return ended
    }

    /// The progress of the present attempt, until the end.
    var progress: TaskProgress? { kept?.progress }

    /// The progress of the present attempt and the latest preview, until the end.
    var latest: [Item] {
        guard outcome == nil, let kept else { return [] }
        let preview = kept.items.last { if case .preview = $0.item { true } else { false } }
        return [kept.progress.map { .progress($0) }, preview?.item].compactMap(\.self)
    }

    // MARK: Listeners

    mutating func await(_ continuation: UnsafeContinuation<Outcome, Never>) -> Outcome? {
        if let outcome { return outcome }
        if first == nil { first = continuation } else { contents.continuations.append(continuation) }
        return nil
    }

    mutating func listen(_ hook: Hook) { listeners.append(Listener(hook: hook)) }

    /// - Returns: the follower's number; `nil` if the task has ended.
    mutating func follow(_ tell: @escaping Follower) -> Int? {
        guard outcome == nil else { return nil }
        let contents = contents
        contents.lastFollower += 1
        contents.followers[contents.lastFollower] = tell
        return contents.lastFollower
    }

    mutating func forget(_ number: Int) -> Follower? { kept?.followers.removeValue(forKey: number) }

    // MARK: Delivery

    /// Claims the delivery for the caller, who must then deliver until nothing is left.
    /// - Returns: `false` if a delivery is under way, or if there is nothing to tell the hooks.
    mutating func claimDelivery() -> Bool {
        guard !listeners.isEmpty, outcome != nil || nextItem != nil else { return false }
        let contents = contents
        return !exchange(&contents.isDelivering, with: true)
    }

    private var nextItem: (listener: Int, number: Int, item: Item)? {
        guard let items = kept?.items else { return nil }
        var next: (listener: Int, number: Int, item: Item)?
        for (index, listener) in listeners.enumerated() {
            guard let (number, item) = items.first(where: { $0.number > listener.heard }) else { continue }
            if number < next?.number ?? .max { next = (index, number, item) }
        }
        return next
    }

    /// Returns the next call, in the order of the events; after `nil` the delivery must be claimed again.
    mutating func nextCall() -> (@Sendable () -> Void)? {
        while let (listener, number, item) = nextItem {
            let hook = listeners[listener].hook
            listeners[listener].heard = number
            if let call = hook.call(with: item) { return call }
        }
        if outcome != nil, !listeners.isEmpty {
            // All hooks have heard everything. Their closures are released outside the lock.
            let done = exchange(&listeners, with: ArrayOfFew())
            return { _ = done }
        }
        contents.isDelivering = false
        return nil
    }
}
