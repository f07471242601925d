import Foundation

/// Work of the writer thread in steps, between which other work has its turn.
protocol DiskJob: Sendable {
    mutating func step(_ tier: DiskTier) throws -> Bool
    /// Called once, even if a step failed or none ran: on the writer thread, or on the caller's if that one is ending.
    func end(_ tier: DiskTier)
}

struct DiskJobs {
    enum Kind {
        case asked, clearing, keepingLimit
        /// Work that nobody waits for: the end of another store's clearing, and a comparison of files and index.
        case leftovers, sweep

        var isAwaited: Bool { ![.leftovers, .sweep].contains(self) }
    }

    private var open: [UInt64: Kind] = [:]
    private(set) var latest: UInt64 = 0

    mutating func begin(_ kind: Kind) -> UInt64 {
        latest += 1
        open[latest] = kind
        return latest
    }

    mutating func end(_ number: UInt64) { open[number] = nil }

    func has(_ kinds: [Kind]) -> Bool { open.values.contains { kinds.contains($0) } }

    func isWaiting(upTo number: UInt64, forAll: Bool) -> Bool {
        open.contains { $0 <= number && (forAll || $1.isAwaited) }
    }
}

extension DiskTier {
    func hasJob(_ kinds: DiskJobs.Kind...) -> Bool { state.withLock { $0.jobs.has(kinds) } }

    func start(_ job: some DiskJob, _ kind: DiskJobs.Kind = .asked) {
        carryOn(job, state.withLock { $0.jobs.begin(kind) })
    }

    private func carryOn(_ job: some DiskJob, _ number: UInt64) {
        let isRunning = writer.run {
            var job = job
            let wasStalled = self.state.withLock { $0.isStalled }
            let goesOn = self.attempt { try job.step(self) }
            // What a job has met does not shorten the patience of writes.
            if goesOn == nil, !wasStalled { self.setStalled(false) }
            if goesOn == true {
                self.carryOn(job, number)
            } else {
                self.end(job, number)
            }
        }
        if !isRunning { end(job, number) }
    }

    private func end(_ job: some DiskJob, _ number: UInt64) {
        job.end(self)
        state.withLock { $0.jobs.end(number) }
    }

    /// Returns when the changes and jobs so far have been carried out, except those that nobody waits for.
    func synchronize() async { await finish(forAll: false) }

    func reconcile() async { await finish(forAll: true) }

    private func finish(forAll: Bool) async {
        // Work of the writer may stage changes, which may begin jobs.
        guard let change = await askWriter({ $0.staged.latest }) else { return }
        while await askWriter({ $0.staged.isWaiting(upTo: change) }) == true {}
        guard let job = await askWriter({ $0.jobs.latest }) else { return }
        while await askWriter({ $0.jobs.isWaiting(upTo: job, forAll: forAll) }) == true {}
    }

    /// Returns when the index is open, or when another process has held it for a minute.
    func indexOpened() async {
        for _ in 0..<Self.mostAttempts where opened.isIndexHeld { _ = await askWriter { _ in true } }
    }

    /// Asks between two pieces of the writer's work, when none is half done; `nil` if the writer is ending.
    private func askWriter<Answer: Sendable>(_ ask: @escaping @Sendable (State) -> Answer) async -> Answer? {
        await fromThread { answer in
            if !writer.run({ answer(self.state.withLock { ask($0) }) }) { answer(nil) }
        }
    }
}
