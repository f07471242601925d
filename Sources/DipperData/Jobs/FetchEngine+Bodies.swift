/// The budget for bodies in memory, and the partial bodies that jobs keep while they are parked.
extension FetchEngine {
    /// The budget for bodies in memory, as it is now.
    var bodies: BodyBudget { driver.withLock { $0.bodies } }

    /// Changes the budget.
    private func account<Result: Sendable>(_ change: (inout BodyBudget) -> Result) -> Result {
        driver.apply(for: self) { machine, actions in machine.account(into: &actions, change) }
    }

    /// Changes the budget together with a job's state.
    private func account<Result: Sendable>(
        for job: FetchJob, _ change: (inout FetchJob.State, inout BodyBudget) -> Result
    ) -> Result {
        account { bodies in job.withState { change(&$0, &bodies) } }
    }

    /// Counts the bytes that a job's transfer holds, and those that an earlier one has left for it.
    func hold(_ bytes: Int, for job: FetchJob) {
        let change = bytes - job.held.exchange(bytes, ordering: .relaxed)
        if change != 0 { account { $0.take(change) } }
    }

    /// Counts the bytes of a transfer that has ended as given back, unless the job holds bytes for its next transfer by
    /// now.
    /// - Parameter number: the job's number of transfers when the transfer had ended.
    func giveBack(after number: Int, of job: FetchJob) {
        account(for: job) { state, bodies in
            if state.transferNumber == number { bodies.take(-job.held.exchange(0, ordering: .relaxed)) }
        }
    }

    /// Gives back the bytes of a job that is being released. The job's last owner may hold locks, so the bytes are
    /// counted later on the engine's thread.
    func ended(held: Int, parked: Int) {
        guard held != 0 || parked != 0 else { return }
        handOver { [weak self] in self?.account { $0.end(held: held, parked: parked) } }
    }

    // MARK: Parking

    /// Prepares a job for being parked. Its partial body stays in memory if there is room for it. Otherwise the next
    /// attempt reads the partial body from disk, if it is there, or begins anew.
    func park(_ job: FetchJob) {
        let dropped = account(for: job) { state, bodies in
            state.findings.park(insteadOf: job.held.exchange(0, ordering: .relaxed), in: &bodies)
        }
        withExtendedLifetime(dropped) {}
    }

    /// Begins the turn of a job that has been queued or parked. The bytes that it has kept count as its transfer's.
    /// - Returns: the state of the job in its turn.
    func unpark(_ job: FetchJob, in queue: FetchQueue, isThrottled: Bool) -> FetchJob.State {
        let claim = store.history.claim(job.key)
        let (dropped, state) = account(for: job) { [history = store.history] state, bodies in
            let (unparked, dropped) = state.takeTurn(in: queue, isThrottled: isThrottled, claim, history)
            job.held.wrappingAdd(unparked, ordering: .relaxed)
            bodies.unpark(unparked)
            return (dropped, state)
        }
        withExtendedLifetime(dropped) {}
        return state
    }

    /// Drops the bytes that a parked job has kept if the call that has ended was the last one that waited for it.
    func dropParked(_ job: FetchJob) {
        guard id(of: job) == nil else { return }
        let dropped = account(for: job) { state, bodies in
            bodies.end(held: 0, parked: state.findings.unpark())
            return state.findings.dropPartial()
        }
        withExtendedLifetime(dropped) {}
    }

    /// Reads the partial body that ``park(_:)`` has left to the disk, on a reader's thread.
    /// - Parameter goOn: called afterwards, if a task still waits for the job.
    /// - Returns: false, and `goOn` is not called, if there is nothing to read.
    func readPartial(of job: FetchJob, then goOn: @escaping @Sendable () -> Void) -> Bool {
        guard let place = job.snapshot.leftover else { return false }
        return store.readPartial(of: job.key, place) { partial in
            // The entry may have been removed meanwhile.
            let claim = self.store.history.claim(job.key)
            let taken = self.account(for: job) { [history = self.store.history] state, bodies in
                let taken = state.readBack(partial, claim, history)
                if taken?.isKept == true, let count = partial?.bytes.count {
                    bodies.take(count - job.held.exchange(count, ordering: .relaxed))
                }
                return taken
            }
            if taken != nil { goOn() }
        }
    }
}
