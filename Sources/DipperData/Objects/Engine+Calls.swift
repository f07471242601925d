/// Calls for objects.
extension Engine {
    /// Takes a new call.
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

    /// Has a call found by the key that its caller has asked for, and by that of the URL.
    private func register(_ call: ObjectCall, _ state: ObjectCache.State) {
        for alias in call.origin?.aliases ?? [] { state.aliases[alias, default: [:]][ObjectIdentifier(call)] = call }
    }

    private func unregister(_ call: ObjectCall, _ state: ObjectCache.State) {
        for alias in call.origin?.aliases ?? [] {
            state.aliases[alias]?[ObjectIdentifier(call)] = nil
            if state.aliases[alias]?.isEmpty == true { state.aliases[alias] = nil }
        }
    }

    /// Finds out whether the tiers have the bytes that the caller has asked for, which a smaller source may replace.
    private func decide(_ call: ObjectCall, _ origin: Origin, _ cache: ObjectCache) {
        bench(of: origin.key, in: cache.state).deciding.append(call)
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

    /// - Returns: whether it was still being found out which source a call asks for.
    private func stopDeciding(_ call: ObjectCall, _ state: ObjectCache.State) -> Bool {
        guard let key = call.origin?.key, let bench = state.benches[key],
            let place = bench.deciding.firstIndex(where: { $0 === call })
        else { return false }
        bench.deciding.remove(at: place)
        call.lookUp = nil
        if bench.isEmpty { state.benches[key] = nil }
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

    /// Ends a call. The caller settles its work.
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
        for bench in state.benches.values {
            for call in bench.deciding + bench.makes.flatMap(\.calls) { cancel(call) }
        }
    }

    private func calls(of key: CacheKey, in state: ObjectCache.State) -> [ObjectCall] {
        let own = state.benches[key].map { $0.deciding + $0.makes.flatMap(\.calls) } ?? []
        return own + (state.aliases[key]?.values.filter { call in !own.contains { $0 === call } } ?? [])
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
    func leave() { for continuation in exchange(&waiting, with: []) { continuation.resume() } }
}
