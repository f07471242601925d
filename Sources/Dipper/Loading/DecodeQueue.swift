import Foundation
import Synchronization

/// Threads that decode and process, urgent work first. One thread at least is left to urgent work, if there are several.
///
/// The pieces of work that run at a time take no more than a number of bytes together: further ones wait, in their order.
/// One always runs, so that a picture larger than that is made alone.
final class DecodeQueue: Sendable {
    typealias Place = WorkOrder<Int>.Place
    typealias Rank = WorkOrder<Int>.Rank

    private struct Work {
        let run: @Sendable () -> Void
        /// Bytes that it takes; asked on a thread of the queue's.
        let measure: (@Sendable () -> Int)?
        var cost: Int?
        /// The number of the last move that counts.
        var change = 0
    }

    private struct Taken {
        let run: @Sendable () -> Void
        let isLeisurely: Bool
        let cost: Int
    }

    // Every access is made while holding `condition`.
    private final class State: @unchecked Sendable {
        let condition = NSCondition()
        var order = WorkOrder<Int>()
        var work: [Int: Work] = [:]
        var nextID = 0
        var leisurely = 0
        let mostLeisurely: Int
        /// In bytes: the most, and what is being made now.
        let budget: Int
        var used = 0
        var running = 0
        var isEnding = false

        init(threads: Int, budget: Int) {
            mostLeisurely = max(1, threads - 1)
            self.budget = max(0, budget)
        }

        /// Waits for work; `nil` when there will be none.
        func take() -> Taken? {
            condition.lock()
            defer { condition.unlock() }
            while true {
                let next = order.first(upTo: leisurely < mostLeisurely ? .background : .urgent)
                if let (id, rank) = next, let found = work[id] {
                    if found.cost == nil, let measure = found.measure {
                        // Others may measure it too, and come to the same.
                        condition.unlock()
                        let cost = measure()
                        condition.lock()
                        work[id]?.cost = min(max(0, cost), budget)
                        continue
                    }
                    let cost = found.cost ?? 0
                    if running == 0 || cost <= budget - used {
                        order.remove(id)
                        work[id] = nil
                        let isLeisurely = rank != .urgent
                        if isLeisurely { leisurely += 1 }
                        if cost > 0 { running += 1 }
                        used += cost
                        return Taken(run: found.run, isLeisurely: isLeisurely, cost: cost)
                    }
                } else if isEnding, order.count == 0 {
                    return nil
                }
                condition.wait()
            }
        }

        func done(_ taken: Taken) {
            guard taken.isLeisurely || taken.cost > 0 else { return }
            condition.lock()
            if taken.isLeisurely { leisurely -= 1 }
            if taken.cost > 0 { running -= 1 }
            used -= taken.cost
            condition.unlock()
            condition.broadcast()
        }
    }

    private let state: State
    private let threads: [JoinableThread]

    /// - Parameter budget: the most that is made at a time, in bytes.
    init(name: String, threads count: Int, budget: Int = .max) {
        let count = max(1, count)
        let state = State(threads: count, budget: budget)
        self.state = state
        threads = (0..<count).map { _ in
            JoinableThread(name: JoinableThread.name(name, "decode")) {
                while let taken = state.take() {
                    taken.run()
                    state.done(taken)
                }
            }
        }
    }

    /// Gives work to the queue.
    /// - Parameter cost: bytes that the work takes, asked before it is its turn; `nil` for none.
    /// - Returns: a number for the work; `nil`, and it is dropped, once the queue is ending.
    @discardableResult
    func add(_ place: Place, cost: (@Sendable () -> Int)? = nil, _ work: @escaping @Sendable () -> Void) -> Int? {
        state.condition.lock()
        defer { state.condition.unlock() }
        guard !state.isEnding else { return nil }
        state.nextID += 1
        state.work[state.nextID] = Work(run: work, measure: cost)
        state.order.insert(state.nextID, place)
        state.condition.broadcast()
        return state.nextID
    }

    /// Puts work that waits in another place.
    /// - Parameter change: moves of a work with a lower number that come later are passed over.
    func move(_ id: Int, to place: Place, change: Int) {
        state.condition.lock()
        if let present = state.work[id]?.change, present < change {
            state.work[id]?.change = change
            state.order.move(id, to: place)
        }
        state.condition.unlock()
        state.condition.broadcast()
    }

    /// Takes work back; without effect if it has begun.
    func remove(_ id: Int) {
        state.condition.lock()
        state.order.remove(id)
        let dropped = state.work.removeValue(forKey: id)
        state.condition.unlock()
        // What waited behind it may fit.
        state.condition.broadcast()
        _ = consume dropped
    }

    /// Finishes what was given, and returns when the threads have ended. To be called once.
    func shutdown() async {
        end()
        for thread in threads { await thread.join() }
    }

    /// Ends the threads when what was given is finished, without waiting for them.
    func end() {
        state.condition.lock()
        state.isEnding = true
        state.condition.unlock()
        state.condition.broadcast()
    }
}
