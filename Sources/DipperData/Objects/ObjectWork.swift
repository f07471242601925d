import Foundation

/// Makes an object for calls with one origin: looks at the tiers, gets the parent or the bytes, runs the step.
final class ObjectWork: SharedWork {
    enum Stage {
        case looking
        /// Another process makes the object.
        case elsewhere
        case waiting
        case making
        case writing
        case ready
        case over
    }

    let cache: ObjectCache
    let identity = EventIdentity()
    let origin: Origin
    let step: any ObjectStep
    let keepsBytes: Bool
    let key: CacheKey
    /// Claimed before the first look.
    let claim: Claim
    var stage = Stage.looking
    /// The number of the stage, by which late answers are recognised.
    var round: UInt64 = 0
    /// By their numbers, so that each of thousands leaves in constant time.
    var calls: [UInt64: ObjectCall] = [:]
    var children: [ObjectWork] = []
    /// `nil` if the object is made from bytes, or is in a tier.
    var parent: ObjectWork? {
        didSet { claimAddress() }
    }
    /// `nil` if the object is made from another, or is in a tier.
    var supply: BytesWork? {
        didSet { claimAddress() }
    }
    var lookUp: Workers.Ticket?
    var lookUpTime = Date.distantPast
    var lease: Lease?
    /// Whether an urgent call of another process waits.
    private var isHurried = false
    /// Whether the form that is looked up was made for the calls that have waited here as well.
    private var isAnsweredForAll = false
    /// When the form that was looked up last was stored.
    private var foundBefore: TimeInterval?
    /// Runs while another process makes the object.
    private var waited = Stopwatch()
    /// Whether no prefetch starts because this work may fetch.
    private var isReserved = false
    /// The stored form made of earlier bytes. It serves if the bytes are still the same.
    var earlier: StoredData?
    /// The reason why the object cannot be made of stored bytes, which are fetched again.
    var broken: DipperError?
    var object: MadeObject?
    var isWritten = false
    var isClosed = false
    /// Whether the object is not kept, because a newer one takes its place.
    var isOutdated = false

    init(_ cache: ObjectCache, _ origin: Origin, _ step: any ObjectStep, keepsBytes: Bool) {
        (self.cache, self.origin, self.step, self.keepsBytes) = (cache, origin, step, keepsBytes)
        key = step.key(origin.key)
        let form = step.isStored ? origin.formKey(step, key) : nil
        claim = origin.source.claim(for: origin.call, form, within: origin.claim)
    }

    private var formKey: CacheKey { origin.formKey(step, key) }

    var isValid: Bool { !isOutdated && !claim.isRevoked }
    var isCurrent: Bool { !isClosed && isValid }

    /// The fetch that has brought, or will bring, the bytes: for this work itself or for its parent.
    var root: BytesWork? { supply ?? parent?.root }

    private func claimAddress() { if let address = root?.address { claim.ask(address) } }

    var fetch: BytesWork? {
        stage == .waiting ? root.flatMap { $0.basis == nil ? $0 : nil } : nil
    }

    /// The time left to calls for making the object; `nil` if they have no limit, or wait for something else.
    var timeLeft: Duration? {
        if stage == .looking || stage == .waiting || stage == .over {
            return stage == .waiting ? parent?.timeLeft : nil
        }
        return root?.timeLeft ?? timeout
    }

    /// The time limit of the request, without the time for which another process was waited for.
    var timeout: Duration? {
        origin.source.timeout(of: origin.request).map { max(.zero, $0 - waited.spent(at: engine.time.now())) }
    }

    var engine: Engine { cache.engine }
    private var events: EventHub { origin.source.events }

    var isMade: Bool { stage == .writing || stage == .ready }

    var family: [ObjectWork] { children.reduce([self]) { $0 + $1.family } }
    var allCalls: [ObjectCall] { family.flatMap(\.calls.values) }

    override func move(to want: Urgency) {
        lookUp?.move(to: engine.place(want))
        lease?.moved(to: want.queue)
        if want.queue == .slow { release() }
    }
}

