import Foundation

extension Engine {
    // MARK: Work

    func works(of key: CacheKey, in state: ObjectCache.State) -> WorksOfKey {
        if let works = state.works[key] { return works }
        let works = WorksOfKey()
        state.works[key] = works
        return works
    }

    /// Returns work that a call may join, or new work, which the caller begins.
    func make(
        _ origin: Origin, _ step: any ObjectStep, in cache: ObjectCache, keepsBytes: Bool
    ) -> (make: ObjectWork, isNew: Bool) {
        if let present = joinable(origin, step, in: cache, keepsBytes: keepsBytes) { return (present, false) }
        let make = ObjectWork(cache, origin, step, keepsBytes: keepsBytes)
        works(of: origin.key, in: cache.state).makes.append(make)
        return (make, true)
    }

    func joinable(
        _ origin: Origin, _ step: any ObjectStep, in cache: ObjectCache, keepsBytes: Bool
    ) -> ObjectWork? {
        cache.state.works[origin.key]?.makes.first {
            $0.isCurrent && $0.step.suffix == step.suffix && (!keepsBytes || $0.keepsBytes) && $0.origin.isLike(origin)
        }
    }

    func enter(_ make: ObjectWork, _ stage: ObjectWork.Stage) {
        (make.stage, make.lookUp) = (stage, nil)
        make.round += 1
    }

    func settle(_ make: ObjectWork) {
        guard make.calls.isEmpty, make.children.isEmpty else { return make.refresh(in: self) }
        if make.stage == .over { return }
        let root = make.root
        make.lookUp?.cancel()
        enter(make, .over)
        release(make)
        leaveRun(make)
        make.wait(for: nil)
        let (cache, key) = (make.cache, make.origin.key)
        cache.state.works[key]?.makes.removeAll { $0 === make }
        if let parent = exchange(&make.parent, with: nil) {
            parent.children.removeAll { $0 === make }
            settle(parent)
        }
        leaveSupply(make)
        if let root { tellEndIfOver(root, in: cache) }
        endIdle(key, in: cache)
    }

    private func leaveRun(_ make: ObjectWork) {
        guard let run = make.dependency as? StepWork else { return }
        run.makes.removeAll { $0 === make }
        make.wait(for: nil)
        if run.makes.isEmpty {
            run.cancel()
            end(run, of: make.origin.key, in: make.cache)
        } else {
            run.refresh(in: self)
        }
    }

    private func end(_ run: StepWork, of key: CacheKey, in cache: ObjectCache) {
        stopWaiting(&run.waiting, in: cache)
        cache.state.change(key) { works in works.runs.removeAll { $0 === run } }
    }

    /// Lets the prefetches start that work has held back.
    func release(_ make: ObjectWork) {
        if exchange(&make.isReserved, with: false) { make.origin.source.release() }
    }

    func fail(_ make: ObjectWork, _ error: DipperError) {
        endCalls(of: make, .failure(error))
        for child in make.children { fail(child, error) }
        settle(make)
    }

    private func endCalls(of make: ObjectWork, _ result: Result<MadeObject, DipperError>) {
        let calls = exchange(&make.calls, with: [])
        if !calls.isEmpty { tellEnd(make, calls, result.map(\.basis.source)) }
        for call in calls {
            make.wants.remove(call.want)
            end(call, result)
        }
    }

    // MARK: Looking

    /// The object is on disk, or will not be.
    func makeReady(_ make: ObjectWork) { enter(make, .ready) }

    func begin(_ make: ObjectWork) {
        make.refresh(in: self)
        let (origin, step) = (make.origin, make.step)
        if let object = atHand(make) { return found(object, for: make) }
        guard step.isStored, origin.looksOnDisk else { return descend(make) }
        // No prefetch starts until it is known whether an urgent call fetches.
        if make.wants.highest.queue == .fast {
            make.isReserved = true
            origin.source.reserve()
        }
        enter(make, .looking)
        let (round, state) = (make.round, make.cache.state)
        make.lookUp = origin.source.read(
            step.key(origin.dataKey), for: origin.request, place(make.wants.highest)
        ) { stored in
            let bytes = stored?.data.count ?? 0
            self.post(counting: bytes, in: state) { $0.looked(make, round, stored, bytes) }
        }
    }

