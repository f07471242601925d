import Foundation

/// The fetch of bytes for objects: a call for them, or the task of another that fetches newer ones.
final class BytesWork: SharedWork {
    let cache: ObjectCache
    let origin: Origin
    let claim: Claim
    let keepsBytes: Bool
    nonisolated let call: Call
    nonisolated let requestedQueue: FetchQueue
    private nonisolated let identity = EventIdentity()
    /// The call that the events tell of, if nothing could be made of its answer.
    private nonisolated let earlier: CacheEvent.ID?
    /// The call, if memory could not answer it.
    private var waiter: Waiter?
    private let followed: DataTask?
    var makes: [ObjectWork] = []
    private(set) var failure: DipperError?
    private(set) var progress: TaskProgress?
    private(set) var wantsProgress = false
    private var attempts = 0
    /// The URL that is asked, or was, in place of the key's.
    private(set) var address: String?
    private(set) var data: Data?
    private(set) var basis: Provenance?
    /// The order in which the bytes came, among all.
    private(set) var arrival: UInt64 = 0
    /// The number of bytes that wait to be made into an object.
    var waiting = 0
    private var previews: Previews?
    private var early: EarlyWork?
    /// Whether a long body has begun to arrive.
    private var isArriving = false
    private var mayBeginEarly = true
    var isClosed = false
    /// Whether objects of other bytes are out of date as soon as an object is made of these.
    var isNewest: Bool
    private var hasTold = false

    /// - Parameter failed: a call for the bytes, of whose answer the object could not be made.
    init(_ origin: Origin, for make: ObjectWork, after failed: BytesWork?) {
        failed?.hasTold = true
        // The claim comes first: an entry that is removed from now on is not kept.
        let isShared = make.claim.key == origin.dataKey && make.claim.isUntouched
        claim = origin.claim ?? (isShared ? make.claim : origin.source.claim(for: origin.call))
        let want = make.wants.highest
        followed = origin.following?()
        call = origin.call.with(
            origin.request.with(\.callbackQueue, .inPlace).with(\.priority, want.priority)
                .with(\.timeout, (make.family.first { !$0.calls.isEmpty } ?? make).timeout),
            keepsOnDisk: make.keepsBytes, isRenewal: origin.isAnew)
        requestedQueue = want.queue
        earlier = failed?.eventID
        (cache, self.origin, keepsBytes) = (make.cache, origin, make.keepsBytes)
        isNewest = origin.isAnew && origin.policy != .bypass
    }

    var isCurrent: Bool { !isClosed && !claim.isRevoked }
    /// The call that brings the bytes.
    var callID: CacheEvent.ID { followed?.eventID ?? eventID }

    private func endPreviews() {
        previews?.cancellation.set()
        previews = nil
    }

    /// The time that the call for the bytes has left; `nil` if it has none, or memory has answered it.
    var timeLeft: Duration? {
        guard let limits = waiter?.knownLimits, let limit = limits.limit, let fetch = limits.past else { return nil }
        return limit - fetch.findings.budget.spent(at: origin.source.engine.time.now())
    }

    /// How far the fetch is; see ``LeasedWork/news(since:)``.
    func news(since mark: inout Int) -> LeaseNews {
        guard let fetch = (waiter ?? followed?.waiter)?.fetch else { return .still }
        return fetch.lease?.news(since: &mark) ?? fetch.news(since: &mark)
    }

    override func move(to want: Urgency) {
        if want.queue == .slow {
            stopEarly(mayBeginAgain: true)
        } else if isArriving {
            beginEarly()
        }
        if let followed { return followed.raise(to: want) }
        if let waiter { origin.source.engine.run { _ in waiter.change(to: want) } }
    }
}

extension BytesWork: BytesCaller {
    nonisolated var priority: Priority { call.request.priority }
    nonisolated var eventID: CacheEvent.ID { earlier ?? identity.id }
    nonisolated var mayComeBack: Bool { true }

    nonisolated func attach(_ waiter: Waiter) {
        Loop.run {
            self.waiter = waiter
            if previews != nil { watchBytes() }
        }
    }

    func bodyArrives() {
        isArriving = true
        beginEarly()
    }

    func asks(_ address: String) {
        if origin.dataKey.isOf(address) { return }
        self.address = address
        for claim in [claim] + makes.flatMap(\.family).map(\.claim) { claim.ask(address) }
    }

    nonisolated func detach(in queue: FetchQueue, attempts: Int) { Loop.run { self.attempts = attempts } }

    nonisolated func finish(_ result: Result<DataResponse, DipperError>, in engine: Engine) {
        switch result {
        case .success(let response): cache.post(counting: response.data.count) { self.arrived(response) }
        case .failure(let error): cache.engine.post { self.failed(error) }
        }
    }
}