extension ObjectWork {
    func enter(_ stage: Stage) {
        (self.stage, lookUp) = (stage, nil)
        if stage == .elsewhere {
            waited.run(at: engine.time.now())
        } else if waited.isRunning {
            waited.hold(at: engine.time.now())
        }
        round += 1
        limit()
    }

    /// Becomes as urgent as the calls that wait. Ends if nobody waits.
    func settle() {
        guard calls.isEmpty, children.isEmpty else { return refresh() }
        if stage == .over { return }
        let root = root
        lookUp?.cancel()
        enter(.over)
        events.trace { $0.ended(identity.id) }
        exchange(&lease, with: nil)?.end()
        release()
        leaveRun()
        wait(for: nil)
        cache.state.works[origin.key]?.makes.removeAll { $0 === self }
        if let parent = exchange(&parent, with: nil) {
            parent.children.removeAll { $0 === self }
            parent.settle()
        }
        leaveSupply()
        root?.tellEndIfOver()
        cache.endIdle(origin.key)
    }

    private func leaveRun() {
        guard let run = dependency as? DecodingWork else { return }
        run.makes.removeAll { $0 === self }
        wait(for: nil)
        if run.makes.isEmpty {
            run.cancel()
            run.end()
        } else {
            run.refresh()
        }
    }

    func leaveSupply() { supply?.leave(self) }

    func release() { if exchange(&isReserved, with: false) { origin.source.release() } }

    func fail(_ error: DipperError) {
        lease?.outcome = LeaseNews(failure: error, isOfURL: origin.sharesFailures)
        endCalls(.failure(error))
        for child in children { child.fail(error) }
        settle()
    }

    func endCalls(_ result: Result<MadeObject, DipperError>) {
        let ended = exchange(&calls, with: [:]).sorted { $0.key < $1.key }.map(\.value)
        if !ended.isEmpty { tellEnd(of: ended, result.map(\.basis.source)) }
        for call in ended {
            wants.remove(call.want)
            call.end(result)
        }
    }

    func tellEnd(of calls: [ObjectCall], _ result: Result<ResponseSource, DipperError>) {
        if let root { return root.tellEnd(result) }
        if case .failure(let error) = result, error == .cancelled || error == .shutDown { return }
        for call in calls { events.call(origin.dataKey, call.want.queue, result, call.identity.id) }
    }

    /// Gives calls whose object is being made the rest of the time that their request allows.
    func limit(isJoined: Bool = false) {
        guard let whole = origin.source.timeout(of: origin.request) else { return }
        let left = timeLeft.map { min(isJoined ? whole : $0, .seconds(1_000_000_000)) }
        for call in allCalls { call.limit(to: left) }
    }

    // MARK: Looking

    func begin() {
        refresh()
        if let object = atHand { return found(object) }
        guard step.isStored, origin.looksOnDisk else { return descend() }
        // No prefetch starts until it is known whether an urgent call fetches.
        if wants.highest.queue == .fast {
            isReserved = true
            origin.source.reserve()
        }
        enter(.looking)
        lookUpTime = WallClock.coarse()
        let round = round
        lookUp = origin.source.read(
            formKey, for: origin.call, engine.place(wants.highest), claim
        ) { [cache] stored, source in
            let bytes = stored?.data.count ?? 0
            cache.post(counting: bytes) { self.looked(round, stored, source, bytes) }
        }
    }

    private var atHand: MadeObject? { cache.hit(origin, step, key) ?? cache.added(origin, step, isWhole: true) }

    private func found(_ object: MadeObject) {
        // The calls wait until the added object is written.
        if origin.waitsForDisk, object.isAdded, cache.isStaged(object, step.addedKey(origin.key)) {
            enter(.looking)
            return hold(until: step.addedKey(origin.key))
        }
        enter(.making)
        cache.made(object, for: [self], isWritten: true)
    }