    private func atHand(_ make: ObjectWork) -> MadeObject? {
        make.cache.hit(make.origin, make.step) ?? make.cache.added(make.origin, make.step, isWhole: true)
    }

    private func found(_ object: MadeObject, for make: ObjectWork) {
        // The calls wait until the added object is written.
        if make.origin.waitsForDisk, object.isAdded, make.cache.isStaged(object, make.step.addedKey(make.origin.key)) {
            enter(make, .looking)
            return hold(make, until: make.step.addedKey(make.origin.key))
        }
        enter(make, .making)
        made(object, for: [make], isWritten: true)
    }

    private func looked(_ make: ObjectWork, _ round: UInt64, _ stored: StoredData?, _ bytes: Int) {
        var waiting = bytes
        defer { stopWaiting(&waiting, in: make.cache) }
        guard make.round == round else { return }
        defer {
            release(make)
            endIdle(make.origin.key, in: make.cache)
        }
        let (origin, key) = (make.origin, make.step.key(make.origin.dataKey))
        if let object = atHand(make) { return found(object, for: make) }
        guard let stored else { return descend(make) }
        let use = origin.source.use(of: stored.info, for: origin.request)
        guard use == .fresh || use == .stale else {
            make.earlier = stored
            return descend(make)
        }
        let source = use == .fresh ? ResponseSource.disk : .stale
        guard origin.waitsForDisk else {
            return perform(make, .form(stored, source), waiting: exchange(&waiting, with: 0))
        }
        enter(make, .looking)
        let round = make.round
        origin.source.settle(key, for: origin.request) { isOnDisk in
            self.post { engine in
                guard make.round == round else { return }
                if isOnDisk { engine.perform(make, .form(stored, source)) } else { engine.descend(make) }
            }
        }
    }

    // MARK: The parent

    func descend(_ make: ObjectWork) {
        guard make.earlier == nil, let before = make.step.before else { return fetch(make) }
        let (origin, cache) = (make.origin, make.cache)
        // What is in memory may be older than bytes that have been fetched.
        if make.supply == nil, let object = cache.hit(origin, before) ?? cache.added(origin, before, isWhole: false) {
            return perform(make, .object(object))
        }
        // An object that is on its way is shared.
        if make.step.isWholePath {
            guard let parent = joinable(origin, before, in: cache, keepsBytes: make.keepsBytes) else {
                return fetch(make)
            }
            return grow(make, from: parent)
        }
        let (parent, isNew) = self.make(origin, before, in: cache, keepsBytes: make.keepsBytes)
        grow(make, from: parent)
        guard isNew else { return }
        guard let supply = make.supply else { return begin(parent) }
        parent.supply = supply
        supply.makes.append(parent)
        parent.refresh(in: self)
        descend(parent)
    }

    func grow(_ make: ObjectWork, from parent: ObjectWork) {
        enter(make, .waiting)
        make.parent = parent
        parent.children.append(make)
        make.wait(for: parent)
        parent.refresh(in: self)
        if parent.isMade, let object = parent.object { perform(make, .object(object)) } else { attend(make) }
    }

    // MARK: Steps

    func perform(_ make: ObjectWork, _ source: StepWork.Source, waiting: Int = 0) {
        enter(make, .making)
        let (cache, key) = (make.cache, make.origin.key)
        let works = works(of: key, in: cache.state)
        if let present = works.runs.first(where: {
            $0.key == make.key && $0.isLike(source) && $0.makes.allSatisfy(\.isValid)
        }) {
            present.makes.append(make)
            make.wait(for: present)
            return present.refresh(in: self)
        }
        let run = StepWork(make.key, source)
        run.waiting = waiting
        run.makes = [make]
        make.wait(for: run)
        works.runs.append(run)
        start(run, for: make)
    }

