import Foundation
import Synchronization

/// The handle of a call for an object. Its methods return at once and run no code of the program's own.
package protocol ObjectTask: AnyObject, Sendable {
    /// - Parameter renewal: the making of a newer object, if this one is out of date. The task begins it.
    func end(_ result: Result<MadeObject, DipperError>, _ renewal: ObjectCall.Renewal?)
    func hear(_ news: FetchNews)
    func show(_ preview: Product)
    /// Takes the request for the smaller source, which replaces the larger one.
    func choose(_ request: DataRequest)
}

/// A call for an object that memory could not answer, shared by its handle and the engine.
package final class ObjectCall: @unchecked Sendable {
    /// The options that do not distinguish objects.
    package struct Options: Sendable {
        /// Whether a prefetched object is kept in memory.
        package var keepsInMemory = true
        /// Whether the bytes stay on disk beside the stored form.
        package var keepsBytes = true
        package var showsPreviews = false

        package init() {}
    }

    /// The making of an object of newer bytes that are being fetched.
    package struct Renewal: Sendable {
        package let cache: ObjectCache
        package let origin: Origin
        package let step: any ObjectStep

        package init(_ cache: ObjectCache, _ origin: Origin, _ step: any ObjectStep) {
            (self.cache, self.origin, self.step) = (cache, origin, step)
        }
    }

    private struct Link {
        /// `nil` after the end, so that a handle that is kept keeps no cache alive.
        var engine: Engine?
        var priority: Priority
        var queue: FetchQueue
        var attempts = 0
        var wantsProgress: Bool
    }

    let step: any ObjectStep
    let options: Options
    private let link: Mutex<Link>

    var origin: Origin?
    var want: Urgency
    var lookUp: Workers.Ticket?
    var isReserved = false
    var cache: ObjectCache?
    var make: ObjectWork?
    private var task: (any ObjectTask)?

    /// - Parameter task: kept until the end; `nil` if nobody waits.
    package init(
        _ task: any ObjectTask, _ cache: ObjectCache, _ origin: Origin, _ step: any ObjectStep, _ options: Options,
        _ queue: FetchQueue, wantsProgress: Bool = false
    ) {
        (self.task, self.cache, self.origin, self.step, self.options) = (task, cache, origin, step, options)
        let priority = origin.request.priority
        want = Urgency(queue, priority)
        link = Mutex(Link(engine: cache.engine, priority: priority, queue: queue, wantsProgress: wantsProgress))
    }

    package func start() {
        let engine = engine
        if engine?.post({ $0.take(self) }) != true { end(.failure(.shutDown)) }
    }

    // MARK: The handle's interface

    private var engine: Engine? { link.withLock { $0.engine } }

    package func cancel() { engine?.post { $0.cancel(self) } }
    package func moveToSlowQueue() { engine?.post { $0.move(self, to: .slow) } }

    package var priority: Priority {
        get { link.withLock { $0.priority } }
        set {
            let engine = link.withLock { link in
                link.priority = newValue
                return link.engine
            }
            engine?.post { $0.setPriority(newValue, of: self) }
        }
    }

    /// The queue that the call is in now, or was in when it ended.
    package var queue: FetchQueue {
        let now = engine?.ask { _ in self.cache == nil ? nil : self.want.queue } ?? nil
        return now ?? link.withLock { $0.queue }
    }

    /// The stage of the call.
    package enum Stage: Sendable {
        case looking
        case fetching(DataTask)
        case making
    }

    package var stage: Stage? { engine?.ask { $0.stage(of: self) } ?? nil }

    package var attempts: Int {
        if case .fetching(let task)? = stage { return task.attempts }
        return link.withLock { $0.attempts }
    }

    /// Has progress told from now on.
    package func wantProgress() {
        let engine = link.withLock { link in
            link.wantsProgress = true
            return link.engine
        }
        engine?.post { $0.wantProgress(self) }
    }

    // MARK: The engine's interface

    var wantsProgress: Bool { link.withLock { $0.wantsProgress } }

    func tell(_ news: FetchNews) {
        if case .progress = news, !wantsProgress { return }
        task?.hear(news)
    }

    func show(_ preview: Product) { task?.show(preview) }

    func note(attempts: Int) { link.withLock { $0.attempts = attempts } }

    func choose(_ origin: Origin) {
        self.origin = origin
        task?.choose(origin.request)
    }

    func end(_ result: Result<MadeObject, DipperError>) {
        // The bytes may be no picture or value.
        let result = result.mapError { error in
            guard error.url == nil, let source = make?.root?.basis?.info.source else { return error }
            return error.at(source)
        }
        let (task, cache, origin) = (
            exchange(&task, with: nil), exchange(&cache, with: nil), exchange(&origin, with: nil)
        )
        make = nil
        let engine = link.withLock { link in
            link.queue = want.queue
            if let attempts = (try? result.get())?.basis.attempts { link.attempts = attempts }
            return exchange(&link.engine, with: nil)
        }
        var renewal: Renewal?
        if case .success(let object) = result, let bytes = object.basis.revalidation, let cache, let origin {
            renewal = Renewal(cache, origin.following(object.basis.claim) { bytes }, step)
        }
        task?.end(result, renewal)
        withExtendedLifetime((cache, origin, engine)) {}
    }
}

