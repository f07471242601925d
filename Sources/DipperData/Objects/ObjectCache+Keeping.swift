import Foundation

/// The objects in memory and their stored forms on disk.
extension ObjectCache {
    // MARK: Reading

    /// Returns the object in memory if it answers a request without the network.
    package func hit(_ origin: FetchOrigin, _ path: [Maker.Step]) -> Object? {
        guard origin.looks, let entry = memory.entry(for: maker.key(of: origin.key, path)) else { return nil }
        let use = origin.source.use(of: entry.info, for: origin.request)
        guard use == .fresh || use == .stale else { return nil }
        return object(entry, use == .fresh ? .memory : .stale)
    }

    private func object(_ entry: ObjectTier.Entry, _ source: ResponseSource = .memory) -> Object {
        let kept = entry.kept(Maker.Product.self)
        var object = Object(kept.product, entry.info, source)
        object.digest = kept.digest
        object.isAdded = kept.isAdded
        return object
    }

    /// Returns the object that the program has added in place of the bytes, or of the object of a path: until its
    /// stored form is on disk, and as long as it is in memory for the objects that are made from it.
    /// - Parameter isWhole: whether the object itself is asked for. What memory has of that answers by its own rules.
    func added(_ origin: FetchOrigin, _ path: [Maker.Step], isWhole: Bool) -> Object? {
        guard origin.looks else { return nil }
        let own = maker.addedPath(for: path)
        let waiting = driver.withLock { $0.graph.beingWritten(own, of: origin.key)?.object }
        if let waiting, waiting.isAdded { return waiting }
        guard own != path || (path.count == 1 && !isWhole),
            let entry = memory.entry(for: maker.key(of: origin.key, own)),
            entry.kept(Maker.Product.self).isAdded
        else { return nil }
        return object(entry)
    }

    /// Returns the object in memory, however old it is.
    package func peek(_ key: CacheKey, _ path: [Maker.Step]) -> (product: Maker.Product, info: EntryInfo)? {
        memory.entry(for: maker.key(of: key, path)).map { ($0.kept(Maker.Product.self).product, $0.info) }
    }

    /// Returns whether the program has added an object that serves for a path.
    package func hasAdded(_ origin: FetchOrigin, _ path: [Maker.Step]) -> Bool {
        (1...path.count).contains { added(origin, Array(path.prefix($0)), isWhole: $0 == path.count) != nil }
    }

    /// Returns an object without the network, however old it is. Reads the disk and makes the object on the caller's
    /// thread.
    package func find(_ origin: FetchOrigin, _ path: [Maker.Step]) -> Maker.Product? {
        if let present = peek(origin.key, path), present.info.mayBeShown(to: origin.request.headers) {
            return present.product
        }
        return making(for: origin, path) { () throws(DipperError) -> Object? in
            // The claim comes first: what is removed from now on is not kept.
            let claim = origin.source.claim(origin.dataKey)
            let task = MakingTask(origin.dataKey)
            if var object = added(origin, path, isWhole: true) {
                object.claim = nil
                return object
            }
            if path.last?.isStored == true,
                let stored = origin.source.peek(maker.key(of: origin.dataKey, path), for: origin.request),
                stored.info.mayBeShown(to: origin.request.headers),
                let product = try? maker.restore(stored.data, of: path, task)
            {
                return Object(product, madeOf: form(stored, origin, .disk, claim), stored.info)
            }
            for depth in (1..<path.count).reversed() {
                let start = Array(path.prefix(depth))
                let kept = memory.entry(for: maker.key(of: origin.key, start)).flatMap {
                    $0.info.mayBeShown(to: origin.request.headers) ? object($0) : nil
                }
                guard var parent = added(origin, start, isWhole: false) ?? kept else { continue }
                if !parent.isAdded { parent.claim = claim }
                return parent.with(try maker.make(parent.product, by: Array(path.dropFirst(depth)), task))
            }
            guard let stored = origin.source.peek(origin.dataKey, for: origin.request),
                stored.info.mayBeShown(to: origin.request.headers)
            else { return nil }
            return try made(of: stored, origin, path, claim, task)
        }
    }

    /// Makes an object from bytes on the caller's thread, and keeps it in memory.
    package func make(_ data: Data, _ info: EntryInfo, for origin: FetchOrigin, _ path: [Maker.Step]) -> Maker.Product?
    {
        making(for: origin, path) { () throws(DipperError) -> Object? in
            let claim = origin.source.claim(origin.dataKey)
            let stored = StoredData(data: data, info: info)
            return try made(of: stored, origin, path, claim, MakingTask(origin.dataKey))
        }
    }

