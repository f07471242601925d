import Foundation
import Synchronization

final class WriteWork: SharedWork {
    let cache: ObjectCache
    let object: MadeObject
    let origin: Origin
    let step: any ObjectStep
    let claim: Claim?
    let keepsBytes: Bool
    /// The key of the object in memory.
    let key: CacheKey
    /// The key of the stored form.
    let place: CacheKey
    /// Work whose calls wait for the end.
    let makes: [ObjectWork]
    /// Work that looks for the object again after the write.
    var blocked: [ObjectWork] = []
    var ticket: Workers.Ticket?
    /// Tells other processes whether the stored form is on disk.
    nonisolated let pending = PendingWrite()
    /// Tells other machines whether a tier has it.
    private nonisolated let sharing: Mutex<Sharing?>
    private nonisolated let begun = Atomic(false)

    init(
        _ object: MadeObject, _ origin: Origin, _ step: any ObjectStep, _ claim: Claim? = nil, keepsBytes: Bool = true,
        for makes: [ObjectWork] = [], sharing: Sharing? = nil, in cache: ObjectCache
    ) {
        self.sharing = Mutex(sharing)
        (self.cache, self.object, self.origin, self.step, self.claim) = (cache, object, origin, step, claim)
        (self.keepsBytes, self.makes) = (keepsBytes, makes)
        key = object.isAdded ? step.addedKey(origin.key) : step.key(origin.key)
        place = origin.formKey(step, key, isAdded: object.isAdded)
    }

    nonisolated var isAwaited: Bool { !makes.isEmpty }

    fileprivate nonisolated func takeSharing() -> Sharing? { sharing.withLock { $0.take() } }

    /// Returns whether the caller may carry out or drop the write: the first one may.
    nonisolated func take() -> Bool { !begun.exchange(true, ordering: .acquiringAndReleasing) }

    override func move(to want: Urgency) {
        ticket?.move(to: cache.engine.place(want, isNext: true))
    }
}

extension WriteWork {
    /// From this number of writes on, a write is as urgent as a call: each holds an object.
    private static let mostLeisurely = 8

    /// Writes after the write of the same object that is under way, in place of the one that waits.
    func enter() {
        cache.welcome()
        cache.state.writeCount += 1
        for make in makes { make.wait(for: self) }
        var line = cache.state.writes[key] ?? []
        let replaced = line.last?.take() == true ? line.popLast() : nil
        line.append(self)
        cache.state.writes[key] = line
        for (make, round) in cache.state.beforeWrite.removeValue(forKey: key) ?? [] where make.round == round {
            make.hold(until: self)
        }
        if let replaced {
            replaced.ticket?.cancel()
            replaced.pending.end(isOnDisk: false)
            replaced.end(isLost: true)
        }
        if line.count == 1 { begin() }
    }

    private func begin() {
        // A write that calls wait for, or one of many, comes before the next object is made.
        let isInHurry = !wants.isEmpty || cache.state.writeCount > Self.mostLeisurely
        let want = wants.isEmpty ? Urgency(queue: .fast, level: 0) : wants.highest
        let (cache, engine) = (cache, cache.engine)
        let work: @Sendable () -> Void = {
            guard self.take() else { return }
            cache.perform(self) { isLost in engine.post { self.written(isLost: isLost) } }
        }
        // Encoding an animation decodes and processes its frames once more.
        let cost: Workers.Measure = { [object, step] in
            (object.form == nil ? step.cost(of: .product(object.product)) : 0, 0)
        }
        ticket = cache.workers.add(
            isInHurry ? engine.place(want, isNext: true) : .init(rank: .background, priority: .normal), cost: cost, work
        )
        // If the threads have ended, the rest is written all the same.
        if ticket == nil { engine.work(work) { _ in } }
    }

    private func written(isLost: Bool) {
        guard var line = cache.state.writes[key], line.first === self else { return }
        line.removeFirst()
        cache.state.writes[key] = line.isEmpty ? nil : line
        end(isLost: isLost)
        line.first?.begin()
    }

    private func end(isLost: Bool) {
        cache.state.writeCount -= 1
        if object.isAdded { cache.unstage(key, object) }
        for make in makes {
            guard make.stage == .writing else { continue }
            make.wait(for: nil)
            make.enter(.ready)
            cache.deliver(object, to: [make], isLost: isLost)
            make.settle()
        }
        for make in blocked {
            guard make.stage == .looking, make.dependency === self else { continue }
            make.wait(for: nil)
            make.begin()
        }
        guard cache.state.writes.isEmpty else { return }
        for continuation in exchange(&cache.state.waiting, with: []) { continuation.resume() }
    }
}

extension ObjectCache {
    /// - Parameter written: called with whether a stored form that should be on disk is not.
    fileprivate func perform(_ write: WriteWork, written: @escaping @Sendable (_ isLost: Bool) -> Void) {
        let (object, source, call, key) = (write.object, write.origin.source, write.origin.call, write.place)
        let sharing = write.takeSharing()
        let mayWrite = { @Sendable in
            object.isAdded ? self.isStaged(object, write.key) : write.claim?.allows(.disk) == true
        }
        let end: @Sendable (_ isLost: Bool, _ isOnDisk: Bool) -> Void = { isLost, isOnDisk in
            write.pending.end(isOnDisk: isOnDisk)
            written(isLost)
        }
        guard mayWrite() else { return end(true, false) }
        if object.isPresent, !object.isRenewed, source.has(key) { return end(false, true) }
        guard object.isAdded || source.mayKeep(object.basis.info, for: call) else { return end(false, false) }
        do throws(DipperError) {
            // What can be made again holds up nobody's end.
            let isOptional = !object.isAdded && !write.isAwaited
            let form = try form(of: write) { !mayWrite() || isOptional && self.isEnding.load(ordering: .relaxed) }
            // A removed object must not replace one that was added after the removal.
            guard mayWrite() else { return end(true, false) }
            if object.isAdded, let claim = object.basis.claim {
                source.add(form, for: key, call, claim)
                return end(false, false)
            }
            source.keep(
                form, for: key, madeOf: object.basis, call, write.claim, sharing
            ) { isOnDisk in
                if write.isAwaited { end(!isOnDisk, isOnDisk) } else { write.pending.end(isOnDisk: isOnDisk) }
            }
            if !write.isAwaited { written(false) }
        } catch {
            if !error.isCancelled { notKept(key, error) }
            // No stored form takes the place of the bytes.
            if !write.keepsBytes, let bytes = object.excerpt, let claim = write.claim,
                bytes.digest == object.basis.digest
            {
                source.keepBytes(bytes, object.basis.info, for: call, claim)
            }
            end(false, false)
        }
    }

    private func form(
        of write: WriteWork, isCancelled: @escaping @Sendable () -> Bool
    ) throws(DipperError) -> Data {
        let (object, origin) = (write.object, write.origin)
        if let form = object.form { return form }
        var excerpt = object.excerpt
        // An object that was made of one in memory comes without its bytes, and may need more of them.
        let isWhole = excerpt.map { !write.step.needsBytes || $0.digest == object.basis.digest } ?? false
        if !isWhole, object.basis.digest != 0, let stored = origin.source.peek(origin.dataKey, for: origin.call),
            stored.data.digest == object.basis.digest
        {
            excerpt = stored.data
        }
        return try write.step.form(of: object.product, madeOf: excerpt, isCancelled: isCancelled)
    }
}
