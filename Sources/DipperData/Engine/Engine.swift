import Dispatch
import Foundation
import Synchronization

/// Decides which fetch of a cache runs next, on the ``Loop``: whatever may change lives there.
///
/// Other threads post messages. What blocks or computes, and all code of the program's own, runs elsewhere; its results
/// come back as messages with their fetch, which may be over by then.
@Loop
final class Engine: LoopClient {
    struct Options: Sendable {
        var progressInterval: Duration
        var maximumRedirects = 10
        var readsFileURLs = true
        /// The time between two fetches that wake up when the network returns.
        var wakeSpacing: Duration = .milliseconds(4)
        /// The longest time over which waking is spread, however many fetches wait.
        var wakeSpread: Duration = .seconds(4)
        var inFlightLimit = Int.max
        /// The time that a transfer without progress may go on after its host has become unreachable.
        var lostNetworkGrace: Duration = .seconds(2)
        var answerTLSChallenge: (@Sendable (URL) async throws -> TLSAnswer?)?
        var proxyCredentials: Credentials?
        var leases = LeaseOptions()
    }

    let store: DataStore
    let transport: any Transport
    let network: any NetworkMonitor
    let time: TimeSource
    let now: @Sendable () -> Date
    let options: Options
    let events: EventHub
    nonisolated let isShutDown = Atomic(false)
    nonisolated let revalidations = Mutex(RevalidationTasks())
    /// Runs hooks, which may be slow: those that follow from one part of a turn one after the other.
    private let hooks = DispatchQueue(label: "dipper.hooks", attributes: .concurrent)
    /// Shows the bytes received so far, in their order.
    let views = DispatchQueue(label: "dipper.views")
    let workers = DispatchQueue(label: "dipper.work", attributes: .concurrent)

    var queues: Queues
    var fetches = FetchTable()
    var transfers: [UInt64: Fetch] = [:]
    var offline = OfflineFetches()
    let tlsAnswers: TLSAnswers?
    var bodies: BodyBudget
    var timers = Timers()
    /// The hooks under way that may wait.
    private var hookTasks: [UInt64: Task<Void, Never>] = [:]
    private var pause: TimerID = 0
    private var cleaning: (timer: TimerID, due: Duration)?
    private static let cleaningInterval = Duration.seconds(60)
    private var sleeper: Task<Void, Never>?
    private var sleepsUntil: Duration?
    private var lastNumber: UInt64 = 0
    private var isUndecided = false
    private(set) var isClosed = false
    var guests: [any EngineGuest] = []
    private(set) var hasLeft = false
    private var seat: LoopSeat?
    private var observation: ChangeObservation?
    /// The callers that wait until nothing is under way, or nothing of a guest.
    private var idle: [(guest: (any EngineGuest)?, continuation: CheckedContinuation<Void, Never>)] = []
    /// The hooks that follow from the parts of this turn.
    private var steps: [[Afterwards.Step]] = []
    private let part = Afterwards()

    nonisolated init(
        fast: QueueConfiguration, slow: QueueConfiguration, store: DataStore,
        transport: any Transport, network: any NetworkMonitor, time: TimeSource, now: @escaping @Sendable () -> Date,
        options: Options, events: EventHub
    ) {
        (self.store, self.transport, self.network) = (store, transport, network)
        (self.time, self.now, self.options, self.events) = (time, now, options, events)
        queues = Queues(fast: fast, slow: slow)
        bodies = BodyBudget(limit: options.inFlightLimit)
        tlsAnswers = options.answerTLSChallenge.map { TLSAnswers($0) }
        let onChange: @Sendable () -> Void = { [weak self] in
            self?.events.networkChanged()
            if let self { post { self.networkChanged() } }
        }
        let observation = network.observe(onChange)
        post { self.begin(observation) }
    }

    private func begin(_ observation: ChangeObservation) {
        self.observation = observation
        seat = Loop.add(self)
        holdingChanged()
    }

    // MARK: Any thread

    /// Runs a closure on the engine, after all that this thread has posted before.
    /// - Returns: `false`, and nothing runs, if there is no thread yet and nothing `waits`.
    @discardableResult
    nonisolated func post(
        waits: Bool = true, handsOver: Bool = false, _ body: @escaping @Loop () -> Void
    ) -> Bool {
        Loop.post(to: self, waits: waits, handsOver: handsOver, body)
    }

    nonisolated func perform(_ body: @escaping @Loop (Engine) -> Void) {
        if Loop.isCurrent { run(body) } else { post { body(self) } }
    }

