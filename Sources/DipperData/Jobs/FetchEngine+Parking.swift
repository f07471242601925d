import Foundation

/// The partial bodies that jobs keep while they are parked.
extension FetchEngine {
    /// Prepares a job for being parked. Its partial body stays in memory if there is room for it. Otherwise the next
    /// attempt reads the partial body from disk, if it is there, or begins anew.
    func park(_ job: FetchJob) {
        let held = job.held.exchange(0, ordering: .relaxed)
        let (notice, dropped) = job.withState { state -> (ByteBudget.Notice?, (PartialBody?, JoinedBody?)) in
            // These bytes are a copy for tasks that look at them; the next transfer has a copy of its own.
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

    /// Counts the bytes that a parked job has kept as its next transfer's.
    func unpark(_ job: FetchJob) {
        let bytes = job.withState { state in
            // The thread of the last attempt may still be about to give back what that attempt held.
            state.transferNumber += 1
            job.held.wrappingAdd(state.parked, ordering: .relaxed)
            return exchange(&state.parked, with: 0)
        }
        bodies.unpark(bytes)
    }

    /// Drops the bytes that a parked job has kept if the call that has ended was the last one that waited for it.
    func dropParked(_ job: FetchJob) {
        guard job.withState({ $0.parked > 0 }),
            inspect({ $0.job(for: job.key).flatMap($0.work) }) !== job
        else { return }
        let (bytes, dropped) = job.withState { (exchange(&$0.parked, with: 0), exchange(&$0.partial, with: nil)) }
        withExtendedLifetime(dropped) {}
        bodies.unpark(bytes)
        if let notice = bodies.take(-bytes) { apply { $0.budgetChanged(notice, into: &$1) } }
    }

    /// Reads the partial body that ``park(_:)`` has left to the disk, on a reader's thread.
    /// - Returns: false, and `goOn` is not called, if there is nothing to read.
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
