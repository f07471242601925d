import Foundation
import Synchronization

protocol DiskJob: Sendable {
    mutating func step(_ tier: DiskTier) throws -> Bool
}

struct DiskJobs {
    /// ``DiskTier/synchronize()`` waits for `asked` jobs, ``DiskTier/indexOpened()`` for `opening` jobs, and
    /// ``DiskTier/reconcile()`` for all jobs.
    enum Kind { case asked, background, opening }

    private var open: [(number: UInt64, kind: Kind)] = []
    private var next: UInt64 = 0
    var isKeepingLimit = false
    var isClearing = false

    mutating func begin(_ kind: Kind) -> UInt64 {
        next += 1
        open.append((next, kind))
        return next
    }

    mutating func end(_ number: UInt64) { open.removeAll { $0.number == number } }

    var latest: UInt64 { next }

    func isOpen(upTo number: UInt64, _ kind: Kind?) -> Bool {
        open.contains { $0.number <= number && (kind == nil || $0.kind == kind) }
    }
}

extension DiskTier {
    /// Attempts of two seconds each to wait for another process that holds the index.
    private static let mostAttempts = 30

    /// Runs a job to its end, then calls `whenDone` with it, even if the job failed or did not run: on the writer
    /// thread, or on the present thread if the writer thread is ending.
    func start<Work: DiskJob>(
        _ job: Work, _ kind: DiskJobs.Kind = .asked, whenDone: @escaping @Sendable (Work) -> Void = { _ in }
    ) {
        let number = jobs.withLock { $0.begin(kind) }
        carryOn(job, number, attempts: 0, whenDone)
    }

    private func carryOn<Work: DiskJob>(
        _ job: Work, _ number: UInt64, attempts: Int, _ whenDone: @escaping @Sendable (Work) -> Void
    ) {
        let isRunning = writer.run {
            let (job, attempts) = self.step(job, attempts: attempts)
            if let attempts { return self.carryOn(job, number, attempts: attempts, whenDone) }
            whenDone(job)
            self.jobs.withLock { $0.end(number) }
        }
        if isRunning { return }
        whenDone(job)
        jobs.withLock { $0.end(number) }
    }

    /// Returns the job and the attempts that its next step has made so far; no number if the job has ended.
    private func step<Work: DiskJob>(_ job: Work, attempts: Int) -> (Work, Int?) {
        var job = job
        if opened.isIndexHeld, attempts < Self.mostAttempts {
            reopen()
            if opened.isIndexHeld { return (job, attempts + 1) }
        }
        let begun = ContinuousClock.now
        do {
            return try job.step(self) ? (job, 0) : (job, nil)
        } catch {
            if IndexFailure(error) == .busy, attempts < Self.mostAttempts {
                // Reads wait for less.
                Thread.sleep(forTimeInterval: max(0, 2 - (.now - begun) / .seconds(1)))
                return (job, attempts + 1)
            }
            indexFailed(error)
            return (job, nil)
        }
    }

    /// Returns when all changes asked for so far have been carried out.
    func synchronize() async { await jobsEnd(.asked) }

    /// Also compares files and index if that is due, as after a power cut.
    func reconcile() async { await jobsEnd(nil) }

    func jobsEnd(_ kind: DiskJobs.Kind?) async {
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            // Work that was asked for earlier, ahead of this closure, may have staged changes, which may begin jobs.
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