    private func made(
        of stored: StoredData, _ origin: FetchOrigin, _ path: [Maker.Step], _ claim: Claim?, _ task: MakingTask
    ) throws(DipperError) -> Object {
        let bytes = Bytes(
            data: stored.data, info: stored.info, digest: stored.data.digest, source: .disk,
            response: nil, claim: claim, key: origin.dataKey, events: origin.source.events)
        return Object(try maker.make(stored.data, by: path, task), madeOf: bytes, stored.info)
    }

    /// Makes an object on the caller's thread, and keeps it in memory unless it is removed meanwhile.
    private func making(
        for origin: FetchOrigin, _ path: [Maker.Step], _ make: () throws(DipperError) -> Object?
    ) -> Maker.Product? {
        let id = driver.withLock { $0.graph.expect(path, of: origin.key) }
        let object = try? make()
        if let object { insert(object, for: origin, path, id, isForced: true) }
        driver.withLock { $0.graph.kept(id) }
        return object?.product
    }

    // MARK: Keeping

    func keep(_ keeping: Graph.Keeping) {
        if let origin = keeping.origins.first(where: { $0.policy != .bypass }) {
            let isWanted =
                maker.keepsInMemory(keeping.waiters.map(\.context), isUrgent: keeping.isUrgent)
                || memory.contains(maker.key(of: origin.key, keeping.path))
            if isWanted { insert(keeping.object, for: origin, keeping.path, keeping.id) }
        }
        driver.withLock { $0.graph.kept(keeping.id) }
    }

    /// - Parameter isForced: whether the object is kept even if its answer may not be kept.
    private func insert(
        _ object: Object, for origin: FetchOrigin, _ path: [Maker.Step], _ id: ObjectKeepID, isForced: Bool = false
    ) {
        guard object.isOwn else { return }
        let key = maker.key(of: origin.key, path)
        guard isForced || origin.source.mayKeep(object.info, for: origin.request) else {
            // What is there is out of date.
            if !object.info.isStandIn, driver.withLock({ $0.graph.mayKeep(id) }) { memory.remove(key) }
            return
        }
        let kept = KeptObject(object.product, digest: object.digest, isAdded: object.isAdded, number: id.number)
        memory.insert(
            .init(kept, object.info), for: key, cost: maker.cost(of: object.product),
            lifetime: origin.source.memoryLifetime(of: origin.request, madeOf: object.info)
        ) {
            (object.claim?.allows(.memory) ?? true) && driver.withLock { $0.graph.mayKeep(id) }
        }
    }

    /// Removes what was kept before an object was decided upon.
    func purge(_ origin: FetchOrigin, _ before: ObjectKeepID) {
        for key in memory.derivedKeys(of: origin.key) + [origin.key] {
            guard let entry = memory.entry(for: key), entry.kept(Maker.Product.self).number < before.number else {
                continue
            }
            memory.remove(key)
        }
        origin.source.forms?.removeDerived(of: origin.dataKey)
    }

    // MARK: Writing

    /// Returns the key of an object's stored form. An object without one stands for the bytes.
    func formKey(_ origin: FetchOrigin, _ path: [Maker.Step]) -> CacheKey {
        path.last?.isStored == true ? maker.key(of: origin.dataKey, path) : origin.dataKey
    }

    func write(_ id: ObjectWriteID, _ keeping: Graph.Keeping, _ want: ObjectWant?) {
        let work: @Sendable () -> Void = { self.write(id, keeping) }
        // A write that requests wait for, or that is in a hurry because many wait, comes before what is made next.
        let place = want.map { self.place($0, isNext: true) } ?? .init(rank: .background, priority: .normal)
        guard let number = queue.add(place, work) else { return work() }
        driver.withLock { machine in
            if machine.graph.writes[id] != nil { machine.running[.write(id)] = .write(number) }
        }
    }

    private func write(_ id: ObjectWriteID, _ keeping: Graph.Keeping) {
        let written: @Sendable (ObjectWriteEnd) -> Void = { end in
            if end == .stored { self.dropBytes(after: id, keeping) }
            self.answer(.write(id)) { $0.written(id, end, into: &$1) }
        }
        let object = keeping.object
        let mayWrite = { self.driver.withLock { $0.graph.mayWrite(id) } && (object.claim?.allows(.disk) ?? true) }
        // The request that wants the object most surely on disk decides.
        guard mayWrite(), let origin = keeping.origins.max(by: { $0.storing < $1.storing }),
            let forms = origin.source.forms
        else { return written(.failed) }
        let key = formKey(origin, keeping.path)
        if object.isPresent, forms.has(key) { return written(.stored) }
        guard object.isAdded || origin.source.mayKeep(object.info, for: origin.request) else {
            return written(.unneeded)
        }
        do throws(DipperError) {
            let form = try form(of: keeping)
            // A removed object must not replace one that was added after the removal.
            guard mayWrite() else { return written(.failed) }
            if object.isAdded {
                // A fetch that has begun since the object was added did not find it on disk.
                forms.remove(key, from: .all)
                try forms.add(form, for: origin.request.with(\.key, key))
                return written(.stored)
            }
            let isAwaited = driver.withLock { $0.graph.writes[id]?.crowd.isEmpty == false }
            let whenWritten: @Sendable (Bool) -> Void = { written($0 ? .stored : .failed) }
            forms.keep(
                form, for: key, madeOf: object.info, digest: object.digest, origin.request,
                whenWritten: isAwaited ? whenWritten : nil)
            if !isAwaited { written(.stored) }
        } catch {
            maker.note(error, writing: key)
            // The object has no stored form that a request could wait for.
            written(.unneeded)
        }
    }

