import Foundation

/// The handle of a call for an object. Its methods return at once and run no code of the program's own.
package protocol ObjectTask: FedTask {
    /// - Parameter renewal: the making of a newer object, if this one is out of date. The task begins it.
    func end(_ result: Result<MadeObject, DipperError>, _ renewal: Making?)
    func show(_ preview: Product)
    /// Takes the request for the smaller source, which replaces the larger one.
    func choose(_ request: DataRequest)
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
@Loop
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
    var origin: Origin
    let step: any ObjectStep
    private(set) var options: Options
    var want: Urgency
    var attempts = 0
    var wantsProgress = false
    var lookUp: Workers.Ticket?
    var isReserved = false
    var limit: Engine.TimerID?
    var make: ObjectWork?
    /// The number by which the work knows the call.
    fileprivate var number: UInt64 = 0
    /// `nil` after the end.
    private var task: (any ObjectTask)?

    private nonisolated init(_ task: any ObjectTask, _ making: Making, _ options: Options) {
        (cache, origin, step) = (making.cache, making.origin, making.step)
        (self.task, self.options) = (task, options)
        want = Urgency(task.requestedQueue, making.origin.request.priority)
    }

    package nonisolated static func start(_ task: any ObjectTask, _ making: Making, _ options: Options = Options()) {
        let call = ObjectCall(task, making, options)
        task.attach(call, to: call.cache.engine)
        let (engine, state) = (call.cache.engine, call.cache.state)
        state.posted.add(1, ordering: .relaxed)
        if engine.post(waits: false, { $0.take(call) }) { return }
        state.posted.subtract(1, ordering: .relaxed)
        task.detach(in: task.requestedQueue, attempts: 0)
        task.end(.failure(engine.refusal), nil)
    }

    var isOver: Bool { task == nil }

    func tell(_ news: DataTask.Event) {
        if case .progress = news, !wantsProgress { return }
        task?.hear(news)
    }

    func show(_ preview: Product) { task?.show(preview) }

    func choose(_ origin: Origin) {
        self.origin = origin
        task?.choose(origin.request)
    }

    func end(_ result: Result<MadeObject, DipperError>) {
        guard let task = exchange(&task, with: nil) else { return }
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
        task.end(result, renewal)
    }

    func status(in engine: Engine) -> CallStatus? {
        if isOver { return nil }
        var status = CallStatus(queue: want.queue, attempts: attempts)
        // The object is made of another, which may be on its way.
        var first = make
        while first?.stage == .waiting, let parent = first?.parent { first = parent }
        if let fetch = make?.fetch {
            if fetch.origin.source.engine === engine, let now = fetch.task.status(in: engine) {
                (status.attempts, status.state) = (now.attempts, now.state)
            } else {
                status.bytes = fetch.task
            }
        }
        switch first?.stage {
        case nil, .looking, .waiting: break
        case .making, .writing, .ready, .over: status.state = .decoding
        }
        return status
    }
    func cancel(in engine: Engine) { engine.cancel(self) }
    func move(to queue: FetchQueue, in engine: Engine) { engine.move(self, to: queue) }
    func setPriority(_ priority: Priority, in engine: Engine) {
        engine.change(self, to: Urgency(want.queue, priority))
    }
    func wantProgress(in engine: Engine) {
        wantsProgress = true
        if let supply = make?.fetch { hearProgress(of: supply) }
    }

    func wantPreviews(in engine: Engine) {
        if exchange(&options.showsPreviews, with: true) { return }
        if let supply = make?.fetch { engine.showPreviews(of: supply, to: self) }
    }

    /// Begins with the bytes so far, which the task for the bytes reports only once.
    func hearProgress(of supply: BytesWork) {
        supply.task.wantProgress()
        if let progress = supply.task.latestProgress { tell(.progress(progress)) }
    }
}

extension Engine {
    func take(_ call: ObjectCall) {
        call.cache.state.posted.subtract(1, ordering: .relaxed)
        if isClosed { return call.end(.failure(.shutDown)) }
        welcome(call.cache.state)
        call.cache.state.follow(call.origin.source.engine)
        register(call)
        if call.origin.isDecided { enroll(call) } else { decide(call) }
    }

    func welcome(_ state: ObjectCache.State) {
        if !exchange(&state.isGuest, with: true) { guests.append(state) }
    }