    private func start(_ run: StepWork, for make: ObjectWork) {
        let (cache, origin, step, keepsBytes) = (make.cache, make.origin, make.step, make.keepsBytes)
        let work: @Sendable (@escaping @Sendable () -> Void) -> Void = { taken in
            let result: StepResult? =
                run.isCancelled ? nil : cache.perform(run, step, origin, keepsBytes: keepsBytes)
            // The next work takes its place before the thread goes on.
            let isPosted = self.post { engine in
                if let result { engine.finished(run, result, of: origin.key, in: cache) }
                taken()
            }
            if !isPosted { taken() }
        }
        let programs = run.isOfBytes ? step.programs : nil
        if programs == nil, let place = step.place {
            return Afterwards.run { place.perform { work {} } }
        }
        // The next step takes memory as well.
        let steps = make.family.map(\.step)
        let ticket = (programs ?? cache.workers).add(
            place(make.wants.highest, isNext: run.isNext),
            cost: { steps.reduce(0) { max($0, $1.cost(of: run.material)) } },
            untilTaken: work)
        guard let ticket else { return fail(make, .shutDown) }
        run.ticket = ticket
    }

    private func finished(_ run: StepWork, _ result: StepResult, of key: CacheKey, in cache: ObjectCache) {
        guard !run.isCancelled else { return }
        let makes = exchange(&run.makes, with: [])
        // Before the callers' closures run, because they may wait for other objects.
        end(run, of: key, in: cache)
        for make in makes {
            make.wait(for: nil)
            if let supply = make.supply { stopWaiting(&supply.waiting, in: cache) }
        }
        switch result {
        case .made(let object):
            for make in makes where make.isValid && make.supply?.isNewest == true {
                make.supply?.isNewest = false
                supersede(by: object, make.origin, in: cache)
            }
            made(object, for: makes, isWritten: object.form != nil)
        case .otherBytes:
            for make in makes {
                make.earlier = nil
                descend(make)
            }
        case .failed(let error, let digest):
            for make in makes { failed(make, run, error, digest) }
        }
    }

    private func failed(_ make: ObjectWork, _ run: StepWork, _ error: DipperError, _ digest: UInt64) {
        let isBroken = error == .undecodable || error == .unsupportedFormat
        switch run.source {
        case .form, .bytes(_, _, orForm: .some):
            guard isBroken else { break }
            // The stored form is bad, and is made again.
            if make.isValid { make.origin.source.discard(make.step.key(make.origin.dataKey)) }
            make.earlier = nil
            return descend(make)
        case .bytes(_, let basis, orForm: nil):
            guard isBroken, make.step.programs == nil else { break }
            // The bytes stay where they are, for calls that can use them; only an answer of the network replaces them.
            make.isClosed = true
            if make.broken == nil, basis.source != .network, make.origin.policy != .cacheOnly {
                make.broken = (error, digest)
                let first = make.supply
                first?.isClosed = true
                leaveSupply(make)
                make.supply = nil
                if let first { tellEndIfOver(first, in: make.cache) }
                return fetch(make)
            }
        case .object: break
        }
        fail(make, error)
    }

    // MARK: Objects

    private func made(_ object: MadeObject, for makes: [ObjectWork], isWritten: Bool) {
        for make in makes {
            make.object = object
            make.isWritten = isWritten
            enter(make, .ready)
            leaveSupply(make)
        }
        keep(object, for: makes, isWritten: isWritten)
        for make in makes {
            for child in make.children {
                if child.stage == .waiting { perform(child, .object(object)) }
            }
            settle(make)
        }
    }

