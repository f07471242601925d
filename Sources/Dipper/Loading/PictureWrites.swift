import Synchronization

/// The writes of pictures that are to be encoded and stored, one after the other for each key.
///
/// If several writes wait for a key, only the latest is carried out. A picture that was removed meanwhile does not come
/// back.
final class PictureWrites: Sendable {
    struct Job: Sendable {
        /// Encodes the picture and stages it, unless the picture was removed meanwhile. Returns `false` if nothing was
        /// staged.
        let write: @Sendable (Removals) -> Bool
        /// Removes the staged picture from the given tiers.
        let undo: @Sendable (CacheTiers) -> Void
        /// Tells the waiting tasks that the picture will not be written.
        let dropped: @Sendable () -> Void
        /// The metadata of the answer that the picture was made from.
        let info: EntryInfo
        /// The removals that concern the picture since its work began.
        var removals = Removals()
        /// The picture that the caller has added. Processors are applied to it until its file is staged.
        var added: AddedPicture?

        var isWanted: Bool { !removals.tiers(for: info).contains(.disk) }
    }

    private struct Entry: Sendable {
        var waiting: Job?
        var running: Job?
    }

    private struct State: Sendable {
        var entries: [CacheKey: Entry] = [:]
        var idle: [CheckedContinuation<Void, Never>] = []

        /// Forgets a key that has no writes left, and returns the callers of `finish()` if no key has any.
        mutating func takeIdle(_ key: CacheKey) -> [CheckedContinuation<Void, Never>] {
            if let entry = entries[key], entry.waiting == nil, entry.running == nil { entries[key] = nil }
            return entries.isEmpty ? exchange(&idle, with: []) : []
        }
    }

    private let state = Mutex(State())
    private let queue: DecodeQueue

    init(queue: DecodeQueue) {
        self.queue = queue
    }

    /// The number of keys with writes from which on a write comes before other work: each write holds a picture.
    private static let mostWaiting = 8

    /// Writes a picture in the background. If too many writes wait already, or if tasks wait for this one, the thread
    /// that has made the picture writes it at once. A picture that the caller has added is then written by the queue,
    /// before other work. If the queue accepts no more work, the picture is written at once.
    func add(_ job: Job, for key: CacheKey, atOnce isWaitedFor: Bool) {
        let (replaced, isFirst, isSoon) = state.withLock { state -> (Job?, Bool, Bool) in
            // A removed picture must not replace one that was added after the removal.
            guard job.isWanted else { return (job, false, false) }
            let isFirst = state.entries[key] == nil
            let isSoon = isWaitedFor || state.entries.count >= Self.mostWaiting
            let replaced = exchange(&state.entries[key, default: Entry()].waiting, with: job)
            return (replaced, isFirst, isSoon)
        }
        replaced?.dropped()
        guard isFirst || isSoon else { return }
        let run: @Sendable () -> Void = { self.run(key) }
        // A caller that adds a picture does not wait for the encoder.
        if isSoon, job.added == nil { return run() }
        if queue.add(.init(rank: isSoon ? .urgent : .background, priority: .normal), run) == nil { run() }
    }

    private func run(_ key: CacheKey) {
        while true {
            let job = state.withLock { state -> Job? in
                guard let entry = state.entries[key], entry.running == nil, let job = entry.waiting else { return nil }
                state.entries[key] = Entry(waiting: nil, running: job)
                return job
            }
            guard let job else { return }
            let isWanted = job.isWanted
            let isStaged = isWanted && job.write(job.removals)
            if !isWanted { job.dropped() }
            finish(job, key, undone: isStaged ? [] : .all)
        }
    }

    /// Takes back a picture that was removed while it was written, and leaves the key to the next write.
    private func finish(_ job: Job, _ key: CacheKey, undone: CacheTiers) {
        var undone = undone
        while true {
            let (removed, idle) = state.withLock { state -> (CacheTiers, [CheckedContinuation<Void, Never>]) in
                let removed = job.removals.tiers(for: job.info).subtracting(undone)
                guard removed.isEmpty else { return (removed, []) }
                state.entries[key]?.running = nil
                return ([], state.takeIdle(key))
            }
            for continuation in idle { continuation.resume() }
            if removed.isEmpty { return }
            job.undo(removed)
            undone.formUnion(removed)
        }
    }

    /// Returns the picture that was added under a key and is not staged yet.
    func added(_ key: CacheKey) -> AddedPicture? {
        state.withLock { state in
            guard let entry = state.entries[key] else { return nil }
            if let waiting = entry.waiting { return waiting.isWanted ? waiting.added : nil }
            return entry.running.flatMap { $0.isWanted ? $0.added : nil }
        }
    }

    /// Keeps waiting writes out of the tiers that their pictures were removed from, and takes running writes back from
    /// these tiers. A write that must not go to disk is dropped.
    func revoke(_ removed: Removed, where condition: (CacheKey) -> Bool) {
        let (dropped, idle) = state.withLock { state -> ([Job], [CheckedContinuation<Void, Never>]) in
            var dropped: [Job] = []
            for key in state.entries.keys.filter(condition) {
                state.entries[key]?.running?.removals.add(removed)
                state.entries[key]?.waiting?.removals.add(removed)
                guard let waiting = state.entries[key]?.waiting, !waiting.isWanted else { continue }
                dropped.append(waiting)
                state.entries[key]?.waiting = nil
                if state.entries[key]?.running == nil { state.entries[key] = nil }
            }
            return (dropped, state.entries.isEmpty ? exchange(&state.idle, with: []) : [])
        }
        for job in dropped { job.dropped() }
        for continuation in idle { continuation.resume() }
    }

    /// Returns when all writes have been staged.
    func finish() async {
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            let isIdle = state.withLock { state -> Bool in
                if state.entries.isEmpty { return true }
                state.idle.append(continuation)
                return false
            }
            if isIdle { continuation.resume() }
        }
    }
}
