import Dispatch
import Foundation
import Synchronization

/// Decides which byte is fetched next, on one thread, its ``EventLoop``: whatever may change lives there.
///
/// Other threads post messages. What blocks or computes, and all code of the program's own, runs elsewhere; its results
/// come back as messages with their fetch, which may be over by then.
actor Engine: LoopClient {
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
    }

    nonisolated let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
    nonisolated let store: DataStore
    nonisolated let transport: any Transport
    nonisolated let network: any NetworkMonitor
    nonisolated let time: TimeSource
    nonisolated let now: @Sendable () -> Date
    nonisolated let options: Options
    nonisolated let events: EventHub
    nonisolated let isShutDown = Atomic(false)
    nonisolated let revalidations = Mutex(RevalidationTasks())
    /// Runs hooks, which may be slow: those that follow from one part of a turn one after the other.
    private nonisolated let hooks = DispatchQueue(label: "dipper.hooks", attributes: .concurrent)
    /// Shows the bytes received so far, in their order.
    nonisolated let views = DispatchQueue(label: "dipper.views")
    private nonisolated let workers = DispatchQueue(label: "dipper.work", attributes: .concurrent)

    var queues: Queues
    var fetches: [CacheKey: Fetch] = [:]
    /// Fetches that calls for a key cancel and demote, but do not join: of removed entries, or of other keys of a URL.
    var others: [CacheKey: [ObjectIdentifier: Fetch]] = [:]
    var transfers: [UInt64: Fetch] = [:]
    var offline: [UInt64: Fetch] = [:]
    var tlsAnswers: [ServerOrigin: TLSQuestion] = [:]
    var bodies: BodyBudget
    private var backlog = Latest(StorageBacklog.none)
    var timers = Timers()
    private var pause: TimerID = 0
    private var cleaning: (timer: TimerID, due: Duration)?
    private static let cleaningInterval = Duration.seconds(60)
    private var sleeper: Task<Void, Never>?
    private nonisolated(unsafe) var nextTurn: ContinuousClock.Instant?
    private var sleepsUntil: Duration?
    private var lastNumber: UInt64 = 0
    private var isUndecided = false
    private(set) var isClosed = false
    var guests: [any EngineGuest] = []
    private var hasLeft = false
    private var client: UInt32 = 0
    private var observation: ChangeObservation?
    private var idle: [CheckedContinuation<Void, Never>] = []
    /// The hooks that follow from the parts of this turn.
    private var steps: [[Afterwards.Step]] = []
    private nonisolated let part = Afterwards()

    init(
        loop: EventLoop, fast: QueueConfiguration, slow: QueueConfiguration, store: DataStore,
        transport: any Transport, network: any NetworkMonitor, time: TimeSource, now: @escaping @Sendable () -> Date,
        options: Options, events: EventHub
    ) {
        (self.loop, self.store, self.transport, self.network) = (loop, store, transport, network)
        (self.time, self.now, self.options, self.events) = (time, now, options, events)
        queues = Queues(fast: fast, slow: slow)
        bodies = BodyBudget(limit: options.inFlightLimit)
        let onChange: @Sendable () -> Void = { [weak self] in
            self?.events.networkChanged()
            self?.post { $0.networkChanged() }
        }
        let observation =
            (network as? NetlinkMonitor)?.observe(on: loop, onChange) ?? network.observe(onChange)
        post { $0.begin(observation) }
    }

    private func begin(_ observation: ChangeObservation) {
        self.observation = observation
        client = loop.add(self)
        holdingChanged()
    }

    // MARK: Any thread

    /// Runs a closure on the engine, after all that this thread has posted before.
    /// - Returns: `false`, and nothing runs, if the engine has ended.
    @discardableResult
    nonisolated func post(_ body: @escaping @Sendable (isolated Engine) -> Void) -> Bool {
        loop.post { self.enter(body) }
    }

    nonisolated func perform(_ body: @escaping @Sendable (isolated Engine) -> Void) {
        if loop.isCurrent { run(body) } else { post(body) }
    }

    /// Asks the engine, after all that this thread has posted before; `nil` if the engine has ended.
    nonisolated func ask<Answer: Sendable>(_ body: @escaping @Sendable (isolated Engine) -> Answer) -> Answer? {
        if loop.isCurrent { return assumeIsolated { body($0) } }
        let answer = Mutex<Answer?>(nil)
        let isAnswered = DispatchSemaphore(value: 0)
        let isPosted = post { engine in
            engine.takeTurn()
            let given = body(engine)
            answer.withLock { $0 = given }
            isAnswered.signal()
        }
        if isPosted { isAnswered.wait() }
        return answer.withLock { $0 }
    }

    /// Does what `assumeIsolated` does, which allocates each time.
    private nonisolated func run(_ body: @escaping @Sendable (isolated Engine) -> Void) {
        loop.checkIsolated()
        unsafeBitCast(body, to: (@Sendable (Engine) -> Void).self)(self)
    }

    private nonisolated func enter(_ body: @escaping @Sendable (isolated Engine) -> Void) {
        Afterwards.begin(part)
        run(body)
        Afterwards.end()
        if !part.isEmpty { run { $0.endPart() } }
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
                self.post { $0.release() }
            }
        }
    }

    nonisolated func work<Result: Sendable>(
        _ body: @escaping @Sendable () -> Result, then goOn: @escaping @Sendable (isolated Engine, Result) -> Void
    ) {
        workers.async {
            let result = body()
            self.post { goOn($0, result) }
        }
    }

    // MARK: Turns

    nonisolated func ready(_ descriptor: Int32, _ events: UInt32) {}

    nonisolated func turn() -> ContinuousClock.Instant? {
        enter { $0.takeTurn() }
        run { $0.endTurn() }
        return nextTurn
    }

    private func takeTurn() {
        if let due = timers.first, due <= time.now() { fireTimers() }
        decide()
        nextTurn = sleep()
    }

    private func endTurn() {
        callHooks()
        if !idle.isEmpty, isEmpty { tellIdle() }
    }

    private func tellIdle() {
        let waiting = exchange(&idle, with: [])
        hooks.async(flags: .barrier) { for continuation in waiting { continuation.resume() } }
    }

    func reconsider() { isUndecided = true }

    private func decide() {
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
                if entry.place == .running, !entry.isOnNetwork { start(unsafeDowncast(entry, to: Fetch.self)) }
            case .throttle(let entry, let isThrottled):
                if entry.isThrottled == isThrottled { throttle(unsafeDowncast(entry, to: Fetch.self), isThrottled) }
            case .armPause(let longest, let number):
                timers.cancel(pause)
                pause = timers.add(at: time.now() + longest, .pause(number))
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
        case .backOff(let fetch):
            fetch.findings.backOff = nil
            wake(fetch)
        case .pause(let number):
            var actions: [Queues.Action] = []
            queues.pauseElapsed(number, into: &actions)
            carryOut(actions)
        case .cleaning:
            cleaning = nil
            workers.async { [store] in store.expiries.clean() }
        case .timeout(let waiter): watch(waiter)
        case .patience(let waiter):
            if waiter.wait.fetch?.place == .parked { end(waiter) }
        case .report(let fetch, let reports):
            if let progress = fetch.progress { report(reports, of: fetch, progress, isAgain: true) }
        case .grace(let fetch, let number, let received): watchUnreachable(fetch, since: (number, received))
        }
    }

    /// Has the tiers cleaned soon after a time in seconds since 1970, when an entry expires.
    func expires(at expires: TimeInterval) {
        if isClosed { return }
        // The clock may be set before the time comes.
        let wait = Duration.seconds(min(expires - now().timeIntervalSince1970, 3_600))
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
            self?.post { engine in
                if engine.sleepsUntil == due { engine.sleepsUntil = nil }
            }
        }
        return nil
    }

    // MARK: End

    nonisolated func becomeIdle() async {
        await wait { engine, continuation in
            if engine.hasLeft { continuation.resume() } else { engine.idle.append(continuation) }
        }
    }

    /// Returns when the continuation is resumed; at once if the engine has ended.
    nonisolated func wait(
        _ body: @escaping @Sendable (isolated Engine, CheckedContinuation<Void, Never>) -> Void
    ) async {
        await withCheckedContinuation { continuation in
            if !post({ body($0, continuation) }) { continuation.resume() }
        }
    }

    nonisolated var isIdle: Bool { ask { $0.isEmpty } ?? true }
    private var isEmpty: Bool { fetches.isEmpty && others.isEmpty && guests.allSatisfy(\.isIdle) }

    nonisolated func shutdown() async {
        await wait { engine, continuation in
            engine.callHooks()
            engine.close()
            engine.hooks.async(flags: .barrier) { continuation.resume() }
        }
        await transport.shutdown()
        await wait { _, continuation in continuation.resume() }
        await store.shutdown()
        post { $0.leave() }
        loop.end()
        await loop.join()
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
        loop.remove(client: client)
    }

    // MARK: Calls

    @inline(__always)
    nonisolated func start(_ task: DataTask) {
        // If the disk may have the larger source, a reader's thread finds out; see `lookedUp`.
        if task.isUndecided, !store.memory.contains(task.key), !task.call.looksUp(in: store) {
            task.turnToSubstitute()
        }
        begin(task, orEnd: isShutDown.load(ordering: .acquiring) ? .shutDown : nil)
    }

    @inline(__always)
    nonisolated func begin(_ task: DataTask, orEnd error: DipperError? = nil) {
        events.began(task)
        if let error = defect(of: task.call.request) ?? error { finish(task, .failure(error)) } else { enter(task) }
    }

    @inline(__always)
    nonisolated func defect(of request: DataRequest) -> DipperError? {
        if !options.readsFileURLs, let provider = request.provider, !reads(provider) {
            return .unsupportedScheme.with(detail: "file")
        }
        return request.defect
    }

    /// A provider is not asked if it stands for the URL of a file, and such files are not read.
    nonisolated func reads(_ provider: any DataProvider) -> Bool {
        options.readsFileURLs || (provider as? FileProvider)?.isOfURL != true
    }

    @inline(__always)
    private nonisolated func enter(_ task: DataTask) {
        let call = task.call
        let policy = call.cachePolicy
        if policy != .ignoreCache, let found = store.kept(for: call), answer(task, with: found) { return }
        guard call.looksUp(in: store) || call.mayFetch else {
            return finish(task, .failure(.notCached.about(task.key)))
        }
        submit(task)
    }

    /// - Returns: `false`, and the task goes on, if the entry does not answer the call.
    @inline(__always)
    private nonisolated func answer(_ task: DataTask, with found: FoundEntry) -> Bool {
        let (call, info) = (task.call, found.value.info)
        guard call.accepts(found.value) else { return false }
        let isTimeless = info.freshness.until == .infinity && call.request.headers.isEmpty
        let now = isTimeless ? 0 : now().timeIntervalSince1970
        switch call.use(ofAccepted: info, at: now) {
        case .fresh:
            finish(task, .success(DataResponse(found.value, source: .memory)), kept: found.place ?? task.key)
        case .staleWhileRevalidating where call.mayFetch:
            answer(task, withOld: found)
        case .staleWhileRevalidating, .stale, .revalidate:
            guard call.isAnswered(byAccepted: info, at: now) else { return false }
            finish(task, .success(DataResponse(found.value, source: .stale)), kept: found.place ?? task.key)
        }
        return true
    }

    /// Starts a call that memory could not answer. Its task ends even if the engine has been shut down.
    nonisolated func submit(_ task: DataTask) {
        task.attach(self)
        if loop.isCurrent { return run { $0.take(task) } }
        if !post({ $0.take(task) }) { refuse(task) }
    }

    /// - Parameters:
    ///   - reads: whether the disk may answer; `nil` if the call decides.
    ///   - found: the entry in the tiers, if they have been asked before.
    ///   - claim: the right to keep the answer, claimed before the tiers were asked.
    func take(_ task: DataTask, reads: Bool? = nil, found: FoundEntry? = nil, _ claim: Claim? = nil) {
        if isClosed { return refuse(task) }
        if task.isGivenUp {
            task.detach(in: task.requestedQueue, attempts: 0)
            return finish(task, .failure(.cancelled))
        }
        task.begin(reads: reads ?? task.call.looksUp(in: store))
        enroll(task, claim?.isOutdated == true ? nil : found, claim)
        reconsider()
    }

    nonisolated func refuse(_ task: DataTask) {
        task.detach(in: task.requestedQueue, attempts: 0)
        finish(task, .failure(.shutDown))
    }

    private func enroll(_ waiter: DataTask, _ found: FoundEntry? = nil, _ claim: Claim? = nil) {
        let call = waiter.call
        // mutant Dedup: `fetches[call.key], present` => `fetches[call.key], false, present`
        // mutant Removal: `, present.isCurrent {` => ` {`
        if let present = fetches[call.key], present.isCurrent {
            present.knownFindings?.forgetOutdated()
            add(waiter, to: present, found)
            join(present, waiter)
        } else {
            let fetch = Fetch(call, waiter.wait.queue, level: waiter.wait.level)
            events.tell(fetch, .fetchBegan(fetch.queue))
            if let old = fetches.updateValue(fetch, forKey: call.key) {
                others[call.key, default: [:]][ObjectIdentifier(old)] = old
            }
            if let alias = fetch.alias { others[alias, default: [:]][ObjectIdentifier(fetch)] = fetch }
            if let claim { fetch.findings.claim(claim) }
            add(waiter, to: fetch, found)
            enter(fetch)
        }
    }

    private func add(_ waiter: DataTask, to fetch: Fetch, _ found: FoundEntry?) {
        fetch.add(waiter)
        if let found { fetch.findings.find(found) }
        events.joined(waiter, fetch)
        if waiter.wantsProgress { fetch.wanted.insert(.progress) }
        if waiter.hasViewer { fetch.wanted.insert(.bytes) }
    }

    private func join(_ fetch: Fetch, _ waiter: DataTask) {
        if fetch.lookUpState == .missed, !waiter.wait.fetches {
            return end(waiter, .failure(.notCached.about(waiter.key)))
        }
        if fetch.place == .parked, let failure = fetch.failure { waiter.tell(.failure(failure)) }
        if let spent = fetch.knownFindings?.budget.sinceStart(at: time.now()) { armTimeout(of: waiter, spent: spent) }
        settle(fetch)
        if waiter.wait.reads, fetch.lookUpState == .notDone { lookUp(fetch) }
        // mutant QueueTests: `if waiter.wait.queue == .fast {` => `if waiter.wait.queue == .slow {`
        if waiter.wait.queue == .fast { endBackOff(of: fetch) }
    }

    func enter(_ fetch: Fetch) {
        if fetch.lookUpState == .notDone, fetch.isRead {
            queues.look(fetch)
            lookUp(fetch)
        } else {
            enqueue(fetch)
        }
    }

    func enqueue(_ fetch: Fetch) {
        queues.setLevel(fetch.wantedLevel, of: fetch)
        queues.enqueue(fetch)
        events.leftNetwork(fetch, .queued(fetch.queue))
        reconsider()
    }

    func turnToSubstitutes(_ fetch: Fetch) {
        for waiter in fetch.waiters where waiter.isUndecided {
            fetch.remove(waiter)
            waiter.turnToSubstitute()
            waiter.wait.reads = waiter.call.looksUp(in: store)
            waiter.wait.fetches = waiter.call.mayFetch
            enroll(waiter)
        }
    }

    // MARK: Changes

    func cancel(_ task: DataTask) {
        if task.wait.fetch == nil { task.isGivenUp = true } else { end(task, .failure(.cancelled)) }
    }

    func cancel(_ key: CacheKey) {
        for waiter in waiters(for: key) { end(waiter, .failure(.cancelled)) }
    }

    func cancelAll() {
        let all = Array(fetches.values) + others.values.flatMap(\.values)
        for fetch in all { for waiter in fetch.waiters { end(waiter, .failure(.cancelled)) } }
        if all.count > 10_000 { workers.async { KernelMemoryPressure.giveBackFreeMemory() } }
    }

    func demote(_ key: CacheKey) {
        // mutant QueueTests: `{ move(waiter, to: .slow) }` => `{ _ = waiter }`
        for waiter in waiters(for: key) { move(waiter, to: .slow) }
    }

    /// Returns the calls for a key; for the key of a URL, those with other header fields or a key of their own as well.
    private func waiters(for key: CacheKey) -> [DataTask] {
        let all: [Fetch] = (fetches[key].map { [$0] } ?? []) + (others[key].map { Array($0.values) } ?? [])
        return all.flatMap { $0.waiters.filter { $0.call.key == key || $0.call.request.plainKey == key } }
    }

    func move(_ waiter: DataTask, to queue: FetchQueue) {
        guard waiter.wait.queue != queue, let fetch = waiter.wait.fetch else { return }
        fetch.move(waiter, to: queue)
        settle(fetch)
        if queue == .fast { endBackOff(of: fetch) }
    }

    func setPriority(_ priority: Priority, of task: DataTask) {
        guard let fetch = task.wait.fetch else { return }
        fetch.setLevel(UInt8(priority.level), of: task)
        settle(fetch)
    }

    func configure(_ queue: FetchQueue, _ configuration: QueueConfiguration) {
        queues.configure(queue, configuration)
        holdingChanged()
    }

    func reserve() { queues.reserve(.fast) }
    func release() {
        queues.release(.fast)
        reconsider()
    }

    func storageBacklogged(_ notice: BacklogNotice) {
        guard backlog.take(notice.backlog, number: notice.number) else { return }
        queues.setBacklog(notice.backlog)
        reconsider()
    }

    func addHolder(_ number: UInt64, of queue: FetchQueue) { queues.addHolder(number, of: queue) }

    func removeHolder(_ number: UInt64) {
        queues.removeHolder(number)
        holdingChanged()
    }

    func hold(_ notice: ByteBudget.Notice, by number: UInt64) {
        if queues.hold(notice, by: number) { holdingChanged() }
    }

    private func holdingChanged() {
        store.readers?.allow(downTo: queues.looksDownTo.map { $0 == .fast ? .urgent : .background })
        reconsider()
    }

    func account<Result>(_ change: (inout BodyBudget) -> Result) -> Result {
        let result = change(&bodies)
        queues.setBudget(isSpent: bodies.isSpent)
        reconsider()
        return result
    }
}

/// A part of the library that lives on an engine's loop and makes calls of it.
protocol EngineGuest: AnyObject {
    var isIdle: Bool { get }
    func close(in engine: isolated Engine)
    /// Lets go of those who wait: nothing happens any more.
    func leave()
}