    func keep(_ object: MadeObject, for all: [ObjectWork], isWritten: Bool = false) {
        // An object that is only a step on the way to others would take their room in memory.
        let makes = all.filter { !$0.calls.isEmpty }
        guard let first = makes.first else { return }
        let (cache, info) = (first.cache, object.basis.info)
        var keepers = makes.filter { !$0.isOutdated && $0.origin.policy != .bypass }
        // A call past memory takes nothing from the others.
        let users = keepers.filter { $0.origin.policy != .diskOnly }
        if !users.isEmpty { keepers = users }
        if let keeper = keepers.first, !keeper.origin.source.mayKeep(info, for: keeper.origin.request) {
            if !info.isStandIn, cache.memory.entry(for: keeper.key)?.isAdded == false {
                cache.memory.remove(keeper.key)
            }
        } else if let keeper = keepers.first(where: { $0.claim.allows(.memory) }),
            !(object.isPresent && (object.isAdded || users.isEmpty))
        {
            let isWanted = makes.flatMap(\.calls).contains { $0.want.queue == .fast || $0.options.keepsInMemory }
            if isWanted || cache.memory.contains(keeper.key) {
                cache.insert(object, keeper.key, for: keeper.origin, keeper.claim)
            }
        }
        let writers = makes.filter { $0.origin.storing != .never }
        guard !isWritten, first.step.isStored,
            let lead = writers.filter({ !$0.isOutdated && $0.claim.allows(.disk) })
                .max(by: { $0.origin.storing < $1.origin.storing })
        else {
            return deliver(object, to: makes, isLost: !isWritten && first.step.isStored)
        }
        let patient = writers.filter { $0.origin.storing >= .awaited }
        deliver(object, to: makes.filter { make in !patient.contains { $0 === make } })
        for make in patient { enter(make, .writing) }
        let step = lead.calls.first?.step ?? lead.step
        let keepsBytes = writers.contains(where: \.keepsBytes)
        write(WriteWork(object, lead.origin, step, lead.claim, keepsBytes: keepsBytes, for: patient), in: cache)
    }

    /// - Parameter isLost: whether the stored form that should be on disk is not.
    func deliver(_ object: MadeObject, to makes: [ObjectWork], isLost: Bool = false) {
        for make in makes {
            // mutant Durable: `= isLost && make` => `= isLost && false && make`
            let hasFailed = isLost && make.origin.storing == .required
            endCalls(of: make, hasFailed ? .failure(.notWritten) : .success(object))
        }
    }

    /// Removes objects made from other bytes, because one of the newest has been made.
    private func supersede(by object: MadeObject, _ origin: Origin, in cache: ObjectCache) {
        let info = object.basis.info
        for make in cache.state.works[origin.key]?.makes ?? [] {
            if make.stage == .looking { continue }
            // A fetch that is under way brings no older bytes.
            if let root = make.root, root.basis == nil || root.basis?.info === info { continue }
            (make.isOutdated, make.isClosed) = (true, true)
        }
        for write in cache.state.writes.values.joined() where write.origin.key == origin.key {
            if !write.object.isAdded, write.object.basis.info !== info { write.revoke() }
        }
        for key in cache.memory.derivedKeys(of: origin.key) + [origin.key] {
            if let entry = cache.memory.entry(for: key), entry.digest != object.basis.digest {
                cache.memory.remove(key)
            }
        }
        origin.source.removeDerived(of: origin.dataKey)
    }
}

enum StepResult: Sendable {
    case made(MadeObject)
    case otherBytes
    /// With the digest of the bytes.
    case failed(DipperError, digest: UInt64)
}

extension ObjectCache {
    func perform(_ run: StepWork, _ step: any ObjectStep, _ origin: Origin, keepsBytes: Bool) -> StepResult {
        let basis: Provenance
        let original: Data?
        var digest: UInt64 = 0
        switch run.source {
        case .bytes(let data, var asked, _):
            digest = data.digest
            asked.digest = digest
            basis = asked
            original = data
        case .form(let form, let source):
            basis = Provenance(ofForm: form.info, source)
            original = nil
        case .object(let parent):
            digest = parent.basis.digest
            basis = parent.basis
            original = parent.excerpt
        }
        var object: MadeObject
        // A stored form is read after memory has been asked, with no digest.
        if let product = present(run.key, madeOf: digest) {
            object = MadeObject(product, basis)
            object.isPresent = true
        } else {
            if case .bytes(_, _, let form?) = run.source, form.info.digestOfOriginal != digest { return .otherBytes }
            let (events, material) = (origin.source.events, run.material)
            let task = MakingTask(origin.dataKey, call: basis.call, events) { run.isCancelled }
            do throws(DipperError) {
                object = MadeObject(try step.make(of: material, task), basis)
            } catch {
                return .failed(error, digest: digest)
            }
            if case .form(let form) = material { object.form = form }
        }
        if object.form == nil { object.excerpt = original.flatMap { keepsBytes ? step.excerpt(of: $0) : $0 } }
        return .made(object)
    }
}
