import Foundation

/// The work of a cache under way.
@Loop
extension ObjectCache {
    /// Has the engine ask for this cache as well before it is idle.
    func welcome() { if !exchange(&state.isGuest, with: true) { engine.guests.append(state) } }

    func works(of key: CacheKey) -> WorksOfKey {
        if let works = state.works[key] { return works }
        let works = WorksOfKey()
        state.works[key] = works
        return works
    }

    func make(_ origin: Origin, _ step: any ObjectStep, keepsBytes: Bool) -> (make: ObjectWork, isNew: Bool) {
        if let present = joinable(origin, step, keepsBytes: keepsBytes) { return (present, false) }
        let make = ObjectWork(self, origin, step, keepsBytes: keepsBytes)
        works(of: origin.key).makes.append(make)
        return (make, true)
    }

    func joinable(_ origin: Origin, _ step: any ObjectStep, keepsBytes: Bool) -> ObjectWork? {
        state.works[origin.key]?.makes.first {
            $0.isCurrent && $0.step.suffix == step.suffix && (!keepsBytes || $0.keepsBytes) && $0.origin.isLike(origin)
        }
    }

    func endIdle(_ key: CacheKey) {
        state.change(key) { works in
            for supply in works.supplies where supply.makes.isEmpty { supply.settle() }
        }
    }

    /// Counts bytes that wait to be made into an object, and posts their arrival.
    nonisolated func post(counting bytes: Int, _ body: @escaping @Loop () -> Void) {
        if Loop.isCurrent {
            // Before the next fetch begins.
            Loop.run { state.count(bytes) }
            engine.post(body)
        } else {
            engine.post { [state] in
                state.count(bytes)
                body()
            }
        }
    }

    func stopWaiting(_ bytes: inout Int) { state.count(-exchange(&bytes, with: 0)) }

    // MARK: Keeping

    func made(_ object: MadeObject, for makes: [ObjectWork], isWritten: Bool) {
        for make in makes {
            make.object = object
            make.isWritten = isWritten
            make.enter(.ready)
            make.leaveSupply()
        }
        keep(object, for: makes, isWritten: isWritten)
        for make in makes {
            for child in make.children {
                if child.stage == .waiting { child.perform(.object(object)) }
            }
            make.settle()
        }
    }

    func keep(_ object: MadeObject, for all: [ObjectWork], isWritten: Bool = false) {
        // Only objects that a call asked for are kept, not those made only for a later step.
        let makes = all.filter { !$0.calls.isEmpty }
        guard let first = makes.first else { return }
        let info = object.basis.info
        var keepers = makes.filter { !$0.isOutdated && $0.origin.policy != .bypass }
        // If one call wants no memory (`diskOnly`), the others still decide.
        let users = keepers.filter { $0.origin.policy != .diskOnly }
        if !users.isEmpty { keepers = users }
        if let keeper = keepers.first, !keeper.origin.source.mayKeep(info, for: keeper.origin.call) {
            if !info.isStandIn { memory.remove(keeper.key) { !$0.isAdded } }
        } else if let keeper = keepers.first(where: { $0.claim.allows(.memory) }),
            !(object.isPresent && (object.isAdded || users.isEmpty))
        {
            let isWanted = makes.flatMap(\.calls.values).contains { $0.want.queue == .fast || $0.options.keepsInMemory }
            if isWanted || memory.contains(keeper.key) {
                insert(object, keeper.key, for: keeper.origin, keeper.claim)
            }
        }
        let writers = makes.filter { $0.origin.storing != .never }
        for lease in makes.compactMap(\.lease) { lease.outcome = isWritten ? .kept : .unshared }
        guard !isWritten, first.step.isStored,
            let lead = writers.filter({ !$0.isOutdated && $0.claim.allows(.disk) })
                .max(by: { $0.origin.storing < $1.origin.storing })
        else {
            return deliver(object, to: makes, isLost: !isWritten && first.step.isStored)
        }
        let patient = writers.filter { $0.origin.storing >= .awaited }
        deliver(object, to: makes.filter { make in !patient.contains { $0 === make } })
        for make in patient { make.enter(.writing) }
        let step = lead.calls.values.first?.step ?? lead.step
        let keepsBytes = writers.contains(where: \.keepsBytes)
        let leases = makes.compactMap(\.lease)
        let write = WriteWork(
            object, lead.origin, step, lead.claim, keepsBytes: keepsBytes, for: patient,
            sharing: Lease.sharing(for: leases), in: self)
        for lease in leases { (lease.outcome, lease.write) = (.kept, write.pending) }
        write.enter()
    }

    /// - Parameter isLost: whether the stored form that should be on disk is not.
    func deliver(_ object: MadeObject, to makes: [ObjectWork], isLost: Bool = false) {
        for make in makes {
            // mutant Durable: `= isLost && make` => `= isLost && false && make`
            let hasFailed = isLost && make.origin.storing == .required
            make.endCalls(hasFailed ? .failure(.notWritten) : .success(object))
        }
    }

    /// Removes objects made from other bytes, because one of the newest has been made.
    func supersede(by object: MadeObject, of supply: BytesWork, _ origin: Origin) {
        let info = object.basis.info
        let makes = state.works[origin.key]?.makes ?? []
        for make in makes where make.stage != .looking && make.stage != .elsewhere {
            // A fetch that is under way brings no older bytes, and newer ones may have come already.
            if let root = make.root, root.basis == nil || root.arrival >= supply.arrival { continue }
            (make.isOutdated, make.isClosed) = (true, true)
        }
        for write in state.writes.values.joined() where write.origin.key == origin.key {
            if !write.object.isAdded, write.object.basis.info !== info { write.claim?.revoke() }
        }
        memory.remove(origin.key, family: true) { $0.digest != object.basis.digest }
        origin.source.removeDerived(of: origin.dataKey)
        // What is being read may be made of other bytes.
        for make in makes where make.stage == .looking && make.lookUp != nil {
            make.lookUp?.cancel()
            make.release()
            make.begin()
        }
    }
}
