import Foundation
import Synchronization

// The order of locks. A thread that holds a lock takes only those that stand further to the right on its line, and each
// lock that is not listed is taken alone.
//
//     DiskTier.staged > Workers' condition
//     ImageTask.link > TaskFeed.log
//     MemoryShard.state > ObjectCache's driver
//
// TaskFeed.log and AnimatedImage.player are held while an `AsyncStream` takes an element, and
// EntryIndex's gate while SQLite reads.

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

/// The interface through which a ``StateDriver`` has actions performed: the owner of the driver, or a value that holds
/// the owner.
package protocol ActionPerformer<Action>: Sendable {
    associatedtype Action: Sendable

    /// Performs one action. No lock is held. The action may apply another event to the same driver: the actions that
    /// follow from that event are performed after those that have been decided already.
    func perform(_ action: Action)

    /// Runs a turn, in which actions are performed, on the calling thread. Performers that have work to do before or
    /// after a turn implement this method.
    func takeTurn(_ turn: () -> Void)

    /// Runs the rest, soon and once, where the actions left over from a full turn are to be performed: on a thread of
    /// the owner's, or on the queue that the actions belong to. Must not drop the rest.
    func handOver(_ rest: @escaping @Sendable () -> Void)
}

extension ActionPerformer {
    package func takeTurn(_ turn: () -> Void) { turn() }
}

/// Code of the program's own, such as hooks, that a thread runs once it has stopped carrying out actions. Such code may
/// take long, and may wait for what the thread would carry out next.
///
/// A thread may carry out actions of several engines, one inside the other. It runs the code after all of them.
// Only the thread that carries out the actions uses it.
package final class Afterwards: @unchecked Sendable {
    package typealias Step = @Sendable () -> Void

    var steps: [Step] = []
    /// Calls that wake others and return at once, with the queue on which they run, if there is one. Made together, they
    /// wake a thread that waits only once.
    private var wakes: [(queue: DispatchQueue?, step: Step)] = []

    var isEmpty: Bool { steps.isEmpty && wakes.isEmpty }

    /// Wakes those that are to be woken: by one block for all steps in a row that are for the same queue.
    func wake() {
        if wakes.isEmpty { return }
        var rest = exchange(&wakes, with: [])[...]
        while let (queue, step) = rest.popFirst() {
            guard let queue else {
                step()
                continue
            }
            let same = rest.prefix { $0.queue === queue }
            rest = rest.dropFirst(same.count)
            queue.async {
                step()
                for (_, step) in same { step() }
            }
        }
    }

    // MARK: This thread

    /// The list of each thread; `nil` on a thread that carries out no actions.
    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key, nil)
        return key
    }()

    private static var present: Afterwards? {
        pthread_getspecific(key).map { Unmanaged.fromOpaque($0).takeUnretainedValue() }
    }

    /// Begins to carry out actions.
    /// - Parameter list: takes what is to be done afterwards. The caller keeps it until ``end()``.
    static func begin(_ list: Afterwards) { pthread_setspecific(key, Unmanaged.passUnretained(list).toOpaque()) }

    static func end() { pthread_setspecific(key, nil) }

    /// Runs a step when this thread has stopped carrying out actions; at once if it carries out none.
    package static func run(_ step: @escaping Step) {
        if let present { present.steps.append(step) } else { step() }
    }

    /// Wakes others when this thread has stopped carrying out actions; at once if it carries out none.
    /// - Parameter queue: the queue on which the step runs; `nil` for a step that returns at once.
    static func wake(on queue: DispatchQueue? = nil, _ step: @escaping Step) {
        if let present {
            present.wakes.append((queue, step))
        } else if let queue {
            queue.async(execute: step)
        } else {
            step()
        }
    }

    /// Runs a closure that carries out actions.
    /// - Returns: the steps that the caller runs next. If this thread carries out other actions around these, there are
    ///   none: the steps wait for the end of the others.
    static func steps(after body: () -> Void) -> [Step] {
        if present != nil {
            body()
            return []
        }
        let list = Afterwards()
        begin(list)
        body()
        end()
        list.wake()
        return list.steps
    }
}