    private func register(_ call: ObjectCall) {
        let state = call.cache.state
        for alias in call.origin.aliases { state.aliases[alias, default: [:]][ObjectIdentifier(call)] = call }
    }

    private func unregister(_ call: ObjectCall) {
        let state = call.cache.state
        for alias in call.origin.aliases {
            state.aliases[alias]?[ObjectIdentifier(call)] = nil
            if state.aliases[alias]?.isEmpty == true { state.aliases[alias] = nil }
        }
    }

    /// Finds out whether the tiers have the larger source, which a smaller one may replace.
    private func decide(_ call: ObjectCall) {
        let origin = call.origin
        let find: @Sendable (Bool) -> Void = { isThere in
            let decided = origin.decided(isThere: isThere)
            self.post { $0.decided(call, decided) }
        }
        guard origin.source.hasDisk else { return find(false) }
        if call.want.queue == .fast {
            call.isReserved = true
            origin.source.reserve()
        }
        call.lookUp = origin.source.find(origin.dataKey, place(call.want), find)
    }

    private func decided(_ call: ObjectCall, _ origin: Origin) {
        if call.isOver { return }
        let asked = call.origin
        call.lookUp = nil
        unregister(call)
        call.choose(origin)
        register(call)
        enroll(call)
        release(call)
        endIdle(asked.key, in: call.cache)
    }

    private func release(_ call: ObjectCall) {
        if exchange(&call.isReserved, with: false) { call.origin.source.release() }
    }

    private func enroll(_ call: ObjectCall) {
        let (make, isNew) = make(call.origin, call.step, in: call.cache, keepsBytes: call.options.keepsBytes)
        (call.make, call.number) = (make, nextNumber())
        make.calls[call.number] = call
        make.wants.add(call.want)
        if isNew { return begin(make) }
        make.refresh(in: self)
        if case .ready = make.stage, let object = make.object {
            keep(object, for: [make], isWritten: make.isWritten)
            return settle(make)
        }
        if let supply = make.fetch { attend(call, at: supply) } else { limit(make, isJoined: true) }
    }

    /// Gives calls whose object is being made the rest of the time that their request allows.
    func limit(_ make: ObjectWork, isJoined: Bool = false) {
        guard let whole = make.origin.source.timeout(of: make.origin.request) else { return }
        let left = make.timeLeft.map { min(isJoined ? whole : $0, .seconds(1_000_000_000)) }
        for call in make.allCalls where (call.limit == nil) != (left == nil) {
            if let timer = exchange(&call.limit, with: nil) { timers.cancel(timer) }
            call.limit = left.map { timers.add(at: time.now() + $0, .making { $0.cancel(call, as: .timedOut) }) }
        }
    }

    func end(_ call: ObjectCall, _ result: Result<MadeObject, DipperError>) {
        release(call)
        unregister(call)
        if let timer = exchange(&call.limit, with: nil) { timers.cancel(timer) }
        call.end(result)
    }

    // MARK: Changes

    func cancel(_ call: ObjectCall, as error: DipperError = .cancelled) {
        if call.isOver { return }
        if let make = call.make {
            make.calls[call.number] = nil
            make.wants.remove(call.want)
            if error == .timedOut, make.allCalls.isEmpty { tellEnd(make, [call], .failure(error)) }
            end(call, .failure(error))
            settle(make)
        } else {
            call.lookUp?.cancel()
            end(call, .failure(.cancelled))
            endIdle(call.origin.key, in: call.cache)
        }
    }

    func move(_ call: ObjectCall, to queue: FetchQueue) {
        change(call, to: Urgency(queue: queue, level: call.want.level))
    }

    func change(_ call: ObjectCall, to want: Urgency) {
        guard !call.isOver, call.want != want else { return }
        call.make?.wants.remove(call.want)
        call.want = want
        call.make?.wants.add(want)
        call.make?.refresh(in: self)
        call.lookUp?.move(to: place(want))
        if want.queue == .slow { release(call) }
    }

    // MARK: The calls of a key

    func demote(_ key: CacheKey, andOthers: Bool, in state: ObjectCache.State) {
        for call in calls(of: key, andOthers: andOthers, in: state) { move(call, to: .slow) }
    }

    func cancel(_ key: CacheKey, andOthers: Bool, in state: ObjectCache.State) {
        for call in calls(of: key, andOthers: andOthers, in: state) { cancel(call) }
    }

