import Foundation

/// The beginnings of bodies that jobs keep while they wait.
extension FetchEngine {
    /// The job is about to wait. What has come of its body stays in memory if there is room for it; else the next attempt
    /// reads it from disk, if it is there, or begins anew.
    func park(_ job: FetchJob) {
        let held = job.held.exchange(0, ordering: .relaxed)
        let (notice, dropped) = job.withState { state -> (ByteBudget.Notice?, (PartialBody?, JoinedBody?)) in
            // A copy for those who look at the bytes; the next transfer has one of its own.
            let joined = exchange(&state.joined, with: nil)
            let count = state.parked > 0 ? 0 : state.partial?.bytes.count ?? 0
            let (fits, notice) = bodies.park(count, insteadOf: held)
            if fits {
                state.parked += count
                return (notice, (nil, joined))
            }
            state.isLeftOnDisk = state.hasPartialOnDisk
            state.longestDropped = max(state.longestDropped, count)
            return (notice, (exchange(&state.partial, with: nil), joined))
        }
        withExtendedLifetime(dropped) {}
        if let notice { apply { $0.budgetChanged(notice, into: &$1) } }
    }

    /// The job goes on with what it has kept.
    func unpark(_ job: FetchJob) {
        let bytes = job.withState { exchange(&$0.parked, with: 0) }
        job.held.wrappingAdd(bytes, ordering: .relaxed)
        bodies.unpark(bytes)
    }

    /// A call has ended. If it was the last that waited for the job, what the job has kept goes.
    func dropParked(_ job: FetchJob) {
        guard job.withState({ $0.parked > 0 }),
            inspect({ $0.job(for: job.key).flatMap($0.work) }) !== job
        else { return }
        let (bytes, dropped) = job.withState { (exchange(&$0.parked, with: 0), exchange(&$0.partial, with: nil)) }
        withExtendedLifetime(dropped) {}
        bodies.unpark(bytes)
        if let notice = bodies.take(-bytes) { apply { $0.budgetChanged(notice, into: &$1) } }
    }

    /// Reads what ``park(_:)`` has left to the disk, on a reader's thread.
    /// - Returns: false, and nothing follows, if there is nothing to read.
    func readPartial(of job: FetchJob, then goOn: @escaping @Sendable () -> Void) -> Bool {
        let place = job.withState { state -> LookUpQueue.Place? in
            let isWanted = exchange(&state.isLeftOnDisk, with: false) && state.partial == nil
            return isWanted ? .init(state.queue, state.lead.request.priority) : nil
        }
        guard let place else { return false }
        return store.readPartial(of: job.key, place) { partial in
            if let partial {
                let isKept = job.withState { state in
                    guard !state.isAborted, state.partial == nil else { return false }
                    state.partial = partial
                    return true
                }
                if isKept { self.hold(partial.bytes.count, for: job) }
            }
            goOn()
        }
    }
}