extension Engine {
    func take(_ call: ObjectCall) {
        guard let cache = call.cache, let origin = call.origin else { return }
        if isClosed { return call.end(.failure(.shutDown)) }
        welcome(cache.state)
        register(call, cache.state)
        if origin.isDecided { enroll(call, origin, cache) } else { decide(call, origin, cache) }
    }

    func welcome(_ state: ObjectCache.State) {
        if !exchange(&state.isGuest, with: true) { guests.append(state) }
    }

    private func register(_ call: ObjectCall, _ state: ObjectCache.State) {
        for alias in call.origin?.aliases ?? [] { state.aliases[alias, default: [:]][ObjectIdentifier(call)] = call }
    }

    private func unregister(_ call: ObjectCall, _ state: ObjectCache.State) {
        for alias in call.origin?.aliases ?? [] {
            state.aliases[alias]?[ObjectIdentifier(call)] = nil
            if state.aliases[alias]?.isEmpty == true { state.aliases[alias] = nil }
        }
    }

    /// Finds out whether the tiers have the larger source, which a smaller one may replace.
    private func decide(_ call: ObjectCall, _ origin: Origin, _ cache: ObjectCache) {
        works(of: origin.key, in: cache.state).deciding.append(call)
        let find: @Sendable (Bool) -> Void = { isThere in
            let decided = origin.decided(isThere: isThere)
            self.post { $0.decided(call, decided) }
        }
        guard origin.source.hasDisk else { return find(false) }
        if call.want.queue == .fast {
            call.isReserved = true
            reserve(origin.source)
        }
        call.lookUp = origin.source.find(origin.dataKey, place(call.want), find)
    }

    private func decided(_ call: ObjectCall, _ origin: Origin) {
        guard let cache = call.cache, let asked = call.origin, stopDeciding(call, cache.state) else { return }
        unregister(call, cache.state)
        call.choose(origin)
        register(call, cache.state)
        enroll(call, origin, cache)
        release(call)
        endIdle(asked.key, in: cache)
    }

    private func stopDeciding(_ call: ObjectCall, _ state: ObjectCache.State) -> Bool {
        guard let key = call.origin?.key, let works = state.works[key],
            let place = works.deciding.firstIndex(where: { $0 === call })
        else { return false }
        works.deciding.remove(at: place)
        call.lookUp = nil
        if works.isEmpty { state.works[key] = nil }
        return true
    }

    private func release(_ call: ObjectCall) {
        if exchange(&call.isReserved, with: false), let origin = call.origin { release(origin.source) }
    }

    private func enroll(_ call: ObjectCall, _ origin: Origin, _ cache: ObjectCache) {
        let (make, isNew) = make(origin, call.step, in: cache, keepsBytes: call.options.keepsBytes)
        call.make = make
        make.calls.append(call)
        make.wants.add(call.want)
        if isNew { return begin(make) }
        make.refresh(in: self)
        if case .ready = make.stage, let object = make.object {
            keep(object, for: [make], isWritten: make.isWritten)
            return settle(make)
        }
        if let supply = make.fetch { attend(call, at: supply) }
    }

    func end(_ call: ObjectCall, _ result: Result<MadeObject, DipperError>) {
        release(call)
        if let state = call.cache?.state { unregister(call, state) }
        call.end(result)
    }

    // MARK: Changes

