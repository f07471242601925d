import Foundation

/// A cache of objects that are made from the bytes of data caches, each of them once however many callers wait.
///
/// The ``ObjectGraph`` decides, and this type carries out what it decides. It keeps objects in memory, writes their
/// stored forms to disk, and makes them on a few threads of its own, urgent ones first.
package final class ObjectCache<Maker: ObjectMaker>: Sendable {
    /// The types of the graph.
    enum Kind: ObjectKind {
        typealias Origin = FetchOrigin
        typealias Step = Maker.Step
        typealias Version = EntryVersion
        typealias Bytes = ObjectCache.Bytes
        typealias Object = ObjectCache.Object
        typealias Waiter = ObjectCache.Waiter
        typealias Hold = FastReservation

        static func isForm(_ stored: Bytes, of version: EntryVersion) -> Bool {
            stored.digest != 0 && stored.digest == version.digest
        }
    }

    typealias Graph = ObjectGraph<Kind>
    typealias Action = Graph.Action

    /// The answer to a fetch, or the stored form of an object.
    struct Bytes: Sendable {
        let data: Data
        let info: EntryInfo
        /// The digest of the bytes, or of those that the stored form was made from.
        let digest: UInt64
        let source: ResponseSource
        /// The answer; `nil` for a stored form.
        let response: DataResponse?
        /// The right to keep what is made from the bytes, claimed before they were asked for.
        let claim: Claim?
        /// Whether the bytes are those of the origin's key. A smaller source may have taken their place.
        var isOwn = true
        /// The key of the origin, and the call that has brought the bytes, for the events of the cache.
        let key: CacheKey
        var call: CacheEvent.ID?
        /// The hub that is told.
        let events: EventHub
        var waiting: WaitingBytes?
    }

    /// An object, and the answer that it was made from.
    package struct Object: Sendable {
        package let product: Maker.Product
        package let info: EntryInfo
        /// The digest of the bytes; 0 if there are none.
        package var digest: UInt64 = 0
        package let source: ResponseSource
        /// The attempts, the times and the newer bytes of the answer.
        package var attempts = 0
        package var metrics: TransferMetrics?
        package var revalidation: DataTask?
        /// Whether the program has added the object.
        package var isAdded = false
        package var claim: Claim?
        /// Whether the object may be kept under the key of its origin.
        var isOwn = true
        /// Whether memory has had the object already, so that it need not be written again.
        var isPresent = false
        /// The stored form, if it is at hand.
        var form: Data?
        /// The part of the bytes that the stored form needs.
        var excerpt: Data?
        var key = CacheKey("")
        var call: CacheEvent.ID?
        var events: EventHub?

        init(_ product: Maker.Product, _ info: EntryInfo, _ source: ResponseSource) {
            self.product = product
            self.info = info
            self.source = source
        }

        init(_ product: Maker.Product, madeOf bytes: Bytes, _ info: EntryInfo) {
            self.init(product, info, bytes.source)
            digest = bytes.digest
            attempts = bytes.response?.attempts ?? 0
            metrics = bytes.response?.metrics
            revalidation = bytes.response?.revalidation
            (claim, isOwn, key, call, events) = (bytes.claim, bytes.isOwn, bytes.key, bytes.call, bytes.events)
        }

        /// Returns an object made from this one.
        func with(_ product: Maker.Product) -> Self {
            var object = Self(product, info, source)
            (object.digest, object.attempts, object.metrics) = (digest, attempts, metrics)
            (object.revalidation, object.claim, object.isOwn) = (revalidation, claim, isOwn)
            (object.excerpt, object.key, object.call, object.events) = (excerpt, key, call, events)
            return object
        }
    }

    /// The party that waits for an object. The closures run no code of the program's own under a lock.
    package struct Waiter: Sendable {
        let context: Maker.Context
        let end: @Sendable (Result<Object, DipperError>) -> Void
        let tell: @Sendable (FetchNews) -> Void
        let show: @Sendable (Maker.Product) -> Void
        let chose: @Sendable (FetchOrigin) -> Void

        package init(
            _ context: Maker.Context, end: @escaping @Sendable (Result<Object, DipperError>) -> Void,
            tell: @escaping @Sendable (FetchNews) -> Void,
            show: @escaping @Sendable (Maker.Product) -> Void = { _ in },
            chose: @escaping @Sendable (FetchOrigin) -> Void = { _ in }
        ) {
            self.context = context
            self.end = end
            self.tell = tell
            self.show = show
            self.chose = chose
        }
    }

    /// Work that the graph has asked for and that can be moved or ended.
    enum Running: Sendable {
        /// A look at the disk.
        case look(Workers.Ticket?)
        /// A look at the disk that waits for its turn, as a call of the data cache.
        case turn(DataTask)
        case fetch(DataTask, isOwn: Bool)
        /// An object that is being made, and its number in the queue.
        case making(MakingRun, Int?)
        /// A write, by its number in the queue.
        case write(Int)
    }

    /// The graph, the work that it has asked for, and the previews of bytes that are arriving.
    struct Machine: Sendable {
        var graph = Graph()
        var running: [ObjectWork: Running] = [:]
        var previews: [ObjectFetchID: Previews] = [:]
        /// The fetches of newer bytes, until the objects are made.
        var followed: [Graph.WriteName: FetchOrigin] = [:]

        var isIdle: Bool { running.isEmpty && graph.requests.isEmpty && graph.writes.isEmpty }
    }

    let driver = StateDriver<Machine, Graph.Action>(Machine())
    private let thread = SeparateThread()
    package let maker: Maker
    package let memory: ObjectTier
    package let queue: MakingQueue
    /// Whether new work comes first among work of the same urgency, by queue.
    let isLIFO: @Sendable (FetchQueue) -> Bool

    /// - Parameters:
    ///   - queue: the threads that make objects.
    ///   - isLIFO: returns whether the newest work of a queue comes first.
    package init(
        _ maker: Maker, memory: ObjectTier, queue: MakingQueue,
        isLIFO: @escaping @Sendable (FetchQueue) -> Bool = { _ in false }
    ) {
        self.maker = maker
        self.memory = memory
        self.queue = queue
        self.isLIFO = isLIFO
    }

    // MARK: Requests

    /// Adds a request.
    package func ask(
        _ waiter: Waiter, _ origin: FetchOrigin, _ path: [Maker.Step], _ want: ObjectWant,
        interest: FetchInterest = []
    ) -> ObjectRequestID {
        apply { $0.ask(waiter, origin, path, want, looks: origin.looks, interest: interest, into: &$1) }
    }

    /// Has a newer object made, whether anyone waits for it or not: one for all calls, until it is there.
    /// - Parameters:
    ///   - claim: the right to keep what is made, if the fetch has begun; `nil` if it has not.
    ///   - fetch: begins the fetch of newer bytes, or returns the one that has begun.
    /// - Returns: the fetch, as the origin of the newer object.
    package func follow(
        _ origin: FetchOrigin, _ path: [Maker.Step], _ context: Maker.Context, _ claim: Claim? = nil,
        _ fetch: () -> DataTask
    ) -> FetchOrigin {
        let name = Graph.WriteName(key: origin.key, path: path)
        if let present = driver.withLock({ $0.followed[name] }) { return present }
        // The claim comes first: what is removed from now on is not kept.
        let claim = claim ?? origin.source.claim(origin.dataKey)
        let following = origin.following(fetch(), claim)
        let present = driver.withLock { machine -> FetchOrigin? in
            if let present = machine.followed[name] { return present }
            machine.followed[name] = following
            return nil
        }
        if let present { return present }
        let end: @Sendable (Result<Object, DipperError>) -> Void = { _ in
            let ended = self.driver.withLock { $0.followed.removeValue(forKey: name) }
            withExtendedLifetime((ended, name)) {}
        }
        _ = ask(Waiter(context, end: end, tell: { _ in }), following, path, ObjectWant(.slow))
        return following
    }

    package func cancel(_ id: ObjectRequestID) { apply { $0.cancel(id, into: &$1) } }
    package func change(_ id: ObjectRequestID, to want: ObjectWant) { apply { $0.change(id, to: want, into: &$1) } }
    package func listen(_ id: ObjectRequestID, to interest: FetchInterest) {
        apply { $0.listen(id, to: interest, into: &$1) }
    }

    /// Turns the urgent requests for a key into prefetches.
    package func demote(_ key: CacheKey) { apply { $0.demote(key, into: &$1) } }
    package func cancel(key: CacheKey) { apply { $0.cancel(key: key, into: &$1) } }
    package func cancelAll() { apply { $0.cancelAll(into: &$1) } }

    /// Returns the queue that a request is in; `nil` once the request has ended.
    package func queue(of id: ObjectRequestID) -> FetchQueue? {
        driver.withLock { $0.graph.requests[id]?.want.queue }
    }

    /// The stage of a request.
    package enum Stage: Sendable {
        case searching
        case fetching(DataTask)
        case making
    }

    /// Returns the stage of a request; `nil` once the request has ended.
    package func stage(of id: ObjectRequestID) -> Stage? {
        driver.withLock { machine -> Stage? in
            guard let work = machine.graph.requests[id]?.stage else { return nil }
            switch work {
            case .search: return .searching
            case .fetch: if case .fetch(let task, _)? = machine.running[work] { return .fetching(task) }
            case .node, .write: return .making
            }
            return .searching
        }
    }

    /// The number of requests for a key.
    package func requestCount(_ key: CacheKey) -> Int { driver.withLock { $0.graph.requests(for: key).count } }

    /// The number of all requests, and of the objects that are about to be kept.
    package func requestCount() -> Int { driver.withLock { $0.graph.requests.count + $0.graph.keeps.count } }

    /// The numbers of searches, fetches and objects that are under way.
    package var workCount: Int {
        driver.withLock { $0.graph.searches.count + $0.graph.fetches.count + $0.graph.nodes.count }
    }

    // MARK: Ending

    /// Ends all requests, makes the objects that wait to be made, writes those that wait to be written, and returns
    /// when the threads have ended.
    package func shutdown() async {
        cancelAll()
        await queue.shutdown()
        await finishWrites()
    }

    /// Whether no object is wanted, made or written.
    package var isIdle: Bool { driver.withLock { $0.isIdle } }

    /// Returns when no object is wanted, made or written.
    package func becomeIdle() async {
        await driver.finish { $0.isIdle }
        await thread.finish()
    }

    /// Returns when there is no write.
    package func finishWrites() async {
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            apply { $0.afterWrites({ continuation.resume() }, into: &$1) }
        }
    }

    // MARK: Actions

    @discardableResult
    func apply<Result: Sendable>(_ event: (inout Graph, inout [Action]) -> Result) -> Result {
        driver.apply(for: Performer(cache: self)) { machine, actions in event(&machine.graph, &actions) }
    }

    /// Ends the work that an event answers.
    func answer(_ work: ObjectWork, _ event: (inout Graph, inout [Action]) -> Void) {
        let ended = driver.apply(for: Performer(cache: self)) { machine, actions -> Running? in
            let running = machine.running.removeValue(forKey: work)
            event(&machine.graph, &actions)
            return running
        }
        withExtendedLifetime(ended) {}
    }

    private struct Performer: ActionPerformer {
        let cache: ObjectCache

        func perform(_ action: Graph.Action) { cache.perform(action) }

        /// Leaves the rest to another thread.
        func handOver(_ rest: @escaping @Sendable () -> Void) { cache.thread.run(rest) }

        /// Runs a turn, and then the code of the program's own that follows.
        func takeTurn(_ turn: () -> Void) {
            let steps = Afterwards.steps(after: turn)
            for step in steps { step() }
        }
    }

    private func perform(_ action: Graph.Action) {
        switch action {
        // Work whose requests have ended meanwhile is not begun.
        case .decide(let id, let origin, let want): if isWanted(.search(id)) { decide(id, origin, want) }
        case .lookUp(let id, let origin, let path, let versions, let want):
            if isWanted(.search(id)) { look(id, origin, path, versions, want) }
        case .fetch(let id, let origin, let want): if isWanted(.fetch(id)) { fetch(id, origin, want) }
        case .listen(let id, let interest): listen(id, interest)
        case .make(let id, let version, let key, let path, let steps, let material, let want):
            if let object = present(key, path, material) { return apply { $0.made(id, object, into: &$1) } }
            make(id, version, steps, material, want)
        case .move(let work, let want): move(work, want)
        case .drop(let work): drop(work)
        case .keep(let keeping): keep(keeping)
        case .write(let id, let keeping, let want): write(id, keeping, want)
        case .purge(let origin, let before): purge(origin, before)
        case .discard(let origin, let path, let tiers):
            origin.source.forms?.remove(formKey(origin, path), from: tiers)
        case .deliver(let waiters, let result): for waiter in waiters { waiter.end(result) }
        case .tell(let waiters, let news): for waiter in waiters { waiter.tell(news) }
        case .choose(let waiters, let origin): for waiter in waiters { waiter.chose(origin) }
        case .show(let waiters, let preview): for waiter in waiters { waiter.show(preview.product) }
        case .call(let bodies): for body in bodies { body() }
        case .release: break
        }
    }

    private func isWanted(_ work: ObjectWork) -> Bool { driver.withLock { $0.graph.crowd(of: work) != nil } }

    private func move(_ work: ObjectWork, _ want: ObjectWant) {
        if want.queue == .slow, case .search(let id) = work {
            for hold in driver.withLock({ $0.graph.takeHold(of: id) }) { hold.release() }
        }
        switch driver.withLock({ $0.running[work] }) {
        case .fetch(let task, _), .turn(let task):
            if want.queue == .fast { task.moveToFastQueue() } else { task.moveToSlowQueue() }
            if task.priority != want.priority { task.priority = want.priority }
        case .look(let lookUp): lookUp?.move(to: place(want))
        case .making(let run, let number): if let number { queue.move(number, to: place(want, isNext: run.isNext)) }
        case .write(let number): queue.move(number, to: place(want, isNext: true))
        case nil: break
        }
    }

    private func drop(_ work: ObjectWork) {
        let (running, previews) = driver.withLock { machine -> (Running?, Previews?) in
            guard case .fetch(let id) = work else { return (machine.running.removeValue(forKey: work), nil) }
            return (machine.running.removeValue(forKey: work), machine.previews.removeValue(forKey: id))
        }
        switch running {
        case .look(let lookUp): lookUp?.cancel()
        case .turn(let task): task.cancel()
        case .fetch(let task, let isOwn): if isOwn { task.cancel() } else { task.ignoreBytes() }
        case .making(let run, let number):
            run.cancel()
            if let number { queue.remove(number) }
        case .write(let number): queue.remove(number)
        case nil: break
        }
        withExtendedLifetime(previews) {}
    }

    /// Returns the place of work in a queue.
    /// - Parameter isNext: whether the work comes before all other work of its queue.
    func place(_ want: ObjectWant, isNext: Bool = false) -> MakingQueue.Place {
        isNext
            ? .init(want.queue, Priority(1), isLIFO: true)
            : .init(want.queue, want.priority, isLIFO: isLIFO(want.queue))
    }
}
