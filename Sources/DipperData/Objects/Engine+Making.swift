import Foundation

extension Engine {
    // MARK: Work

    func works(of key: CacheKey, in state: ObjectCache.State) -> WorksOfKey {
        if let works = state.works[key] { return works }
        let works = WorksOfKey()
        state.works[key] = works
        return works
    }

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
        limit(make)
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

    func end(_ run: StepWork, of key: CacheKey, in cache: ObjectCache) {
        stopWaiting(&run.waiting, in: cache)
        cache.state.change(key) { works in works.runs.removeAll { $0 === run } }
    }

    func release(_ make: ObjectWork) {
        if exchange(&make.isReserved, with: false) { make.origin.source.release() }
    }

    func fail(_ make: ObjectWork, _ error: DipperError) {
        endCalls(of: make, .failure(error))
        for child in make.children { fail(child, error) }
        settle(make)
    }

    func endCalls(of make: ObjectWork, _ result: Result<MadeObject, DipperError>) {
        let calls = exchange(&make.calls, with: [:]).sorted { $0.key < $1.key }.map(\.value)
        if !calls.isEmpty { tellEnd(make, calls, result.map(\.basis.source)) }
        for call in calls {
            make.wants.remove(call.want)
            end(call, result)
        }
    }

    // MARK: Looking

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
        make.parent = parent
        parent.children.append(make)
        enter(make, .waiting)
        make.wait(for: parent)
        parent.refresh(in: self)
        if parent.isMade, let object = parent.object { perform(make, .object(object)) } else { attend(make) }
    }
}