extension BytesWork {
    func leave(_ make: ObjectWork) {
        guard makes.contains(where: { $0 === make }) else { return }
        makes.removeAll { $0 === make }
        if early?.key == make.key {
            stopEarly(mayBeginAgain: true)
            beginEarly()
        }
        settle()
    }

    /// - Parameter failed: a call for the bytes, of whose answer the object could not be made.
    func start(after failed: (supply: BytesWork, error: DipperError)?) {
        let engine = origin.source.engine
        if let failed {
            submit(to: engine, claim, after: (failed.supply.waiter, failed.error))
        } else if let followed {
            progress = followed.latestProgress
            followed.follow { event, _ in self.heard(event, from: followed) }
            followed.waiter?.follow(self)
        } else {
            begin(in: engine, claim)
        }
    }

    private nonisolated func heard(_ event: DataTask.Event, from followed: DataTask) {
        switch event {
        case .finished(let response): finish(.success(response), in: origin.source.engine)
        case .failure(let error, isFatal: true): finish(.failure(error), in: origin.source.engine)
        default: cache.engine.post { self.hear(event) }
        }
    }

    /// Becomes as urgent as the work that waits. Ends if none does.
    func settle() {
        guard makes.isEmpty else { return refresh() }
        // A look at the tiers that is under way may still need the bytes.
        if basis == nil, isCurrent, cache.state.isLooking(at: origin.key) { return }
        end()
        guard let waiter, basis == nil else { return }
        origin.source.engine.run { _ in waiter.cancel() }
    }

    private func end() {
        cache.state.change(origin.key) { works in works.supplies.removeAll { $0 === self } }
        isClosed = true
        data = nil
        endPreviews()
        endEarly()
        cache.stopWaiting(&waiting)
        tellEndIfOver()
    }

    /// Tells the end of a call for bytes of which nothing is made any more.
    func tellEndIfOver() {
        guard data == nil, let basis else { return }
        if cache.state.works[origin.key]?.makes.contains(where: { $0.root === self }) == true { return }
        tellEnd(.success(basis.source))
    }

    func tellEnd(_ result: Result<ResponseSource, DipperError>) {
        if followed == nil, !exchange(&hasTold, with: true) { origin.source.events.ended(self, result) }
    }

    // MARK: News

    func hear(_ news: DataTask.Event) {
        switch news {
        case .failure(let error, _):
            (failure, progress) = (error, nil)
            // The wait may be long, and what arrives after it may be another body.
            stopEarly(mayBeginAgain: true)
            isArriving = false
        case .retry: (failure, progress) = (nil, nil)
        case .progress(let present): progress = present
        case .state, .interim, .finished: break
        }
        for call in makes.flatMap(\.allCalls) { call.tell(news) }
    }

    func wantProgress() {
        wantsProgress = true
        if let followed { return followed.wantProgress() }
        if let waiter { waiter.engine.run { _ in waiter.wantProgress() } }
    }

    /// The number of attempts and the state of the fetch.
    var status: (attempts: Int, state: TaskState) {
        let waiter = waiter ?? followed?.waiter
        // The engine of another data cache may not have decided since the call was made.
        if let engine = waiter?.engine, engine !== cache.engine { engine.run { $0.takeTurn() } }
        if let now = waiter?.status() { return (now.attempts, now.state) }
        // Bytes that are there wait to be decoded.
        let isOver = followed.map { $0.outcome != nil } ?? waiter?.isOver ?? true
        return (followed?.attempts ?? attempts, isOver ? .decoding : .waiting)
    }

    private func failed(_ error: DipperError) {
        end(of: followed?.attempts ?? attempts)
        tellEnd(.failure(error))
        let isOver = error == .cancelled || error == .shutDown
        for make in makes { make.fail(isOver ? error : make.broken ?? error) }
        end()
    }

    private func end(of attempts: Int) {
        endPreviews()
        for call in makes.flatMap(\.allCalls) { call.attempts = attempts }
    }

    private func arrived(_ response: DataResponse) {
        end(of: followed?.attempts ?? attempts)
        waiting = response.data.count
        data = response.data
        arrival = cache.engine.nextNumber()
        let info = response.info
        asks(info.url)
        basis = Provenance(
            // Several calls wait for what is made of it.
            info: call.freshness.isShared ? info.with(info.fields(isShared: true)) : info,
            source: response.source, attempts: response.attempts, metrics: response.metrics,
            asked: response.askedSource,
            revalidation: response.revalidation, claim: claim,
            call: origin.source.events.wants(.objects) ? callID : nil)
        if !response.source.isAnswer || response.info.isStandIn { isNewest = false }
        if origin.isAnew { isClosed = true }
        // A look at the tiers that is under way finds the bytes in the data cache.
        if makes.isEmpty { return end() }
        for make in makes {
            if isClosed { for member in make.family { member.isClosed = true } }
            make.take(self)
        }
        endEarly()
    }

    // MARK: Previews