    func cancel(_ call: ObjectCall, as error: DipperError = .cancelled) {
        guard let cache = call.cache else { return }
        if let make = call.make {
            make.calls.removeAll { $0 === call }
            make.wants.remove(call.want)
            end(call, .failure(error))
            settle(make)
        } else {
            let (key, lookUp) = (call.origin?.key, call.lookUp)
            guard stopDeciding(call, cache.state), let key else { return }
            lookUp?.cancel()
            end(call, .failure(error))
            endIdle(key, in: cache)
        }
    }

    func move(_ call: ObjectCall, to queue: FetchQueue) {
        change(call, to: Urgency(queue: queue, level: call.want.level))
    }

    func setPriority(_ priority: Priority, of call: ObjectCall) {
        change(call, to: Urgency(call.want.queue, priority))
    }

    private func change(_ call: ObjectCall, to want: Urgency) {
        guard call.want != want else { return }
        call.make?.wants.remove(call.want)
        call.want = want
        call.make?.wants.add(want)
        call.make?.refresh(in: self)
        call.lookUp?.move(to: place(want))
        if want.queue == .slow { release(call) }
    }

    func wantProgress(_ call: ObjectCall) { call.make?.fetch?.task.wantProgress() }

    func stage(of call: ObjectCall) -> ObjectCall.Stage? {
        guard call.cache != nil else { return nil }
        guard let make = call.make else { return .looking }
        if let supply = make.fetch { return .fetching(supply.task) }
        switch make.stage {
        case .looking, .waiting: return .looking
        case .making, .writing, .ready, .over: return .making
        }
    }

    // MARK: The calls of a key

    func demote(_ key: CacheKey, in state: ObjectCache.State) {
        for call in calls(of: key, in: state) { move(call, to: .slow) }
    }

    func cancel(_ key: CacheKey, in state: ObjectCache.State) {
        for call in calls(of: key, in: state) { cancel(call) }
    }

    func cancelAll(in state: ObjectCache.State) {
        for works in state.works.values {
            for call in works.deciding + works.makes.flatMap(\.calls) { cancel(call) }
        }
    }

    private func calls(of key: CacheKey, in state: ObjectCache.State) -> [ObjectCall] {
        let own = state.works[key].map { $0.deciding + $0.makes.flatMap(\.calls) } ?? []
        return own + (state.aliases[key]?.values.filter { call in !own.contains { $0 === call } } ?? [])
    }

}

extension ObjectCache.State: EngineGuest {
    func close(in engine: isolated Engine) { engine.cancelAll(in: self) }
    func leave() { for continuation in exchange(&waiting, with: []) { continuation.resume() } }
}

/// The previews of one fetch, made one at a time. Only the engine uses it.
final class Previews: @unchecked Sendable {
    var scan: any PreviewScan
    var isBusy = false
    var arrived: Data?
    /// The latest preview of each object, by its key.
    var shown: [CacheKey: Product] = [:]

    private let ended = Atomic(false)

    init(_ scan: any PreviewScan) { self.scan = scan }

    /// Whether nobody wants previews any more. Any thread may ask.
    var isOver: Bool { ended.load(ordering: .relaxed) }
    func end() { ended.store(true, ordering: .relaxed) }
}

extension Engine {
    /// Tells a call the news of its fetch, beginning with the last preview.
    func attend(_ call: ObjectCall, at supply: BytesWork) {
        if let failure = supply.failure { call.tell(.failure(failure)) }
        if call.wantsProgress { supply.task.wantProgress() }
        guard call.options.showsPreviews, let make = call.make, let cache = call.cache else { return }
        if let previews = supply.previews {
            if let preview = previews.shown[make.key] { call.show(preview) }
        } else if let scan = call.step.previews() {
            supply.previews = Previews(scan)
            supply.task.watchBytes { bytes in self.post { $0.arrived(bytes, for: supply, in: cache) } }
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
        let makes = supply.makes.flatMap(\.family).filter { $0.calls.contains { $0.options.showsPreviews } }
        guard let first = makes.first else { return }
        previews.isBusy = true
        previews.arrived = nil
        let steps = makes.map { ($0.key, $0.step) }
        let scan = previews.scan
        let work: @Sendable () -> Void = {
            var scan = scan
            var made: [(CacheKey, Product)] = []
            if let length = scan.preview(in: bytes) {
                let task = MakingTask(CacheKey("")) { previews.isOver }
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
            cache.workers.add(place(want), cost: { first.step.cost(of: .bytes(bytes)) }, work)
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
                for call in make.calls where call.options.showsPreviews { call.show(product) }
            }
        }
        makePreviews(of: supply, in: cache)
    }
}