    private func form(of keeping: Graph.Keeping) throws(DipperError) -> Data {
        let object = keeping.object
        if let form = object.form { return form }
        var original = object.excerpt
        // An object that was made of one in memory comes without its bytes. Others may need more of them.
        let isWhole = original.map {
            !maker.needsBytes(keeping.path, keeping.lead?.context) || $0.digest == object.digest
        }
        if isWhole != true, object.digest != 0, let origin = keeping.origins.first,
            let stored = origin.source.peek(origin.dataKey, for: origin.request), stored.data.digest == object.digest
        {
            original = stored.data
        }
        return try maker.form(of: object.product, madeOf: original, by: keeping.path, keeping.lead?.context)
    }

    /// Removes the bytes from disk, if nobody has use for them.
    private func dropBytes(after id: ObjectWriteID, _ keeping: Graph.Keeping) {
        let isUnwanted = !keeping.object.isAdded && maker.dropsBytes(keeping.waiters.map(\.context))
        let isNew = keeping.object.source == .network
        guard driver.withLock({ $0.graph.endUse(id, isUnwanted: isUnwanted, isNew: isNew) }),
            let origin = keeping.origins.first, !memory.contains(origin.key)
        else { return }
        origin.source.forms?.remove(origin.dataKey, from: .all)
    }

    // MARK: Changes

    /// Keeps an object that the program adds in place of what the tiers have: in memory at once, on disk a little
    /// later.
    /// - Parameter form: the stored form, if it is at hand.
    package func add(
        _ product: Maker.Product, _ info: EntryInfo, form: Data? = nil, for origin: FetchOrigin,
        _ asked: [Maker.Step], _ context: Maker.Context
    ) {
        // All objects of one step have one file.
        let path = maker.addedPath(for: asked)
        var object = Object(product, info, .memory)
        object.digest = form?.digest ?? 0
        object.form = form
        object.isAdded = true
        // What the object replaces must not be read while the object waits to be written.
        if path.count == 1 {
            remove(origin.key, from: .all)
            origin.source.forms?.removeDerived(of: origin.dataKey)
        } else {
            remove(origin.key, path, from: .all)
        }
        origin.source.forms?.remove(formKey(origin, path), from: .all)
        let version = EntryVersion(info: info, digest: object.digest)
        // First into memory, so that nobody who is told of the object looks for it in vain.
        let id = driver.withLock { $0.graph.expect(path, of: origin.key) }
        insert(object, for: origin, path, id, isForced: true)
        driver.withLock { $0.graph.kept(id) }
        let lead = Waiter(context, end: { _ in }, tell: { _ in })
        apply { [object] in $0.add(object, version, at: path, for: origin, by: lead, into: &$1) }
    }

    /// Forgets what was made from the bytes of a key. The caller removes or replaces the bytes.
    package func remove(_ key: CacheKey, from tiers: CacheTiers) {
        apply { $0.remove(key, from: tiers, into: &$1) }
        if tiers.contains(.memory) { forget(key) }
    }

    /// Forgets one object of the bytes of a key, and the one that the program has added in its place.
    package func remove(_ key: CacheKey, _ path: [Maker.Step], from tiers: CacheTiers) {
        for path in Set([path, maker.addedPath(for: path)]) {
            apply { $0.remove(path, of: key, from: tiers, into: &$1) }
            if tiers.contains(.memory) { memory.remove(maker.key(of: key, path)) }
        }
    }

    /// Removes what was made from the bytes of a key from memory.
    package func forget(_ key: CacheKey) {
        memory.remove(key)
        memory.removeDerived(of: key)
    }

    package func removeAll(from tiers: CacheTiers) {
        apply { $0.removeAll(from: tiers, into: &$1) }
        if tiers.contains(.memory) { memory.removeAll() }
    }

    /// Removes the objects whose bytes were stored before a time, in seconds since 1970.
    package func removeAll(storedBefore limit: TimeInterval) {
        apply { graph, actions in graph.removeAll(where: { $0.info.stored < limit }, into: &actions) }
        memory.removeExpired(storedBefore: limit)
    }

    package func removeExpired() { memory.removeExpired(storedBefore: -.infinity) }

    package var memorySize: Int { memory.totalCost }
}
