import Foundation

/// Work of the writer thread in steps, between which other work has its turn.
protocol DiskJob: Sendable {
    /// Returns whether there is more to do. A step that another process keeps from the index is repeated.
    mutating func step(_ tier: DiskTier) throws -> Bool
    /// Called once, even if a step failed or none ran: on the writer thread, or on the caller's if that one is ending.
    func end(_ tier: DiskTier)
}

extension DiskTier {
    enum JobKind {
        case asked, clearing, keepingLimit, expiring
        /// The caller of ``verify()`` alone waits for it.
        case verification
        /// Work that nobody waits for: opening an index that another process holds, the end of another store's clearing,
        /// and a comparison of files and index.
        case opening, leftovers, sweep

        /// Whether ``synchronize()`` waits for the job. Others are cut short when the tier ends.
        var isAwaited: Bool { [.asked, .clearing, .keepingLimit, .expiring].contains(self) }

        /// How often a step is tried while another process holds the index.
        var mostAttempts: Int { isAwaited || self == .verification ? DiskTier.mostAttempts : .max }
    }

    func has(_ kinds: JobKind...) -> Bool { state.withLock { $0.jobs.values.contains { kinds.contains($0) } } }

    func start(_ job: some DiskJob, _ kind: JobKind = .asked) {
        let number = state.withLock { state in
            let number = state.staged.nextNumber()
            state.jobs[number] = kind
            return number
        }
        carryOn(job, kind, number)
    }

    /// - Parameter attempts: how often the next step has been tried.
    private func carryOn(_ job: some DiskJob, _ kind: JobKind, _ number: UInt64, attempts: Int = 0) {
        let isRunning = writer.run {
            var job = job
            let room: Room = kind == .clearing ? .bodies : .reserve
            do {
                if !self.isClosed || kind.isAwaited, try self.attemptOnce(room: room, { try job.step(self) }) {
                    return self.carryOn(job, kind, number)
                }
            } catch let error
                where IndexFailure(error) == .busy && self.mayRepeat(kind, attempts: attempts + 1)
            {
                // Others have their turn first, so that nobody waits for the patience of this job.
                return self.carryOn(job, kind, number, attempts: attempts + 1)
            } catch {
                self.indexFailed(error)
                if kind == .asked || kind == .clearing { self.state.withLock { $0.hasFailedRemoval = true } }
            }
            self.end(job, number)
        }
        if !isRunning { end(job, number) }
    }

    /// A job that somebody waits for loses no time with an index that has been held for long.
    private func mayRepeat(_ kind: JobKind, attempts: Int) -> Bool {
        state.withLock { attempts < kind.mostAttempts && $0.lastAttempts > 0 && !(kind.isAwaited && $0.isStalled) }
    }

    private func end(_ job: some DiskJob, _ number: UInt64) {
        job.end(self)
        state.withLock { $0.jobs[number] = nil }
    }

    /// Returns when the changes and jobs so far have been carried out, except those that nobody waits for.
    func synchronize() async { await finish(forAll: false) }

    func reconcile() async { await finish(forAll: true) }

    private func finish(forAll: Bool) async {
        // Changes may begin jobs.
        for _ in 0..<3 {
            guard let latest = await askWriter({ $0.staged.latest }) else { return }
            while await askWriter({ $0.isWaiting(upTo: latest, forAll: forAll) }) == true {}
        }
    }

    /// Returns when the index is open, or when another process has held it for a minute.
    func indexOpened() async {
        for _ in 0..<Self.mostAttempts where opened.isIndexHeld { _ = await askWriter { _ in true } }
    }

    /// Asks between two pieces of the writer's work, when none is half done; `nil` if the writer is ending.
    private func askWriter<Answer: Sendable>(_ ask: @escaping @Sendable (State) -> Answer?) async -> Answer? {
        await fromThread { answer in
            if !writer.run({ answer(self.state.withLock { ask($0) }) }) { answer(nil) }
        }
    }
}

extension DiskTier.State {
    fileprivate func isWaiting(upTo number: UInt64, forAll: Bool) -> Bool {
        staged.isWaiting(upTo: number) || jobs.contains { $0.key <= number && (forAll || $0.value.isAwaited) }
    }
}