    func showPreviews(to call: ObjectCall) {
        guard let make = call.make else { return }
        if let previews {
            if let preview = previews.shown[make.key] { call.show(preview) }
        } else if let scan = call.step.previews() {
            previews = Previews(scan)
            watchBytes()
        }
    }

    private func watchBytes() {
        guard let waiter = waiter ?? followed?.waiter else { return }
        waiter.engine.run { [engine = cache.engine, isImpatient = early != nil] _ in
            waiter.watchBytes(isImpatient: isImpatient) { bytes in engine.post { self.arrived(bytes) } }
        }
    }

    private func arrived(_ bytes: Data) {
        let showsPreviews = previews.map { !$0.scan.isPointless } ?? false
        guard showsPreviews || early != nil else { return (waiter ?? followed?.waiter)?.ignoreBytes() ?? () }
        if showsPreviews {
            previews?.arrived = bytes
            makePreviews()
        }
        early?.arrived = bytes
        advanceEarly()
    }

    private func makePreviews() {
        guard let previews, !previews.isBusy, let bytes = previews.arrived else { return }
        let watched = makes.flatMap(\.family).filter { $0.calls.values.contains { $0.options.showsPreviews } }
        guard let first = watched.first else { return }
        previews.isBusy = true
        previews.arrived = nil
        let steps = watched.map { ($0.key, $0.step) }
        let (scan, engine) = (previews.scan, cache.engine)
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
            engine.post { self.previewed(looked, results) }
        }
        if let place = first.step.place {
            Afterwards.run { place.perform(work) }
        } else {
            let want = Urgency(wants.highest.queue, .low)
            cache.workers.add(
                engine.place(want), of: origin.key, cost: { first.step.load(of: .bytes(bytes)) }, work)
        }
    }

    private func previewed(_ scan: any PreviewScan, _ made: [(CacheKey, Product)]) {
        guard let previews else { return }
        previews.scan = scan
        previews.isBusy = false
        for (key, product) in made {
            previews.shown[key] = product
            for make in makes.flatMap(\.family) where make.key == key {
                for call in make.calls.values where call.options.showsPreviews { call.show(product) }
            }
        }
        makePreviews()
    }
}

/// The making of an object while its bytes arrive: of the first one that waits for them, as soon as it is urgent.
extension BytesWork {
    private func beginEarly() {
        guard mayBeginEarly, isCurrent, wants.highest.queue == .fast, let make = makes.first, make.earlier == nil,
            cache.state.earlyWorks < cache.workers.threads
        else { return }
        mayBeginEarly = false
        guard let making = make.step.early() else { return }
        early = EarlyWork(make, making)
        cache.state.earlyWorks += 1
        watchBytes()
    }

    private func advanceEarly() {
        guard let early, !early.isBusy, let bytes = exchange(&early.arrived, with: nil) else { return }
        early.isBusy = true
        let (step, making, engine) = (early.step, early.making, cache.engine)
        // It takes no turn of the key, which the last part of the decode would have to wait for.
        early.ticket = cache.workers.add(
            engine.place(Urgency(wants.highest.queue, .low)), cost: { (step.cost(of: .bytes(bytes)), 0) }
        ) {
            let goesOn = making.advance(bytes)
            engine.post { self.advanced(early, goesOn: goesOn) }
        }
        if early.ticket == nil { stopEarly() }
    }

    private func advanced(_ work: EarlyWork, goesOn: Bool) {
        guard early === work else { return }
        work.isBusy = false
        if goesOn { advanceEarly() } else { stopEarly() }
    }

    /// Hands over what has been made for an object.
    func takeEarly(for make: ObjectWork) -> (any EarlyMaking)? {
        guard let early, early.key == make.key else { return nil }
        endEarly(isTaken: true)
        return early.making
    }

    /// Ends the making while bytes still arrive. Another may begin if the reason is not in the bytes.
    private func stopEarly(mayBeginAgain: Bool = false) {
        guard early != nil else { return }
        endEarly()
        mayBeginEarly = mayBeginAgain
        if previews != nil { return watchBytes() }
        if let waiter = waiter ?? followed?.waiter { waiter.engine.run { _ in waiter.ignoreBytes() } }
    }

    private func endEarly(isTaken: Bool = false) {
        guard let ended = exchange(&early, with: nil) else { return }
        ended.ticket?.cancel()
        if !isTaken { ended.making.cancel() }
        cache.state.earlyWorks -= 1
    }
}

/// An object that is made while its bytes arrive.
@Loop
private final class EarlyWork {
    let key: CacheKey
    let step: any ObjectStep
    let making: any EarlyMaking
    var isBusy = false
    var arrived: Data?
    var ticket: Workers.Ticket?

    init(_ make: ObjectWork, _ making: any EarlyMaking) {
        (key, step, self.making) = (make.key, make.step, making)
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