    /// Asks the engine, after all that this thread has posted before; `nil` if there is no thread.
    nonisolated func ask<Answer: Sendable>(_ body: @escaping @Loop (Engine) -> Answer) -> Answer? {
        let answer = Handover<Answer>()
        if Loop.isCurrent {
            Loop.run { answer.give(body(self)) }
            return answer.value
        }
        let isAnswered = DispatchSemaphore(value: 0)
        let isPosted = post(waits: false) {
            self.takeTurn()
            answer.give(body(self))
            isAnswered.signal()
        }
        if isPosted { isAnswered.wait() }
        return answer.value
    }

    /// Runs a closure in place, on the loop's thread.
    nonisolated func run(_ body: @Loop (Engine) -> Void) {
        Loop.run {
            guard Afterwards.isUnderWay else { return enter { body(self) } }
            seat?.wake()
            body(self)
        }
    }

    func take(_ message: @escaping @Loop () -> Void) { enter(message) }

    private func enter(_ body: @Loop () -> Void) {
        Afterwards.begin(part)
        body()
        Afterwards.end()
        seat?.wake()
        if !part.isEmpty { endPart() }
    }

    /// No prefetch starts before hooks have returned: one that hears of bytes may have no room for more.
    private func endPart() {
        if !part.steps.isEmpty {
            queues.reserve(.fast)
            steps.append(exchange(&part.steps, with: []))
        }
        if hasLeft { callHooks() }
    }

    private func callHooks() {
        part.wake()
        for part in exchange(&steps, with: []) {
            hooks.async {
                for step in part { step() }
                self.post { self.release() }
            }
        }
    }

    nonisolated func work<Result: Sendable>(
        _ body: @escaping @Sendable () -> Result, then goOn: @escaping @Loop (Result) -> Void
    ) {
        workers.async {
            let result = body()
            // Nobody waits after the end.
            self.post { if !self.hasLeft { goOn(result) } }
        }
    }

    /// Runs code of the program that may wait. It is cancelled when its fetch or the engine ends; `shutdown` waits a
    /// second for it.
    func runHook(of fetch: Fetch?, _ body: @escaping @Sendable () async -> Void) {
        let number = nextNumber()
        hookTasks[number] = Task.detached {
            await body()
            self.post { self.hookTasks[number] = nil }
        }
        fetch?.findings.hook = number
    }

    func cancelHook(_ number: UInt64) { hookTasks[number]?.cancel() }

    // MARK: Turns

    func ready(_ descriptor: Int32, _ events: UInt32) {}

    func turn() -> ContinuousClock.Instant? {
        Afterwards.begin(part)
        let next = takeTurn()
        Afterwards.end()
        if !part.isEmpty { endPart() }
        callHooks()
        if !idle.isEmpty { tellIdle() }
        return next
    }

    @discardableResult
    func takeTurn() -> ContinuousClock.Instant? {
        if let due = timers.first, due <= time.now() { fireTimers() }
        decide()
        return sleep()
    }

    private func tellIdle() {
        let start = idle.partition { hasLeft || $0.guest?.isIdle ?? isEmpty }
        let waiting = idle[start...].map(\.continuation)
        guard !waiting.isEmpty else { return }
        idle.removeSubrange(start...)
        hooks.async(flags: .barrier) { for continuation in waiting { continuation.resume() } }
    }

    func reconsider() { isUndecided = true }

    func decide() {
        while exchange(&isUndecided, with: false) {
            var actions: [Queues.Action] = []
            queues.dispatch(into: &actions)
            carryOut(actions)
        }
    }

    func carryOut(_ actions: [Queues.Action]) {
        for action in actions {
            switch action {
            case .start(let entry):
                if entry.place == .running, !entry.isOnNetwork { (entry as? Fetch)?.start() }
            case .throttle(let entry, let isThrottled):
                if entry.isThrottled == isThrottled { (entry as? Fetch)?.throttle(isThrottled) }
            case .armPause(let longest, let number):
                timers.cancel(pause)
                pause = timers.add(at: time.now() + longest, .pause(number))
            case .watchSlots(let queue): watchSlots(of: queue, queues.starts(of: queue), since: time.now())
            }
        }
    }

    func nextNumber() -> UInt64 {
        lastNumber += 1
        return lastNumber
    }

    // MARK: Timers

    private func fireTimers() {
        let now = time.now()
        while let timer = timers.take(dueAt: now) { fire(timer) }
    }

