import Foundation

/// Looking at the tiers, and fetching bytes.
extension ObjectCache {
    // MARK: Looking

    func decide(_ id: ObjectSearchID, _ origin: FetchOrigin, _ want: ObjectWant) {
        guard let forms = origin.source.forms else {
            return answer(.search(id)) { $0.decided(id, isThere: false, into: &$1) }
        }
        beginLook(id, forms, want) { place in
            forms.find(origin.dataKey, place) { isThere in
                self.answer(.search(id)) { $0.decided(id, isThere: isThere, into: &$1) }
            }
        }
    }

    func look(
        _ id: ObjectSearchID, _ origin: FetchOrigin, _ path: [Maker.Step], _ versions: [EntryVersion],
        _ want: ObjectWant
    ) {
        // The claim comes first: what is removed from now on is not kept.
        let claim = origin.source.claim(origin.dataKey)
        let isWhole = driver.withLock { $0.graph.searches[id]?.name.path.count } == path.count
        let found = lookInMemory(origin, path, isWhole: isWhole, versions, claim)
        let key = maker.key(of: origin.dataKey, path)
        guard case .nothing = found, path.last?.isStored == true, origin.looksOnDisk, let forms = origin.source.forms
        else { return answer(.search(id)) { $0.lookedUp(id, found, into: &$1) } }
        let isPatient = origin.waitsForDisk
        if want.queue == .slow || isPatient {
            // A prefetch looks when it has its turn. A call for an entry that must be on disk waits until it is.
            return lookByCall(id, origin, key, want, claim)
        }
        beginLook(id, forms, want) { place in
            forms.read(key, place) { self.looked(id, origin, $0, claim) }
        }
    }

    /// Begins a look at the disk. No prefetch starts until it is known whether an urgent call fetches.
    private func beginLook(
        _ id: ObjectSearchID, _ forms: any FormStore, _ want: ObjectWant,
        _ look: (Workers.Place) -> Workers.Ticket?
    ) {
        let reservation = want.queue == .fast ? forms.reserve() : nil
        driver.withLock { machine in
            machine.running[.search(id)] = .look(nil)
            if let reservation { machine.graph.keep(reservation, for: id) }
        }
        // The requests may have ended meanwhile; the reservation is then released here.
        guard let lookUp = look(place(want)) else { return withExtendedLifetime(reservation) {} }
        // Another thread may have answered already.
        driver.withLock { machine in
            if machine.running[.search(id)] != nil { machine.running[.search(id)] = .look(lookUp) }
        }
        withExtendedLifetime(reservation) {}
    }

    private func lookByCall(
        _ id: ObjectSearchID, _ origin: FetchOrigin, _ key: CacheKey, _ want: ObjectWant, _ claim: Claim?
    ) {
        let request = origin.request.with(\.key, key).with(\.cachePolicy, .cacheOnly)
            .with(\.callbackQueue, .inPlace).with(\.priority, want.priority)
        let task = origin.source.fetch(request, want.queue)
        driver.withLock { $0.running[.search(id)] = .turn(task) }
        task.onEnd { result in
            switch result {
            case .success(let response):
                self.looked(id, origin, StoredData(data: response.data, info: response.info), claim)
            case .failure(let error) where error == .cancelled || error == .shutDown:
                self.answer(.search(id)) { $0.searchFailed(id, error, into: &$1) }
            case .failure:
                self.looked(id, origin, nil, claim)
            }
        }
    }

    /// Takes the disk's answer.
    private func looked(_ id: ObjectSearchID, _ origin: FetchOrigin, _ stored: StoredData?, _ claim: Claim?) {
        var found = Graph.Found.nothing
        if let stored {
            let use = origin.source.use(of: stored.info, for: origin.request)
            var bytes = form(stored, origin, use == .fresh ? .disk : .stale, claim)
            let isGood = use == .fresh || use == .stale
            // A form that may be out of date waits for the network, which must not be held back by it.
            if isGood { bytes.waiting = waiting(stored.data) }
            found = isGood ? .stored(bytes, EntryVersion(info: stored.info, digest: bytes.digest)) : .outdated(bytes)
        }
        answer(.search(id)) { $0.lookedUp(id, found, into: &$1) }
    }

    /// Counts bytes as waiting to be made into an object, at once, so that what brings further bytes hears of it.
    private func waiting(_ data: Data) -> WaitingBytes {
        WaitingBytes(data.count) { [maker] in maker.note(waiting: $0) }
    }

    func form(_ stored: StoredData, _ origin: FetchOrigin, _ source: ResponseSource, _ claim: Claim?) -> Bytes {
        Bytes(
            data: stored.data, info: stored.info, digest: stored.info.digestOfOriginal ?? 0, source: source,
            response: nil, claim: claim, key: origin.dataKey, events: origin.source.events)
    }