    func cancelAll(in state: ObjectCache.State) {
        for works in state.works.values { for call in works.makes.flatMap(\.calls.values) { cancel(call) } }
        // Those that wait for a decision have joined no work.
        for call in state.aliases.values.flatMap({ $0.values }) { cancel(call) }
    }

    /// - Parameter andOthers: whether the key of a URL means calls with header fields or a key of their own as well.
    private func calls(of key: CacheKey, andOthers: Bool, in state: ObjectCache.State) -> [ObjectCall] {
        // A call may be found by both names; the second time nothing changes.
        (state.works[key]?.makes.flatMap(\.calls.values) ?? [])
            + (state.aliases[key]?.values.filter { andOthers || $0.origin.request.plainKey != key } ?? [])
    }

    /// Tells a call the news of its fetch, beginning with the last preview.
    func attend(_ call: ObjectCall, at supply: BytesWork) {
        if let failure = supply.failure { call.tell(.failure(failure, isFatal: false)) }
        if call.wantsProgress { call.hearProgress(of: supply) }
        if call.options.showsPreviews { showPreviews(of: supply, to: call) }
    }

    fileprivate func showPreviews(of supply: BytesWork, to call: ObjectCall) {
        guard let make = call.make else { return }
        if let previews = supply.previews {
            if let preview = previews.shown[make.key] { call.show(preview) }
        } else if let scan = call.step.previews() {
            supply.previews = Previews(scan)
            supply.task.watchBytes { [cache = call.cache] bytes in
                self.post { $0.arrived(bytes, for: supply, in: cache) }
            }
        }
    }

    private func arrived(_ bytes: Data, for supply: BytesWork, in cache: ObjectCache) {
        guard let previews = supply.previews else { return }
        if previews.scan.isPointless { return supply.task.ignoreBytes() }
        previews.arrived = bytes
        makePreviews(of: supply, in: cache)
    }

    private func makePreviews(of supply: BytesWork, in cache: ObjectCache) {
        guard let previews = supply.previews, !previews.isBusy, let bytes = previews.arrived else { return }
        let makes = supply.makes.flatMap(\.family).filter { $0.calls.values.contains { $0.options.showsPreviews } }
        guard let first = makes.first else { return }
        previews.isBusy = true
        previews.arrived = nil
        let steps = makes.map { ($0.key, $0.step) }
        let scan = previews.scan
        let work: @Sendable () -> Void = {
            var scan = scan
            var made: [(CacheKey, Product)] = []
            if let length = scan.preview(in: bytes) {
                let task = MakingTask(CacheKey("")) { previews.cancellation.isSet }
                for (key, step) in steps {
                    if let product = step.preview(of: bytes.prefix(length), task) { made.append((key, product)) }
                }
            }
            let (looked, results) = (scan, made)
            self.post { $0.previewed(supply, looked, results, in: cache) }
        }
        if let place = first.step.place {
            Afterwards.run { place.perform(work) }
        } else {
            let want = Urgency(supply.wants.highest.queue, .low)
            cache.workers.add(place(want), of: supply.origin.key, cost: { first.step.load(of: .bytes(bytes)) }, work)
        }
    }

    private func previewed(
        _ supply: BytesWork, _ scan: any PreviewScan, _ made: [(CacheKey, Product)], in cache: ObjectCache
    ) {
        guard let previews = supply.previews else { return }
        previews.scan = scan
        previews.isBusy = false
        for (key, product) in made {
            previews.shown[key] = product
            for make in supply.makes.flatMap(\.family) where make.key == key {
                for call in make.calls.values where call.options.showsPreviews { call.show(product) }
            }
        }
        makePreviews(of: supply, in: cache)
    }
}

extension ObjectCache.State: EngineGuest {
    func close(in engine: Engine) { engine.cancelAll(in: self) }
    func leave() {
        endBacklog()
        for continuation in exchange(&waiting, with: []) { continuation.resume() }
    }
}

/// The previews of one fetch, made one at a time.
@Loop
final class Previews {
    var scan: any PreviewScan
    var isBusy = false
    var arrived: Data?
    var shown: [CacheKey: Product] = [:]

    /// Tells the threads that make previews that nobody wants them any more.
    let cancellation = Cancellation()

    init(_ scan: any PreviewScan) { self.scan = scan }
}
