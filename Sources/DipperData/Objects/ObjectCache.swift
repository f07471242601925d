import Foundation
import Synchronization

/// A cache of objects that are made from the bytes of data caches, each of them once however many calls wait. It keeps
/// them in memory, and their stored forms in the data caches that the bytes came from.
package final class ObjectCache: Sendable {
    @Loop
    final class State {
        var works: [CacheKey: WorksOfKey] = [:]
        /// Calls by other keys than those of their work: the keys that their callers asked for, and the keys of calls
        /// that have no work yet.
        var aliases: [CacheKey: [ObjectIdentifier: ObjectCall]] = [:]
        /// The write under way, and the one that waits for its end.
        var writes: [CacheKey: [WriteWork]] = [:]
        /// Work that waits for a write which is on its way to the loop.
        var beforeWrite: [CacheKey: [(make: ObjectWork, round: UInt64)]] = [:]
        var writeCount = 0
        /// The objects that are being made while their bytes arrive.
        var earlyWorks = 0
        var waiting: [CheckedContinuation<Void, Never>] = []
        var isGuest = false
        /// The calls that are on their way to the engine, such as the renewal of a call that ends in this turn.
        nonisolated let posted = Atomic(0)
        private var backlog: Backlog?
        /// The engines that bring bytes.
        private var engines: [WeakEngine] = []

        nonisolated init(waitingLimit: Int?) { backlog = waitingLimit.map(Backlog.init) }

        var isIdle: Bool {
            works.isEmpty && aliases.isEmpty && writes.isEmpty && posted.load(ordering: .relaxed) == 0
        }

        /// Whether it is not known yet which work a call for a key comes to wait for.
        func isLooking(at key: CacheKey) -> Bool {
            works[key]?.makes.contains { $0.stage == .looking } == true
                || aliases[key]?.values.contains { $0.origin.key == key && $0.make == nil } == true
        }

        func change(_ key: CacheKey, _ body: (WorksOfKey) -> Void) {
            guard let present = works[key] else { return }
            body(present)
            if present.isEmpty { works[key] = nil }
        }
    }

    let engine: Engine
    package let memory: ObjectMemoryTier
    package let workers: Workers
    let notKept: @Sendable (CacheKey, DipperError) -> Void
    /// Whether what can be made again is not written any more.
    let isEnding = Atomic(false)
    let misfits = Misfits()
    let state: State
    private let staged = RareTable<CacheKey, MadeObject>()

    /// - Parameters:
    ///   - memory: contains no other objects.
    ///   - waitingLimit: the number of bytes that may wait to be made into objects before fetches wait; `nil` for any.
    ///   - notKept: called when the stored form of an object could not be made.
    init(
        _ engine: Engine, memory: ObjectMemoryTier, workers: Workers, waitingLimit: Int? = nil,
        notKept: @escaping @Sendable (CacheKey, DipperError) -> Void = { _, _ in }
    ) {
        (self.engine, self.memory, self.workers, self.notKept) = (engine, memory, workers, notKept)
        state = State(waitingLimit: waitingLimit)
    }

    // MARK: Calls

    package func demote(_ key: CacheKey, andOthers: Bool) {
        engine.post { [state] in state.demote(key, andOthers: andOthers) }
    }
    package func cancel(_ key: CacheKey, andOthers: Bool) {
        engine.post { [state] in state.cancel(key, andOthers: andOthers) }
    }
    package func cancelAll() { engine.post { [state] in state.cancelAll() } }

    // MARK: Ending

    /// Returns when all calls have ended, and what they keep is written.
    package func becomeIdle() async { await engine.becomeIdle(state) }

    /// Ends all calls, writes what waits to be written, and returns when the threads have ended.
    package func shutdown() async {
        isEnding.store(true, ordering: .relaxed)
        await engine.wait { [state] _, continuation in
            state.cancelAll()
            continuation.resume()
        }
        await workers.shutdown()
        await finishWrites()
        engine.post { [state, engine] in
            state.endBacklog()
            engine.guests.removeAll { $0 === state }
        }
    }

    package func finishWrites() async {
        await engine.wait { [state] _, continuation in
            if state.writes.isEmpty { continuation.resume() } else { state.waiting.append(continuation) }
        }
    }

    // MARK: Reading

    /// - Parameter key: the key of the object, if it is at hand.
    package func hit(_ origin: Origin, _ step: some ObjectStep, _ key: CacheKey? = nil) -> MadeObject? {
        // The loop does not read the index.
        guard origin.looks, !origin.waitsForDisk || !Loop.isCurrent && origin.isWritten(step),
            let entry = origin.source.object(key ?? step.key(origin.key), in: memory, for: origin.request)
        else { return nil }
        switch origin.source.use(of: entry.info, for: origin.call) {
        case .fresh: return MadeObject(inMemory: entry, .memory)
        case .stale: return MadeObject(inMemory: entry, .stale)
        case .staleWhileRevalidating, .revalidate: return nil
        }
    }

    /// Returns the object that the program has added in place of the bytes, or of the object of a step: until its
    /// stored form is on disk, and as long as memory has it.
    /// - Parameter isWhole: whether the object itself is asked for. If memory has it, its own rules decide.
    func added(_ origin: Origin, _ step: any ObjectStep, isWhole: Bool) -> MadeObject? {
        guard origin.looks else { return nil }
        if let staged = waiting(step.addedKey(origin.key)) { return staged }
        guard step.addedSuffix != step.suffix || (step.before == nil && !isWhole),
            let entry = memory.entry(for: step.addedKey(origin.key)), entry.isAdded
        else { return nil }
        return MadeObject(inMemory: entry, .memory)
    }

    package func hasAdded(_ origin: Origin, _ step: any ObjectStep) -> Bool {
        var next: (any ObjectStep)? = step
        while let present = next {
            if added(origin, present, isWhole: present === step) != nil { return true }
            next = present.before
        }
        return false
    }

    func present(_ key: CacheKey, madeOf digest: UInt64) -> Product? {
        guard digest != 0, let entry = memory.entry(for: key), entry.digest == digest else { return nil }
        return entry.product
    }

    /// Makes an object without the network, however old it is. Reads the disk on the caller's thread.
    package func find(_ origin: Origin, _ step: any ObjectStep) -> Product? {
        if let entry = origin.source.object(step.key(origin.key), in: memory, for: origin.request),
            entry.info.mayBeShown(to: origin.request.headers)
        {
            return entry.product
        }
        return keeping(origin, step) { () throws(DipperError) -> MadeObject? in
            try made(origin, step, in: .all)
        }
    }

    /// Makes an object of what some tiers have.
    /// - Parameter isWhole: whether the object itself is asked for, and not one that is made from it.
    private func made(
        _ origin: Origin, _ step: any ObjectStep, in tiers: CacheTiers, isWhole: Bool = true
    ) throws(DipperError) -> MadeObject? {
        if tiers.contains(.memory), let object = inMemory(origin, step, isWhole: isWhole) { return object }
        let task = MakingTask(origin.dataKey)
        if step.isStored, let stored = stored(step.key(origin.dataKey), for: origin, in: tiers),
            let product = try? step.make(of: .form(stored.data), task)
        {
            return MadeObject(product, Provenance(ofForm: stored.info, .disk))
        }
        if let before = step.before {
            let parent: MadeObject? =
                if !step.isWholePath {
                    try made(origin, before, in: tiers, isWhole: false)
                } else if tiers.contains(.memory) {
                    inMemory(origin, before, isWhole: false)
                } else {
                    nil
                }
            if let parent { return MadeObject(try step.make(of: .product(parent.product), task), parent.basis) }
            if !step.isWholePath { return nil }
        }
        guard step.programs == nil, let stored = stored(origin.dataKey, for: origin, in: tiers) else { return nil }
        let basis = Provenance(info: stored.info, digest: stored.data.digest, source: .disk)
        return MadeObject(try make(of: .bytes(stored.data), basis, for: origin, step, task), basis)
    }

    private func inMemory(_ origin: Origin, _ step: any ObjectStep, isWhole: Bool) -> MadeObject? {
        if let object = added(origin, step, isWhole: isWhole) { return object }
        guard !isWhole, let entry = memory.entry(for: step.key(origin.key)),
            entry.info.mayBeShown(to: origin.request.headers)
        else { return nil }
        return MadeObject(inMemory: entry, .memory)
    }

    /// Returns an object made of the entry in some tiers, on a thread that makes objects; memory keeps it if all are
    /// asked.
    package func find(_ origin: Origin, _ step: any ObjectStep, in tiers: CacheTiers) async -> Product? {
        await fromThread { answer in
            let ticket = workers.add(
                .init(.fast, origin.request.priority), of: origin.key, cost: { self.load(of: origin, step, in: tiers) }
            ) {
                let found =
                    tiers == .all
                    ? self.find(origin, step) : (try? self.made(origin, step, in: tiers))?.product
                answer(found)
            }
            if ticket == nil { answer(nil) }
        }
    }

    /// Measures the making of an object of the entry in some tiers.
    private func load(of origin: Origin, _ step: any ObjectStep, in tiers: CacheTiers) -> (memory: Int, effort: Int) {
        if step.isStored, let form = stored(step.key(origin.dataKey), for: origin, in: tiers) {
            return step.load(of: .form(form.data))
        }
        if let before = step.before, !step.isWholePath { return load(of: origin, before, in: tiers) }
        return stored(origin.dataKey, for: origin, in: tiers).map { step.load(of: .bytes($0.data)) } ?? (0, 0)
    }

    private func stored(_ key: CacheKey, for origin: Origin, in tiers: CacheTiers = .all) -> StoredData? {
        origin.source.peek(key, for: origin.call, in: tiers).flatMap {
            $0.info.mayBeShown(to: origin.request.headers) ? $0 : nil
        }
    }

    package func make(_ data: Data, _ info: EntryInfo, for origin: Origin, _ step: any ObjectStep) -> Product? {
        keeping(origin, step) { () throws(DipperError) -> MadeObject? in
            let basis = Provenance(info: info, digest: data.digest, source: .disk)
            return MadeObject(try make(of: .bytes(data), basis, for: origin, step, MakingTask(origin.dataKey)), basis)
        }
    }

    private func keeping(
        _ origin: Origin, _ step: any ObjectStep, _ make: () throws(DipperError) -> MadeObject?
    ) -> Product? {
        // The claim comes first: an entry that is removed from now on is not kept.
        let claim = origin.source.claim(for: origin.call, step.isStored ? step.key(origin.dataKey) : nil)
        guard let object = try? make() else { return nil }
        // Another may have taken the place of what was read meanwhile.
        insert(object, step.key(origin.key), for: origin, claim, isLatest: true)
        return object.product
    }

    /// Returns whether an entry may serve to make an object: nothing has shown that this is impossible.
    /// - Parameter key: the key of what is made from the bytes alone.
    package func mayUse(_ info: EntryInfo, for key: CacheKey, _ step: any ObjectStep) -> Bool {
        misfits[key, step.kind]?.info.stored != info.stored
    }

    // MARK: Keeping

    /// - Parameter isLatest: whether the object must not replace one of bytes that were kept after the claim was made.
    func insert(_ object: MadeObject, _ key: CacheKey, for origin: Origin, _ claim: Claim, isLatest: Bool = false) {
        memory.insert(
            object.entry, for: key,
            lifetime: origin.source.memoryLifetime(for: origin.call, madeOf: object.basis.info)
        ) {
            claim.allows(.memory) && (!isLatest || claim.isLatest)
        }
    }

    /// Keeps an object that the program adds: in memory at once, on disk a little later.
    /// - Parameter form: the stored form, if it is at hand.
    package func add(
        _ product: Product, _ info: EntryInfo, form: Data? = nil, for origin: Origin, _ step: any ObjectStep
    ) {
        let (key, place) = (step.addedKey(origin.key), step.addedKey(origin.dataKey))
        let claim = origin.source.claim(place, replacedFor: origin.call)
        var object = MadeObject(
            product, Provenance(info: info, digest: form?.digest ?? 0, source: .memory, claim: claim), isAdded: true)
        object.form = form
        let added = object
        // All objects of one first step share one file.
        let isWritten = origin.storing != .never
        if isWritten { staged.change { if claim.isCurrent { $0[key] = added } } }
        // The entry on disk must not be read while the object waits to be written.
        origin.source.clean(place)
        if step.before == nil {
            origin.source.removeDerived(of: place)
            memory.removeDerived(of: key)
        }
        insert(object, key, for: origin, claim, isLatest: true)
        origin.source.replace(place, by: claim)
        guard isWritten else { return }
        engine.post { [engine] in
            if engine.hasLeft {
                self.state.beforeWrite[key] = nil
                return self.unstage(key, added)
            }
            WriteWork(added, origin, step, in: self).enter()
        }
    }

    private func waiting(_ key: @autoclosure () -> CacheKey) -> MadeObject? {
        staged[key()].flatMap { $0.basis.claim?.isCurrent == true ? $0 : nil }
    }
    func isStaged(_ object: MadeObject, _ key: CacheKey) -> Bool {
        waiting(key).map { $0.product === object.product } ?? false
    }

    func unstage(_ key: CacheKey, _ object: MadeObject? = nil) {
        staged.remove { staged in
            if let object, let present = staged[key], !(present.product === object.product) { return [] }
            return [key]
        }
    }

    private func unstage(where isConcerned: (CacheKey, MadeObject) -> Bool) {
        staged.remove { staged in staged.filter { isConcerned($0.key, $0.value) }.map(\.key) }
    }

    // MARK: Removing

    // The caller removes the bytes or the stored form, which revokes the claims of work under way.

    package func remove(_ key: CacheKey, from tiers: CacheTiers) {
        misfits.forget(key)
        if tiers.contains(.disk) { unstage { staged, _ in staged == key || staged.isDerived(of: key) } }
        if tiers.contains(.memory) { forget(key) }
    }

    /// Removes one object of the bytes of a key, and the one that the program has added in its place.
    package func remove(_ key: CacheKey, _ step: any ObjectStep, from tiers: CacheTiers) {
        for key in Set([step.key(key), step.addedKey(key)]) {
            if tiers.contains(.disk) { unstage(key) }
            if tiers.contains(.memory) { memory.remove(key) }
        }
    }

    package func forget(_ key: CacheKey) {
        memory.remove(key)
        memory.removeDerived(of: key)
    }

    /// Removes the objects made of the bytes of a URL, whatever their keys.
    package func removeAll(of address: String, from tiers: CacheTiers) {
        misfits.forget(of: address)
        if tiers.contains(.disk) { unstage { _, object in object.basis.info.isOf(address) } }
        if tiers.contains(.memory) { memory.removeAll(of: address) }
    }

    package func removeAll() {
        unstage { _, _ in true }
        memory.removeAll()
    }

    /// Removes the objects whose bytes were stored before a time, in seconds since 1970.
    package func removeAll(storedBefore limit: TimeInterval) {
        unstage { _, object in object.basis.info.stored < limit }
        memory.removeExpired(storedBefore: limit)
    }
}

