import Foundation
import Synchronization

/// Work of the writer thread in steps, between which other work has its turn.
protocol DiskJob: Sendable {
    /// Returns whether there is more to do.
    mutating func step(_ tier: DiskTier) throws -> Bool

    /// Called once, even if a step failed or none ran: on the writer thread, or on the caller's if that one is ending.
    func end(_ tier: DiskTier)
}

struct DiskJobs {
    enum Kind { case asked, background, opening }

    private var open: [(number: UInt64, kind: Kind)] = []
    private(set) var latest: UInt64 = 0
    var isKeepingLimit = false
    var isClearing = false

    mutating func begin(_ kind: Kind) -> UInt64 {
        latest += 1
        open.append((latest, kind))
        return latest
    }

    mutating func end(_ number: UInt64) { open.removeAll { $0.number == number } }

    func isOpen(upTo number: UInt64, _ kind: Kind?) -> Bool {
        open.contains { $0.number <= number && (kind == nil || $0.kind == kind) }
    }
}

extension DiskTier {
    /// Attempts of two seconds each, while another process holds the index.
    private static let mostAttempts = 30

    func start(_ job: some DiskJob, _ kind: DiskJobs.Kind = .asked) {
        carryOn(job, jobs.withLock { $0.begin(kind) }, attempts: 0)
    }

    private func carryOn(_ job: some DiskJob, _ number: UInt64, attempts: Int) {
        let isRunning = writer.run {
            var job = job
            if let attempts = self.step(&job, attempts: attempts) {
                self.carryOn(job, number, attempts: attempts)
            } else {
                self.end(job, number)
            }
        }
        if !isRunning { end(job, number) }
    }

    private func end(_ job: some DiskJob, _ number: UInt64) {
        job.end(self)
        jobs.withLock { $0.end(number) }
    }

    /// Returns the failed attempts at the next step; `nil` if the job has ended.
    private func step(_ job: inout some DiskJob, attempts: Int) -> Int? {
        if opened.isIndexHeld, attempts < Self.mostAttempts {
            reopen()
            if opened.isIndexHeld { return attempts + 1 }
        }
        let begun = ContinuousClock.now
        do {
            return try job.step(self) ? 0 : nil
        } catch {
            if IndexFailure(error) == .busy, attempts < Self.mostAttempts {
                Thread.sleep(forTimeInterval: max(0, 2 - (.now - begun) / .seconds(1)))
                return attempts + 1
            }
            indexFailed(error)
            return nil
        }
    }

    func synchronize() async { await jobsEnd(.asked) }

    /// Also waits for a comparison of files and index, if one is due.
    func reconcile() async { await jobsEnd(nil) }

    func jobsEnd(_ kind: DiskJobs.Kind?) async {
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            // Work ahead of this closure may stage changes, which may begin jobs.
            let isRunning = writer.run {
                let change = self.staged.withLock { $0.area.latest }
                self.wait(while: { self.staged.withLock { $0.area.isWaiting(upTo: change) } }) {
                    let job = self.jobs.withLock { $0.latest }
                    self.wait(while: { self.jobs.withLock { $0.isOpen(upTo: job, kind) } }) { continuation.resume() }
                }
            }
            if !isRunning { continuation.resume() }
        }
    }

    private func wait(while condition: @escaping @Sendable () -> Bool, then goOn: @escaping @Sendable () -> Void) {
        guard condition(), writer.run({ self.wait(while: condition, then: goOn) }) else { return goOn() }
    }
}