    private func fire(_ timer: Timers.Work) {
        switch timer {
        case .backOff(let fetch): fetch.backOffElapsed()
        case .pause(let number):
            var actions: [Queues.Action] = []
            queues.pauseElapsed(number, into: &actions)
            carryOut(actions)
        case .cleaning:
            cleaning = nil
            workers.async { [store] in store.expiries.clean() }
        case .lease(let lease): lease.elapsed()
        case .timeout(let waiter): waiter.fetch?.watch(waiter)
        case .making(let end): end(self)
        case .patience(let waiter):
            if let fetch = waiter.fetch, fetch.place == .parked { fetch.end(waiter) }
        case .report(let fetch, let reports):
            if let progress = fetch.progress { fetch.report(reports, progress, isAgain: true) }
        case .slots(let queue, let starts, let blocked): relieve(queue, starts, since: blocked)
        case .grace(let fetch, let number, let received): fetch.watchUnreachable(since: (number, received))
        }
    }

    /// Has the tiers cleaned soon after a time in seconds since 1970, when an entry expires.
    func expires(at expires: TimeInterval) {
        if isClosed { return }
        // The clock may be set before the time comes.
        let wait = Duration.seconds(clamping: min(expires - now().timeIntervalSince1970, 3_600))
        let due = time.now() + max(wait, Self.cleaningInterval)
        if let cleaning {
            guard due < cleaning.due else { return }
            timers.cancel(cleaning.timer)
        }
        cleaning = (timers.add(at: due, .cleaning), due)
    }

    /// Returns when the loop wakes up for the next timer. A clock that is not the system's wakes it itself.
    private func sleep() -> ContinuousClock.Instant? {
        guard let due = timers.first else { return nil }
        if time.isReal { return .now + min(max(due - time.now(), .zero), .seconds(due == cleaning?.due ? 3_600 : 60)) }
        guard due != sleepsUntil else { return nil }
        sleeper?.cancel()
        sleepsUntil = due
        sleeper = Task.detached { [weak self, time] in
            try? await time.sleep(due)
            guard !Task.isCancelled else { return }
            if let self { post { if self.sleepsUntil == due { self.sleepsUntil = nil } } }
        }
        return nil
    }

    // MARK: End

    nonisolated func becomeIdle(_ guest: (any EngineGuest)? = nil) async {
        await wait { engine, continuation in
            if engine.hasLeft { continuation.resume() } else { engine.idle.append((guest, continuation)) }
        }
    }

    /// Returns when the continuation is resumed; at once if the engine has ended.
    nonisolated func wait(
        _ body: @escaping @Loop (Engine, CheckedContinuation<Void, Never>) -> Void
    ) async {
        await withCheckedContinuation { continuation in
            if !post(waits: false, { body(self, continuation) }) { continuation.resume() }
        }
    }

    nonisolated var isIdle: Bool { ask { $0.isEmpty } ?? true }
    private var isEmpty: Bool { fetches.isEmpty && guests.allSatisfy(\.isIdle) }

    nonisolated func shutdown() async {
        await wait { engine, continuation in
            engine.callHooks()
            engine.close()
            let tasks = engine.hookTasks.values
            for task in tasks { task.cancel() }
            engine.hooks.async(flags: .barrier) {
                if tasks.isEmpty { return continuation.resume() }
                let (ended, end) = AsyncStream.makeStream(of: Never.self)
                Task.detached {
                    for task in tasks { await task.value }
                    end.finish()
                }
                // Hooks that ignore their cancellation must not keep a program from ending.
                self.workers.asyncAfter(deadline: .now() + 1) { end.finish() }
                Task.detached {
                    for await _ in ended {}
                    continuation.resume()
                }
            }
        }
        await transport.shutdown()
        await wait { _, continuation in continuation.resume() }
        await store.shutdown()
        await wait { engine, continuation in
            engine.leave()
            continuation.resume()
        }
    }

    private func close() {
        isClosed = true
        for guest in guests { guest.close(in: self) }
        cancelAll()
        observation = nil
        timers = Timers()
        sleeper?.cancel()
    }

    private func leave() {
        transfers = [:]
        for guest in guests { guest.leave() }
        guests = []
        hasLeft = true
        callHooks()
        tellIdle()
        seat?.leave()
        seat = nil
    }
}

/// A part of the library that lives on an engine's loop and makes calls of it.
@Loop
protocol EngineGuest: AnyObject, Sendable {
    var isIdle: Bool { get }
    func close(in engine: Engine)
    /// Lets go of those who wait: nothing happens any more.
    func leave()
}
