import Foundation
import Synchronization

/// Long work on the disk, done in small steps by the writer's thread, which carries out other changes in between.
/// A value.
protocol DiskJob: Sendable {
    /// Does a little. False once nothing is left to do.
    mutating func step(_ tier: DiskTier) throws -> Bool
}

/// The jobs that have not ended. A value; its owner locks it.
struct DiskJobs {
    /// Whether those who wait for the disk wait for a job.
    enum Kind { case asked, background, opening }

    private var open: [(number: UInt64, kind: Kind)] = []
    private var next: UInt64 = 0
    /// A job that makes room under the limit is under way.
    var isKeepingLimit = false
    /// A sweep is under way.
    var isSweeping = false

    mutating func begin(_ kind: Kind) -> UInt64 {
        next += 1
        open.append((next, kind))
        return next
    }

    mutating func end(_ number: UInt64) { open.removeAll { $0.number == number } }

    /// The number of the latest job.
    var latest: UInt64 { next }

    func isOpen(upTo number: UInt64, _ kind: Kind?) -> Bool {
        open.contains { $0.number <= number && (kind == nil || $0.kind == kind) }
    }
}

extension DiskTier {
    /// Another process that holds the index for longer than so many attempts, of two seconds each, is not waited for.
    private static let mostAttempts = 30

    /// Runs a job to its end. `whenDone` is called with it, also if it failed or was not run, from the writer's thread if
    /// there is one.
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

    /// The job after its next step, and the number of attempts so far at the one after that; `nil` if it has ended.
    private func step<Work: DiskJob>(_ job: Work, attempts: Int) -> (Work, Int?) {
        var job = job
        if opened.isIndexHeld, attempts < Self.mostAttempts {
            reopen()
            if opened.isIndexHeld { return (job, attempts + 1) }
        }
        do {
            return try job.step(self) ? (job, 0) : (job, nil)
        } catch {
            if IndexFailure(error) == .busy, attempts < Self.mostAttempts { return (job, attempts + 1) }
            indexFailed(error)
            return (job, nil)
        }
    }

    /// Returns when all changes asked for so far have been carried out.
    func synchronize() async { await jobsEnd(.asked) }

    /// Returns when all changes asked for so far have been carried out, and files and index have been compared if that
    /// is due, as after a power cut.
    func reconcile() async { await jobsEnd(nil) }

    func jobsEnd(_ kind: DiskJobs.Kind?) async {
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            // What was asked for before is in the queue before this.
            let isRunning = writer.run { self.resume(continuation, upTo: self.jobs.withLock { $0.latest }, kind) }
            if !isRunning { continuation.resume() }
        }
    }

    private func resume(_ continuation: CheckedContinuation<Void, Never>, upTo number: UInt64, _ kind: DiskJobs.Kind?) {
        guard jobs.withLock({ $0.isOpen(upTo: number, kind) }) else { return continuation.resume() }
        let isRunning = writer.run { self.resume(continuation, upTo: number, kind) }
        if !isRunning { continuation.resume() }
    }
}
