import Synchronization

/// What is to be encoded and written, one after the other for each key: of several that wait the latest counts, and what
/// was removed meanwhile does not come back.
final class PictureWrites: Sendable {
    struct Job: Sendable {
        /// Encodes and, unless it was removed meanwhile, stages; false if there is nothing to take back.
        let write: @Sendable (Removals) -> Bool
        /// Takes it back from these tiers.
        let undo: @Sendable (CacheTiers) -> Void
        /// It will not be written.
        let dropped: @Sendable () -> Void
        /// Metadata of the answer that the picture was made of.
        let info: EntryInfo
        /// What was removed since the picture was begun.
        var removals = Removals()
        /// The picture that the caller has added, which processors are applied to until its file is staged.
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

        /// Forgets a key that nothing is to be done for, and takes those who wait for all to be done, if it is.
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

    /// So many may wait: each holds a picture.
    private static let mostWaiting = 8

    /// Writes in the background; at once where the caller waits for it, where too much waits already, or where the queue
    /// takes nothing more.
    func add(_ job: Job, for key: CacheKey, atOnce isWaitedFor: Bool) {
        let (replaced, isFirst, atOnce) = state.withLock { state -> (Job?, Bool, Bool) in
            // It is not to take the place of what was added after the removal.
            guard job.isWanted else { return (job, false, false) }
            let isFirst = state.entries[key] == nil
            let atOnce = isWaitedFor || state.entries.count >= Self.mostWaiting
            let replaced = exchange(&state.entries[key, default: Entry()].waiting, with: job)
            return (replaced, isFirst, atOnce)
        }
        replaced?.dropped()
        guard isFirst || atOnce else { return }
        let run: @Sendable () -> Void = { self.run(key) }
        if atOnce || queue.add(.init(rank: .background, priority: .normal), run) == nil { run() }
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

    /// Takes back what was removed meanwhile, and leaves the key to the next one.
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

    /// The picture that was added under a key and is not staged yet.
    func added(_ key: CacheKey) -> AddedPicture? {
        state.withLock { state in
            guard let entry = state.entries[key] else { return nil }
            if let waiting = entry.waiting { return waiting.isWanted ? waiting.added : nil }
            return entry.running.flatMap { $0.isWanted ? $0.added : nil }
        }
    }

    /// Keeps waiting writes out of the tiers that their pictures were removed from, and takes running ones back from them. A
    /// write that is kept out of the disk is not made at all.
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

    /// Returns when all that was asked for has been staged.
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
