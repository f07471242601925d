import Foundation

/// The handle of a call for an object. Its methods return at once and run no code of the program's own.
package protocol ObjectTask: FedTask {
    /// - Parameter renewal: the making of a newer object, if this one is out of date. The task begins it.
    func end(_ result: Result<MadeObject, DipperError>, _ renewal: Making?)
    func show(_ preview: Product)
    /// Takes the request for the smaller source, which replaces the larger one.
    func choose(_ request: DataRequest, _ key: CacheKey)
}

extension ObjectTask {
    package var presentState: TaskState {
        if let outcome { return TaskState(after: outcome) }
        // Without a status, the cache has answered, and the object is being handed out.
        let now = withFeed { $0.status?.state } ?? .decoding
        return outcome.map { TaskState(after: $0) } ?? now
    }
}

/// The subject of a call for an object: a step, and the origin of the bytes that it begins with.
package struct Making: Sendable {
    package let cache: ObjectCache
    package let origin: Origin
    package let step: any ObjectStep

    package init(_ cache: ObjectCache, _ origin: Origin, _ step: any ObjectStep) {
        (self.cache, self.origin, self.step) = (cache, origin, step)
    }
}

/// A call for an object that memory could not answer.
package final class ObjectCall: WaitingCall {
    /// The options on which the object itself does not depend.
    package struct Options: Sendable {
        /// Whether a prefetched object is kept in memory.
        package var keepsInMemory = true
        /// Whether the bytes stay on disk beside the stored form.
        package var keepsBytes = true
        package var showsPreviews = false

        package init() {}
    }

    let cache: ObjectCache
    nonisolated let identity = EventIdentity()
    private(set) var origin: Origin
    let step: any ObjectStep
    private(set) var options: Options
    var attempts = 0
    private var wantsProgress = false
    private var lookUp: Workers.Ticket?
    private var beside: (ticket: Workers.Ticket?, cancellation: Cancellation)?
    private var isReserved = false
    private var limit: Engine.TimerID?
    private(set) var make: ObjectWork?
    /// The number by which the work knows the call.
    private var number: UInt64 = 0
    /// `nil` after the end.
    private var task: (any ObjectTask)?

    private nonisolated init(_ task: any ObjectTask, _ making: Making, _ options: Options) {
        (cache, origin, step) = (making.cache, making.origin, making.step)
        (self.task, self.options) = (task, options)
        super.init(Urgency(task.requestedQueue, making.origin.request.priority), in: making.cache.engine)
    }

    package nonisolated static func start(_ task: any ObjectTask, _ making: Making, _ options: Options = Options()) {
        let call = ObjectCall(task, making, options)
        task.attach(call)
        let (engine, state) = (call.cache.engine, call.cache.state)
        let (events, key) = (making.origin.source.events, making.origin.dataKey)
        events.trace(key, call.identity.id, .callBegan(task.requestedQueue))
        state.posted.add(1, ordering: .relaxed)
        if engine.post(waits: false, { call.take() }) { return }
        state.posted.subtract(1, ordering: .relaxed)
        task.detach(in: task.requestedQueue, attempts: 0)
        events.trace(key, call.identity.id, .callFailed(engine.refusal))
        events.call(key, task.requestedQueue, .failure(engine.refusal), call.identity.id)
        task.end(.failure(engine.refusal), nil)
    }

    var isOver: Bool { task == nil }

    func tell(_ news: DataTask.Event) {
        if case .progress = news, !wantsProgress { return }
        task?.hear(news)
    }

    func show(_ preview: Product) { task?.show(preview) }

    private func choose(_ origin: Origin) {
        self.origin = origin
        task?.choose(origin.request, origin.dataKey)
    }

    private func tellEnd(_ result: Result<MadeObject, DipperError>) {
        guard let task = exchange(&task, with: nil) else { return }
        endBeside()
        // A decoder's error does not name the URL.
        let result = result.mapError { error in
            guard error.url == nil, let source = make?.root?.basis?.info.source else { return error }
            return error.at(source)
        }
        make = nil
        let object = try? result.get()
        task.detach(in: want.queue, attempts: object?.basis.attempts ?? attempts)
        let renewal = object?.basis.revalidation.map { bytes in
            Making(cache, origin.following(object?.basis.claim) { bytes }, step)
        }
        origin.source.events.trace(origin.dataKey, identity.id, .callEnded(result.map(\.basis.source)))
        task.end(result, renewal)
    }

    override func status() -> CallStatus? {
        if isOver { return nil }
        var status = CallStatus(queue: want.queue, attempts: attempts)
        // The object is made of another, which may be on its way.
        var first = make
        while first?.stage == .waiting, let parent = first?.parent { first = parent }
        if let fetch = make?.fetch { (status.attempts, status.state) = fetch.status }
        switch first?.stage {
        case nil, .looking, .elsewhere, .waiting: break
        case .making, .writing, .ready, .over: status.state = .decoding
        }
        return status
    }

    override func cancel() { cancel(as: .cancelled) }

    override func change(to want: Urgency) {
        guard !isOver, self.want != want else { return }
        make?.wants.remove(self.want)
        self.want = want
        make?.wants.add(want)
        make?.refresh()
        lookUp?.move(to: engine.place(want))
        beside?.ticket?.move(to: engine.place(want))
        if want.queue == .slow {
            release()
            endBeside()
        }
    }

    override func runBeside(_ cost: @escaping Workers.Measure, _ work: @escaping WorkBeside) {
        guard !isOver, want.queue == .fast else { return }
        let (cancellation, engine) = (Cancellation(), engine)
        let ticket = cache.workers.add(engine.place(want), of: origin.key, cost: cost) {
            guard let done = work({ cancellation.isSet }) else { return }
            engine.post { if !cancellation.isSet { done() } }
        }
        beside = (ticket, cancellation)
    }

    private func endBeside() {
        guard let (ticket, cancellation) = exchange(&beside, with: nil) else { return }
        cancellation.set()
        ticket?.cancel()
    }

    override func wantProgress() {
        wantsProgress = true
        if let supply = make?.fetch { hearProgress(of: supply) }
    }

    override func wantPreviews() {
        if exchange(&options.showsPreviews, with: true) { return }
        if let supply = make?.fetch { supply.showPreviews(to: self) }
    }

    /// Begins with the bytes so far, which are reported only once.
    private func hearProgress(of supply: BytesWork) {
        supply.wantProgress()
        if let progress = supply.progress { tell(.progress(progress)) }
    }
}