    private func lookInMemory(
        _ origin: FetchOrigin, _ path: [Maker.Step], isWhole: Bool, _ versions: [EntryVersion], _ claim: Claim?
    ) -> Graph.Found {
        if !origin.waitsForDisk, var object = hit(origin, path) {
            object.claim = claim
            return .object(object, EntryVersion(info: object.info, digest: object.digest))
        }
        if var object = added(origin, path, isWhole: isWhole) {
            object.claim = claim
            return .object(object, EntryVersion(info: object.info, digest: object.digest))
        }
        // What is under way does not tell whether its bytes are on disk.
        if origin.waitsForDisk { return .nothing }
        let fresh = versions.last {
            !$0.info.isStandIn && origin.source.use(of: $0.info, for: origin.request) == .fresh
        }
        return fresh.map { .underWay($0) } ?? .nothing
    }

    // MARK: Fetching

    func fetch(_ id: ObjectFetchID, _ origin: FetchOrigin, _ want: ObjectWant) {
        // The claim comes first: what is removed from now on is not kept.
        let claim = origin.claim ?? origin.source.claim(origin.dataKey)
        let request = origin.request.with(\.callbackQueue, .inPlace).with(\.priority, want.priority)
        let task = origin.following ?? origin.source.fetch(request, want.queue)
        driver.withLock { $0.running[.fetch(id)] = .fetch(task, isOwn: origin.following == nil) }
        task.onFail { error, isFatal in
            if !isFatal { self.apply { $0.told(id, .failure(error), into: &$1) } }
        }
        task.onRetry { self.apply { $0.told(id, .retry, into: &$1) } }
        task.onEnd { [weak task] result in
            let attempts = task?.attempts ?? 0
            switch result {
            case .success(let response): self.fetched(id, origin, response, claim, task)
            case .failure(let error):
                self.endFetch(id) { graph, actions in
                    graph.told(id, .ended(attempts: attempts), into: &actions)
                    graph.fetchFailed(id, error, into: &actions)
                }
            }
        }
    }

    private func fetched(
        _ id: ObjectFetchID, _ origin: FetchOrigin, _ response: DataResponse, _ claim: Claim?, _ task: DataTask?
    ) {
        let events = origin.source.events
        let bytes = Bytes(
            data: response.data, info: response.info, digest: response.data.digest,
            source: response.source, response: response, claim: claim, isOwn: task?.key == origin.dataKey,
            key: origin.dataKey, call: events.wants(.objects) ? task?.eventID : nil, events: events,
            waiting: waiting(response.data))
        let isNewest = origin.policy == .ignoreCache && response.source == .network && !response.info.isStandIn
        let paths = driver.withLock { Set($0.graph.paths(of: id)) }
        let present = present(paths, origin, bytes)
        endFetch(id) { graph, actions in
            graph.fetched(
                id, bytes, EntryVersion(info: response.info, digest: bytes.digest),
                isStored: response.source != .network, isNewest: isNewest, isShared: bytes.isOwn, present: present,
                into: &actions)
        }
    }

    /// Returns the objects in memory that were made of equal bytes.
    private func present(_ paths: Set<[Maker.Step]>, _ origin: FetchOrigin, _ bytes: Bytes) -> [[Maker.Step]: Object] {
        var present: [[Maker.Step]: Object] = [:]
        for path in paths { present[path] = self.present(origin.key, path, bytes) }
        return present
    }

    private func present(_ key: CacheKey, _ path: [Maker.Step], _ bytes: Bytes) -> Object? {
        guard let entry = memory.entry(for: maker.key(of: key, path)) else { return nil }
        let kept = entry.kept(Maker.Product.self)
        guard bytes.digest != 0, kept.digest == bytes.digest else { return nil }
        var object = Object(kept.product, madeOf: bytes, bytes.info)
        object.isPresent = true
        object.excerpt = maker.excerpt(of: bytes.data, by: path)
        return object
    }

    /// Returns the object in memory that would be made just the same. What was made before this has been asked for has
    /// been kept by now.
    func present(_ key: CacheKey, _ path: [Maker.Step], _ material: Graph.Material) -> Object? {
        switch material {
        case .bytes(let bytes), .earlier(_, let bytes), .stored(let bytes): return present(key, path, bytes)
        case .object(let parent):
            guard parent.digest != 0, let entry = memory.entry(for: maker.key(of: key, path)),
                entry.kept(Maker.Product.self).digest == parent.digest
            else { return nil }
            var object = parent.with(entry.kept(Maker.Product.self).product)
            object.isPresent = true
            object.excerpt = parent.excerpt.flatMap { maker.excerpt(of: $0, by: path) }
            return object
        }
    }

    /// Ends a fetch, and the previews of its bytes.
    private func endFetch(_ id: ObjectFetchID, _ event: (inout Graph, inout [Action]) -> Void) {
        let previews = driver.withLock { $0.previews.removeValue(forKey: id) }
        answer(.fetch(id), event)
        withExtendedLifetime(previews) {}
    }

    func listen(_ id: ObjectFetchID, _ interest: FetchInterest) {
        guard case .fetch(let task, _)? = driver.withLock({ $0.running[.fetch(id)] }) else { return }
        if interest.contains(.progress) {
            task.onProgress { progress in self.apply { $0.told(id, .progress(progress), into: &$1) } }
        }
        if interest.contains(.previews) {
            task.onBytes { [weak self, weak task] bytes in
                if self?.arrived(bytes, for: id) == false { task?.ignoreBytes() }
            }
        }
    }
}