    /// Waits until an object that the program has added is written.
    private func hold(until key: CacheKey) {
        if let write = cache.state.writes[key]?.last { return hold(until: write) }
        cache.state.beforeWrite[key, default: []].append((self, round))
    }

    func hold(until write: WriteWork) {
        write.blocked.append(self)
        wait(for: write)
        write.refresh()
    }

    private func looked(_ round: UInt64, _ stored: StoredData?, _ source: ResponseSource, _ bytes: Int) {
        var waiting = bytes
        defer { cache.stopWaiting(&waiting) }
        guard self.round == round else { return }
        defer {
            release()
            cache.endIdle(origin.key)
        }
        let key = formKey
        let before = exchange(&foundBefore, with: stored?.info.stored)
        let isForAll = exchange(&isAnsweredForAll, with: false) && stored?.info.stored != before
        if let object = atHand { return found(object) }
        var usable = stored
        // Another cache may have asked before this one removed what a redirect led to.
        if lease != nil, let stored, origin.source.hasRemoved(stored.info) {
            origin.source.removeAgain(key, of: origin.dataKey)
            usable = nil
        }
        guard let stored = usable else {
            if isAdmitted { descend() }
            return
        }
        let use = origin.source.use(of: stored.info, for: origin.call)
        guard use == .fresh || use == .stale || isForAll && origin.shares(stored.info)
        else {
            earlier = stored
            if isAdmitted { descend() }
            return
        }
        let source = use == .fresh ? source : .stale
        guard origin.waitsForDisk else {
            return perform(.form(stored, source), waiting: exchange(&waiting, with: 0))
        }
        enter(.looking)
        let present = self.round
        origin.source.settle(key, for: origin.call) { [engine] isOnDisk in
            engine.post {
                guard self.round == present else { return }
                if isOnDisk { self.perform(.form(stored, source)) } else { self.descend() }
            }
        }
    }

    // MARK: Other processes

    private var isAdmitted: Bool {
        if lease == nil, origin.storing != .never, origin.isDecided {
            lease = origin.source.lease(of: formKey, for: self)
        }
        return lease?.admits() ?? true
    }

    // MARK: The parent

    func descend() {
        guard earlier == nil, let before = step.before else { return beginFetch() }
        // What is in memory may be older than bytes that have been fetched.
        if supply == nil, let object = cache.hit(origin, before) ?? cache.added(origin, before, isWhole: false) {
            return perform(.object(object))
        }
        // An object that is on its way is shared.
        if step.isWholePath {
            guard let parent = cache.joinable(origin, before, keepsBytes: keepsBytes) else { return beginFetch() }
            return grow(from: parent)
        }
        let (parent, isNew) = cache.make(origin, before, keepsBytes: keepsBytes)
        grow(from: parent)
        guard isNew else { return }
        guard let supply else { return parent.begin() }
        parent.supply = supply
        supply.makes.append(parent)
        parent.refresh()
        parent.descend()
    }

    private func grow(from parent: ObjectWork) {
        self.parent = parent
        parent.children.append(self)
        events.trace { $0.joined(parent.identity.id, by: identity.id) }
        enter(.waiting)
        wait(for: parent)
        parent.refresh()
        if parent.isMade, let object = parent.object { perform(.object(object)) } else { attend() }
    }

    // MARK: The bytes

    /// - Parameter failed: a call for the bytes, of whose answer the object could not be made.
    func beginFetch(after failed: (supply: BytesWork, error: DipperError)? = nil) {
        enter(.waiting)
        if let supply { return take(supply) }
        let works = cache.works(of: origin.key)
        let isRenewal = failed != nil || broken != nil
        let asked = isRenewal ? origin.renewed(once: failed == nil) : origin
        let present = works.supplies.first {
            $0.isCurrent && (!keepsBytes || $0.keepsBytes) && $0.origin.isLike(asked)
        }
        let supply = present ?? BytesWork(asked, for: self, after: failed?.supply)
        self.supply = supply
        supply.makes.append(self)
        wait(for: supply)
        events.trace { $0.joined(supply.callID, by: identity.id) }
        if let present {
            present.refresh()
            if present.basis != nil { take(present) }
            attend()
        } else {
            works.supplies.append(supply)
            attend()
            supply.start(after: failed)
        }
    }

