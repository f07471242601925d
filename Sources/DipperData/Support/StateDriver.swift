import Synchronization

// The order of locks. A thread that holds a lock takes only those that stand further to the right on its line, and each
// lock that is not listed is taken alone.
//
//     FetchEngine's driver > FetchJob.state
//     FetchEngine's driver > DataTask.link
//     FetchEngine's driver > a job's last release: StoreHistory.claims
//     DiskTier.staged > WorkerPool's condition
//     ImageTask.link > TaskFeed.log
//     MemoryShard.state > ObjectCache's driver
//
// TaskFeed.log and AnimatedImage.player are held while an `AsyncStream` takes an element, a job's state while the
// clock is read, and EntryIndex's gate while SQLite reads.

/// The driver of a state machine. It holds the machine in a lock, applies events under the lock, and has the actions
/// that follow performed after releasing it: in the order in which they were decided, and on one thread at a time.
///
/// ```swift
/// let driver = StateDriver<Door, Door.Action>(Door())
/// driver.apply(for: self) { door, actions in door.knocked(into: &actions) }
/// ```
///
/// The machine is a value that decides and does nothing else. The thread whose event brings the first action performs
/// it, and with it the actions of events that other threads, or the actions themselves, apply meanwhile. Those threads
/// do not wait for their actions. Such a thread may be a caller's that has work of its own, so it performs a limited
/// number of actions, its turn, and hands the rest over to wherever its ``ActionPerformer`` decides. The driver has no
/// thread.
///
/// Actions are released where no lock is held. An event must not release anything under the lock: it returns what it
/// drops. The driver keeps its performer only while actions are being performed.
package final class StateDriver<Machine: Sendable, Action: Sendable>: Sendable {
    private struct State: Sendable {
        var machine: Machine
        /// The actions that have been decided and not yet taken by the performing thread.
        var outbox: [Action] = []
        var isPerforming = false
        /// The callers that wait until every action has been performed and the machine meets their condition.
        var waiting: [Waiting] = []

        /// Removes the callers whose wait is over now.
        mutating func removeMet() -> [Waiting] {
            guard !waiting.isEmpty, outbox.isEmpty, !isPerforming else { return [] }
            let met = waiting.filter { $0.isMet(machine) }
            waiting.removeAll { $0.isMet(machine) }
            return met
        }
    }

    private struct Waiting: Sendable {
        let isMet: @Sendable (borrowing Machine) -> Bool
        let continuation: CheckedContinuation<Void, Never>
    }

    private let state: Mutex<State>
    private let turn: Int

    /// Creates a driver.
    /// - Parameter turn: the number of actions that one thread performs before it hands over.
    package init(_ machine: Machine, turn: Int = 128) {
        state = Mutex(State(machine: machine))
        self.turn = max(1, turn)
    }

    /// Applies an event, and has the actions that follow performed by this thread, unless another thread is performing
    /// actions: then that thread performs these as well.
    /// - Parameter event: changes the machine, and appends actions. Runs under the lock.
    @inline(__always)
    @discardableResult
    package func apply<Result: Sendable>(
        for performer: some ActionPerformer<Action>, _ event: (inout Machine, inout [Action]) -> Result
    ) -> Result {
        let (result, isElected, met) = state.withLock { state -> (Result, Bool, [Waiting]) in
            let result = event(&state.machine, &state.outbox)
            let met = state.removeMet()
            let isElected = !state.isPerforming && !state.outbox.isEmpty
            if isElected { state.isPerforming = true }
            return (result, isElected, met)
        }
        if isElected { takeTurn([], from: 0, for: performer) }
        resume(met)
        return result
    }

    /// Runs a closure under the lock, to read the machine or to change it without any action.
    @inline(__always)
    package func withLock<Result: Sendable>(_ body: (inout Machine) -> Result) -> Result {
        state.withLock { state -> Result in body(&state.machine) }
    }

    /// Returns when all actions that have been decided are performed, and the machine meets a condition.
    package func finish(when isMet: @escaping @Sendable (borrowing Machine) -> Bool = { _ in true }) async {
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            let met = state.withLock { state -> [Waiting] in
                state.waiting.append(Waiting(isMet: isMet, continuation: continuation))
                return state.removeMet()
            }
            resume(met)
        }
    }

    private func resume(_ met: [Waiting]) {
        if !met.isEmpty { Afterwards.run { for waiting in met { waiting.continuation.resume() } } }
    }

    // MARK: Turns

    /// Performs actions as the thread that has been elected.
    /// - Parameters:
    ///   - left: the actions that an earlier turn has left.
    ///   - start: the place in `left` of the first action that has not been performed.
    private func takeTurn(_ left: [Action], from start: Int, for performer: some ActionPerformer<Action>) {
        performer.takeTurn { performActions(left, from: start, by: performer) }
    }

    private func performActions(_ left: [Action], from start: Int, by performer: some ActionPerformer<Action>) {
        var actions = left
        var next = start
        var remaining = turn
        while remaining > 0 {
            if next == actions.count {
                actions.removeAll(keepingCapacity: true)
                next = 0
                let met = state.withLock { state -> [Waiting]? in
                    if state.outbox.isEmpty {
                        state.isPerforming = false
                        return state.removeMet()
                    }
                    swap(&state.outbox, &actions)
                    return nil
                }
                if let met { return resume(met) }
            }
            performer.perform(actions[next])
            next += 1
            remaining -= 1
        }
        performer.handOver { [actions, next] in self.takeTurn(actions, from: next, for: performer) }
    }
}