/// The bytes that wait to be made into objects, from all data caches together. At the limit all fetches wait, and
/// prefetches at half of it, so that there is room for urgent calls. A value.
private struct Backlog {
    private var half: ByteBudget
    private var whole: ByteBudget

    /// The limit is in bytes.
    init(limit: Int) { (half, whole) = (ByteBudget(limit: limit / 2), ByteBudget(limit: limit)) }

    mutating func take(_ bytes: Int) {
        half.take(bytes)
        whole.take(bytes)
    }

    /// The most urgent queue whose fetches wait; `nil` for none.
    var held: FetchQueue? { whole.isSpent ? .fast : half.isSpent ? .slow : nil }
}

private struct WeakEngine {
    weak var engine: Engine?
}

extension ObjectCache.State {
    /// Counts bytes that wait from now on; a negative number those that wait no longer.
    func count(_ bytes: Int) {
        if bytes == 0 { return }
        let before = backlog?.held
        backlog?.take(bytes)
        if backlog?.held != before { holdAll() }
    }

    /// Holds back the fetches of an engine too, from the next message on.
    func follow(_ engine: Engine) {
        if backlog == nil || engines.contains(where: { $0.engine === engine }) { return }
        engines.removeAll { $0.engine == nil }
        engines.append(WeakEngine(engine: engine))
        hold(engine)
    }

    func endBacklog() {
        backlog = nil
        holdAll()
    }

    private func holdAll() {
        for known in engines { if let engine = known.engine { hold(engine) } }
    }

    private func hold(_ engine: Engine) {
        let (held, holder) = (backlog?.held, ObjectIdentifier(self))
        engine.perform { $0.hold(held, by: holder) }
    }
}
