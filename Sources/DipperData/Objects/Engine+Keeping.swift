import Foundation

extension Engine {
    func made(_ object: MadeObject, for makes: [ObjectWork], isWritten: Bool) {
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
        // Only objects that a call asked for are kept, not those made only for a later step.
        let makes = all.filter { !$0.calls.isEmpty }
        guard let first = makes.first else { return }
        let (cache, info) = (first.cache, object.basis.info)
        var keepers = makes.filter { !$0.isOutdated && $0.origin.policy != .bypass }
        // If one call wants no memory (`diskOnly`), the others still decide.
        let users = keepers.filter { $0.origin.policy != .diskOnly }
        if !users.isEmpty { keepers = users }
        if let keeper = keepers.first, !keeper.origin.source.mayKeep(info, for: keeper.origin.request) {
            if !info.isStandIn, cache.memory.entry(for: keeper.key)?.isAdded == false {
                cache.memory.remove(keeper.key)
            }
        } else if let keeper = keepers.first(where: { $0.claim.allows(.memory) }),
            !(object.isPresent && (object.isAdded || users.isEmpty))
        {
            let isWanted = makes.flatMap(\.calls.values).contains { $0.want.queue == .fast || $0.options.keepsInMemory }
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
        let step = lead.calls.values.first?.step ?? lead.step
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
    func supersede(by object: MadeObject, of supply: BytesWork, _ origin: Origin, in cache: ObjectCache) {
        let info = object.basis.info
        let makes = cache.state.works[origin.key]?.makes ?? []
        for make in makes where make.stage != .looking {
            // A fetch that is under way brings no older bytes, and newer ones may have come already.
            if let root = make.root, root.basis == nil || root.arrival >= supply.arrival { continue }
            (make.isOutdated, make.isClosed) = (true, true)
        }
        for write in cache.state.writes.values.joined() where write.origin.key == origin.key {
            if !write.object.isAdded, write.object.basis.info !== info { write.claim?.revoke() }
        }
        for key in cache.memory.derivedKeys(of: origin.key) + [origin.key] {
            if let entry = cache.memory.entry(for: key), entry.digest != object.basis.digest {
                cache.memory.remove(key)
            }
        }
        origin.source.removeDerived(of: origin.dataKey)
        // What is being read may be made of other bytes.
        for make in makes where make.stage == .looking && make.lookUp != nil {
            make.lookUp?.cancel()
            release(make)
            begin(make)
        }
    }

    /// From this number of writes on, a write is as urgent as a call: each holds an object.
    private static let mostLeisurely = 8

    /// Writes after the write of the same object that is under way, in place of the one that waits.
    func write(_ write: WriteWork, in cache: ObjectCache) {
        welcome(cache.state)
        cache.state.writeCount += 1
        for make in write.makes { make.wait(for: write) }
        var line = cache.state.writes[write.key] ?? []
        let replaced = line.last?.take() == true ? line.popLast() : nil
        line.append(write)
        cache.state.writes[write.key] = line
        if let replaced {
            replaced.ticket?.cancel()
            end(replaced, isLost: true, in: cache)
        }
        if line.count == 1 { begin(write, in: cache) }
    }

    /// Has a call wait until an object that the program has added is written.
    func hold(_ make: ObjectWork, until key: CacheKey) {
        guard let write = make.cache.state.writes[key]?.last else {
            // The write is on its way to the engine.
            let round = make.round
            post { if make.round == round { $0.begin(make) } }
            return
        }
        write.blocked.append(make)
        make.wait(for: write)
        write.refresh(in: self)
    }

    private func begin(_ write: WriteWork, in cache: ObjectCache) {
        // A write that calls wait for, or one of many, comes before the next object is made.
        let isInHurry = !write.wants.isEmpty || cache.state.writeCount > Self.mostLeisurely
        let want = write.wants.isEmpty ? Urgency(queue: .fast, level: 0) : write.wants.highest
        let place = isInHurry ? place(want, isNext: true) : .init(rank: .background, priority: .normal)
        let work: @Sendable () -> Void = {
            guard write.take() else { return }
            cache.perform(write) { isLost in self.post { $0.written(write, isLost: isLost, in: cache) } }
        }
        // Encoding an animation decodes and processes its frames once more.
        let cost: Workers.Measure = {
            (write.object.form == nil ? write.step.cost(of: .product(write.object.product)) : 0, 0)
        }
        write.ticket = cache.workers.add(place, cost: cost, work)
        // If the threads have ended, the rest is written all the same.
        if write.ticket == nil { self.work(work) { _, _ in } }
    }

    private func written(_ write: WriteWork, isLost: Bool, in cache: ObjectCache) {
        guard var line = cache.state.writes[write.key], line.first === write else { return }
        line.removeFirst()
        cache.state.writes[write.key] = line.isEmpty ? nil : line
        end(write, isLost: isLost, in: cache)
        if let next = line.first { begin(next, in: cache) }
    }

    private func end(_ write: WriteWork, isLost: Bool, in cache: ObjectCache) {
        cache.state.writeCount -= 1
        if write.object.isAdded { cache.unstage(write.key, write.object) }
        for make in write.makes {
            guard make.stage == .writing else { continue }
            make.wait(for: nil)
            enter(make, .ready)
            deliver(write.object, to: [make], isLost: isLost)
            settle(make)
        }
        for make in write.blocked {
            guard make.stage == .looking, make.dependency === write else { continue }
            make.wait(for: nil)
            begin(make)
        }
        guard cache.state.writes.isEmpty else { return }
        for continuation in exchange(&cache.state.waiting, with: []) { continuation.resume() }
    }
}

extension ObjectCache {
    /// - Parameter written: called with whether a stored form that should be on disk is not.
    fileprivate func perform(_ write: WriteWork, written: @escaping @Sendable (_ isLost: Bool) -> Void) {
        let (object, source, request, key) = (write.object, write.origin.source, write.origin.request, write.place)
        let mayWrite = {
            object.isAdded ? self.isStaged(object, write.key) : write.claim?.allows(.disk) == true
        }
        guard mayWrite() else { return written(true) }
        if object.isPresent, source.has(key) { return written(false) }
        guard object.isAdded || source.mayKeep(object.basis.info, for: request) else { return written(false) }
        do throws(DipperError) {
            let form = try form(of: write)
            // A removed object must not replace one that was added after the removal.
            guard mayWrite() else { return written(true) }
            if object.isAdded, let claim = object.basis.claim {
                source.add(form, for: request.with(\.key, key), claim)
                return written(false)
            }
            let whenWritten: @Sendable (Bool) -> Void = { written(!$0) }
            source.keep(
                form, for: key, madeOf: object.basis.info, digest: object.basis.digest, request, write.claim,
                whenWritten: write.isAwaited ? whenWritten : nil)
            if !write.isAwaited { written(false) }
        } catch {
            notKept(key, error)
            // No stored form takes the place of the bytes.
            if !write.keepsBytes, let bytes = object.excerpt, let claim = write.claim,
                bytes.digest == object.basis.digest
            {
                source.keepBytes(bytes, object.basis.info, for: request, claim)
            }
            written(false)
        }
    }

    private func form(of write: WriteWork) throws(DipperError) -> Data {
        let (object, origin) = (write.object, write.origin)
        if let form = object.form { return form }
        var excerpt = object.excerpt
        // An object that was made of one in memory comes without its bytes, and may need more of them.
        let isWhole = excerpt.map { !write.step.needsBytes || $0.digest == object.basis.digest } ?? false
        if !isWhole, object.basis.digest != 0, let stored = origin.source.peek(origin.dataKey, for: origin.request),
            stored.data.digest == object.basis.digest
        {
            excerpt = stored.data
        }
        return try write.step.form(of: object.product, madeOf: excerpt)
    }
}
