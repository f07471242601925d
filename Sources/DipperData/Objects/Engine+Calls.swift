/// Calls for objects.
extension Engine {
    /// Takes a new call.
    func take(_ call: ObjectCall) {
        guard let cache = call.cache else { return }
        if isClosed { return call.end(.failure(.shutDown)) }
        welcome(cache.state)
        if call.origin.isDecided { enroll(call, cache) } else { decide(call, cache) }
    }

    func welcome(_ state: ObjectCache.State) {
        if !exchange(&state.isGuest, with: true) { guests.append(state) }
    }

    /// Finds out whether the tiers have the bytes that the caller has asked for, which a smaller source may replace.
    private func decide(_ call: ObjectCall, _ cache: ObjectCache) {
        let origin = call.origin
        bench(of: origin.key, in: cache.state).deciding.append(call)
        guard origin.source.hasDisk else { return decided(call, isThere: false) }
        let isUrgent = call.want.queue == .fast
        if isUrgent { reserve(origin.source) }
        _ = origin.source.find(origin.dataKey, place(call.want)) { isThere in
            self.post { engine in
                engine.decided(call, isThere: isThere)
                if isUrgent { engine.release(origin.source) }
            }
        }
    }

    private func decided(_ call: ObjectCall, isThere: Bool) {
        guard let cache = call.cache, stopDeciding(call, cache.state) else { return }
        call.choose(call.origin.decided(isThere: isThere))
        enroll(call, cache)
    }

    /// - Returns: whether it was still being found out which source a call asks for.
    private func stopDeciding(_ call: ObjectCall, _ state: ObjectCache.State) -> Bool {
        let key = call.origin.key
        guard let bench = state.benches[key], let place = bench.deciding.firstIndex(where: { $0 === call }) else {
            return false
        }
        bench.deciding.remove(at: place)
        if bench.isEmpty { state.benches[key] = nil }
        return true
    }

    private func enroll(_ call: ObjectCall, _ cache: ObjectCache) {
        if let alias = call.origin.alias { cache.state.aliases[alias, default: []].append(call) }
        let (make, isNew) = make(call.origin, call.step, in: cache, keepsBytes: call.options.keepsBytes)
        call.make = make
        make.calls.append(call)
        make.wants.add(call.want)
        if isNew { return begin(make) }
        make.refresh(in: self)
        if case .ready = make.stage, let object = make.object { return keep(object, for: [make]) }
        if let supply = make.fetch {
            if let failure = supply.failure { call.tell(.failure(failure)) }
            attend(call, at: supply)
        }
    }

    /// Ends a call. The caller settles its work.
    func end(_ call: ObjectCall, _ result: Result<MadeObject, DipperError>) {
        if let alias = call.origin.alias, let state = call.cache?.state,
            let others = state.aliases[alias]?.filter({ $0 !== call })
        {
            state.aliases[alias] = others.isEmpty ? nil : others
        }
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
        } else if stopDeciding(call, cache.state) {
            end(call, .failure(error))
        }
    }

    func move(_ call: ObjectCall, to queue: FetchQueue) {
        change(call, to: Want(queue: queue, level: call.want.level))
    }

    func setPriority(_ priority: Priority, of call: ObjectCall) {
        change(call, to: Want(queue: call.want.queue, level: UInt8(priority.level)))
    }

    private func change(_ call: ObjectCall, to want: Want) {
        guard call.want != want else { return }
        call.make?.wants.remove(call.want)
        call.want = want
        call.make?.wants.add(want)
        call.make?.refresh(in: self)
    }

    func wantProgress(_ call: ObjectCall) {
        if let supply = call.make?.fetch { attend(call, at: supply) }
    }

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
        for bench in state.benches.values {
            for call in bench.deciding + bench.makes.flatMap(\.calls) { cancel(call) }
        }
    }

    private func calls(of key: CacheKey, in state: ObjectCache.State) -> [ObjectCall] {
        let own = state.benches[key].map { $0.deciding + $0.makes.flatMap(\.calls) } ?? []
        return own + (state.aliases[key] ?? [])
    }

    // MARK: Places

    /// Returns the place of work among what waits for a thread.
    /// - Parameter isNext: whether the work comes before all other work of its queue.
    func place(_ want: Want, isNext: Bool = false) -> Workers.Place {
        isNext
            ? .init(want.queue, Priority(1), isLIFO: true)
            : .init(want.queue, want.priority, isLIFO: queues.configuration(of: want.queue).order == .lifo)
    }

    /// Keeps prefetches of a data cache from starting, because an urgent fetch may follow.
    func reserve(_ source: ObjectSource) {
        if source.engine === self { reserve() } else { source.engine.post { $0.reserve() } }
    }

    func release(_ source: ObjectSource) {
        if source.engine === self { release() } else { source.engine.post { $0.release() } }
    }
}

extension ObjectCache.State: EngineGuest {
    func close(in engine: isolated Engine) { engine.cancelAll(in: self) }
}