extension ObjectCall {
    private func take() {
        cache.state.posted.subtract(1, ordering: .relaxed)
        if engine.isClosed { return tellEnd(.failure(.shutDown)) }
        cache.welcome()
        cache.state.follow(origin.source.engine)
        register()
        if origin.isDecided { enroll() } else { decide() }
    }

    private func register() {
        for alias in origin.aliases { cache.state.aliases[alias, default: [:]][ObjectIdentifier(self)] = self }
    }

    private func unregister() {
        for alias in origin.aliases {
            cache.state.aliases[alias]?[ObjectIdentifier(self)] = nil
            if cache.state.aliases[alias]?.isEmpty == true { cache.state.aliases[alias] = nil }
        }
    }

    /// Finds out whether the tiers have the larger source, which a smaller one may replace.
    private func decide() {
        let (asked, engine) = (origin, engine)
        let find: @Sendable (Bool) -> Void = { isThere in
            let decided = asked.decided(isThere: isThere)
            engine.post { self.decided(decided) }
        }
        guard asked.source.hasDisk else { return find(false) }
        if want.queue == .fast {
            isReserved = true
            asked.source.reserve()
        }
        lookUp = asked.source.find(asked.dataKey, engine.place(want), find)
    }

    private func decided(_ origin: Origin) {
        if isOver { return }
        let asked = self.origin
        lookUp = nil
        unregister()
        choose(origin)
        register()
        enroll()
        release()
        cache.endIdle(asked.key)
    }

    private func release() { if exchange(&isReserved, with: false) { origin.source.release() } }

    private func enroll() {
        let (make, isNew) = cache.make(origin, step, keepsBytes: options.keepsBytes)
        (self.make, number) = (make, engine.nextNumber())
        make.calls[number] = self
        make.wants.add(want)
        origin.source.events.trace { $0.joined(make.identity.id, by: identity.id) }
        if isNew { return make.begin() }
        make.refresh()
        if case .ready = make.stage, let object = make.object {
            cache.keep(object, for: [make], isWritten: make.isWritten)
            return make.settle()
        }
        if let supply = make.fetch { attend(at: supply) } else { make.limit(isJoined: true) }
    }

    /// Ends the call after a time, in place of an earlier limit; `nil` for no limit.
    func limit(to left: Duration?) {
        guard (limit == nil) != (left == nil) else { return }
        if let timer = exchange(&limit, with: nil) { engine.timers.cancel(timer) }
        limit = left.map { engine.timers.add(at: engine.time.now() + $0, .making { _ in self.cancel(as: .timedOut) }) }
    }

    func end(_ result: Result<MadeObject, DipperError>) {
        release()
        unregister()
        if let timer = exchange(&limit, with: nil) { engine.timers.cancel(timer) }
        tellEnd(result)
    }

    private func cancel(as error: DipperError) {
        if isOver { return }
        if let make {
            make.calls[number] = nil
            make.wants.remove(want)
            if error == .timedOut, make.allCalls.isEmpty { make.tellEnd(of: [self], .failure(error)) }
            end(.failure(error))
            make.settle()
        } else {
            lookUp?.cancel()
            end(.failure(.cancelled))
            cache.endIdle(origin.key)
        }
    }

    /// Hears the news of its fetch, beginning with the last preview.
    func attend(at supply: BytesWork) {
        if let failure = supply.failure { tell(.failure(failure, isFatal: false)) }
        if wantsProgress { hearProgress(of: supply) }
        if options.showsPreviews { supply.showPreviews(to: self) }
    }
}

/// The calls of a key.
extension ObjectCache.State: EngineGuest {
    func demote(_ key: CacheKey, andOthers: Bool) {
        for call in calls(of: key, andOthers: andOthers) { call.demote() }
    }

    func cancel(_ key: CacheKey, andOthers: Bool) {
        for call in calls(of: key, andOthers: andOthers) { call.cancel() }
    }

    func cancelAll() {
        for works in works.values { for call in works.makes.flatMap(\.calls.values) { call.cancel() } }
        // Those that wait for a decision have joined no work.
        for call in aliases.values.flatMap({ $0.values }) { call.cancel() }
    }

    /// - Parameter andOthers: whether the key of a URL means calls with header fields or a key of their own as well.
    private func calls(of key: CacheKey, andOthers: Bool) -> [ObjectCall] {
        // A call may be found by both names; the second time nothing changes.
        (works[key]?.makes.flatMap(\.calls.values) ?? [])
            + (aliases[key]?.values.filter { andOthers || $0.origin.call.plainKey?.value != key } ?? [])
    }

    func close(in engine: Engine) { cancelAll() }
    func leave() {
        endBacklog()
        for continuation in exchange(&waiting, with: []) { continuation.resume() }
    }
}