    func attend() {
        guard let fetch else { return }
        for call in allCalls { call.attend(at: fetch) }
    }

    /// Makes the object of bytes that have arrived.
    func take(_ supply: BytesWork) {
        guard let data = supply.data, let basis = supply.basis, stage == .waiting else { return }
        if earlier == nil, let before = step.before,
            let parent = cache.joinable(origin, before, keepsBytes: keepsBytes)
        {
            return grow(from: parent)
        }
        var source = DecodingWork.Source.bytes(data, basis, orForm: earlier)
        source.early = supply.takeEarly(for: self)
        perform(source)
    }

    // MARK: The step

    func perform(_ source: DecodingWork.Source, waiting: Int = 0) {
        enter(.making)
        let works = cache.works(of: origin.key)
        if let present = works.runs.first(where: {
            $0.key == key && $0.isLike(source) && $0.makes.allSatisfy(\.isValid)
        }) {
            source.early?.cancel()
            present.makes.append(self)
            wait(for: present)
            return present.refresh()
        }
        let run = DecodingWork(self, source)
        run.waiting = waiting
        run.makes = [self]
        wait(for: run)
        works.runs.append(run)
        run.start(for: self)
    }

    func failed(_ run: DecodingWork, _ error: DipperError) {
        switch run.source.material {
        case .form:
            guard !error.isOfRequest else { break }
            // The stored form is bad, or too large for this cache if another has made it, and is made again.
            if isValid, error.isOfBytes { origin.source.discard(formKey) }
            earlier = nil
            return descend()
        case .bytes:
            guard step.programs == nil, error.isOfBytes else { break }
            // The bytes stay where they are, for calls that can use them; only an answer of the network replaces them.
            isClosed = true
            guard let supply, origin.policy != .cacheOnly else { break }
            supply.isClosed = true
            // Stored bytes are out of date for the call. An answer, or bytes about which the server was asked just now,
            // count as a failed attempt.
            let known = cache.misfits[origin.key, step.kind]
            let isRenewal =
                !run.source.basis.source.isAnswer && broken == nil && known.map { $0.due <= engine.time.now() } != false
            guard isRenewal || origin.following == nil else { break }
            broken = isRenewal ? error : nil
            self.supply = nil
            beginFetch(after: isRenewal ? nil : (supply, error))
            return supply.leave(self)
        case .product: break
        }
        fail(error)
    }
}

/// One process makes an object that is stored, and the others read what it has stored.
extension ObjectWork: LeasedWork {
    var queue: FetchQueue { wants.highest.queue }
    var mayWaitForOthers: Bool { !origin.source.hasRemoved(origin.call) }
    var mayBeShared: Bool { origin.call.mayBeShared }

    func admitted() { if stage == .looking || stage == .elsewhere { descend() } }

    func waitForOthers() {
        guard stage == .looking else { return }
        release()
        enter(.elsewhere)
    }

    func lookAgain(isForAll: Bool, isOnDisk: Bool) {
        guard stage == .looking || stage == .elsewhere else { return }
        isAnsweredForAll = isForAll
        earlier = nil
        release()
        begin()
    }

    func failedElsewhere(_ error: DipperError) {
        // Another source of this request, or its own rules, may do better.
        if !error.mayPass, origin.sharesFailures { fail(error) } else { descend() }
    }

    func hurry(_ queue: FetchQueue?) {
        guard isHurried != (queue == .fast) else { return }
        isHurried.toggle()
        let want = Urgency(.fast, .normal)
        if isHurried { wants.add(want) } else { wants.remove(want) }
        refresh()
    }

    func news(since mark: inout Int) -> LeaseNews {
        stage == .waiting ? root?.news(since: &mark) ?? .still : .moving
    }
}
