import Foundation
import Synchronization

/// A queue with threads that make objects, urgent work first.
///
/// At most N − 1 of N threads run work that is not urgent (one if N is 1), so that urgent work finds a free thread. The
/// work that runs at the same time takes no more than a number of bytes; further work waits, in its order. One piece of
/// work may always run, so that an object larger than the budget is made alone.
package final class MakingQueue: Sendable {
    package typealias Place = WorkOrder<Int>.Place
    package typealias Rank = WorkOrder<Int>.Rank

    private struct Work {
        let run: @Sendable () -> Void
        /// Measures the bytes that the work takes. Called on a thread of the queue.
        let measure: (@Sendable () -> Int)?
        var cost: Int?
    }

    private struct Taken {
        let work: Work
        let isLeisurely: Bool
        let cost: Int
    }

    /// The next step of a thread.
    private enum Step {
        case run(Taken)
        case measure(Int, @Sendable () -> Int)
    }

    // Every access is made while holding `condition`.
    private final class State: @unchecked Sendable {
        let condition = NSCondition()
        var order = WorkOrder<Int>()
        var work: [Int: Work] = [:]
        var nextID = 0
        var leisurely = 0
        let mostLeisurely: Int
        /// The most bytes that running work may take. `used` is what it takes now.
        let budget: Int
        var used = 0
        var running = 0
        var isEnding = false

        init(threads: Int, budget: Int) {
            mostLeisurely = max(1, threads - 1)
            self.budget = max(0, budget)
        }

        /// Waits for work and takes it from the queue. Returns `nil` when the queue has ended.
        func take() -> Taken? {
            while let step = next() {
                switch step {
                case .run(let taken): return taken
                case .measure(let id, let measure):
                    // Another thread may measure the same work meanwhile, with the same result.
                    let cost = measure()
                    condition.lock()
                    work[id]?.cost = min(max(0, cost), budget)
                    condition.unlock()
                }
            }
            return nil
        }

        /// Waits for a step of the calling thread. Returns `nil` when the queue has ended.
        private func next() -> Step? {
            condition.lock()
            defer { condition.unlock() }
            while true {
                let next = order.first(upTo: leisurely < mostLeisurely ? .background : .urgent)
                if let (id, rank) = next, let found = work[id] {
                    if found.cost == nil, let measure = found.measure { return .measure(id, measure) }
                    let cost = found.cost ?? 0
                    if running == 0 || cost <= budget - used {
                        order.remove(id)
                        work[id] = nil
                        let isLeisurely = rank != .urgent
                        if isLeisurely { leisurely += 1 }
                        if cost > 0 { running += 1 }
                        used += cost
                        return .run(Taken(work: found, isLeisurely: isLeisurely, cost: cost))
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

    /// Creates a queue and starts its threads.
    /// - Parameter budget: the most bytes that running work may take.
    package init(name: String, threads count: Int, budget: Int = .max) {
        let count = max(1, count)
        let state = State(threads: count, budget: budget)
        self.state = state
        threads = (0..<count).map { _ in
            JoinableThread(name: name) {
                while let taken = state.take() {
                    taken.work.run()
                    state.done(taken)
                }
            }
        }
    }

    /// Ends the threads, which do not keep the queue.
    deinit { end() }

    /// The number of pieces of work that wait.
    package var count: Int {
        state.condition.lock()
        defer { state.condition.unlock() }
        return state.order.count
    }

    /// Adds work to the queue.
    /// - Parameter cost: measures the bytes that the work takes, before the work begins; `nil` for none.
    /// - Returns: a number for the work; `nil` if the queue is ending and the work is dropped.
    @discardableResult
    package func add(_ place: Place, cost: (@Sendable () -> Int)? = nil, _ work: @escaping @Sendable () -> Void) -> Int?
    {
        state.condition.lock()
        defer { state.condition.unlock() }
        guard !state.isEnding else { return nil }
        state.nextID += 1
        state.work[state.nextID] = Work(run: work, measure: cost)
        state.order.insert(state.nextID, place)
        state.condition.signal()
        return state.nextID
    }

    /// Moves waiting work to another place.
    package func move(_ id: Int, to place: Place) {
        state.condition.lock()
        state.order.move(id, to: place)
        state.condition.unlock()
        state.condition.broadcast()
    }

    /// Removes work from the queue. Has no effect if the work has begun.
    package func remove(_ id: Int) {
        state.condition.lock()
        state.order.remove(id)
        let dropped = state.work.removeValue(forKey: id)
        state.condition.unlock()
        // Work that waited behind the removed work may fit into the budget.
        state.condition.broadcast()
        _ = consume dropped
    }

    /// Finishes the work in the queue and returns when the threads have ended. Must be called once.
    package func shutdown() async {
        end()
        for thread in threads { await thread.join() }
    }

    /// Makes the threads end when the work in the queue is finished, without waiting for them.
    package func end() {
        state.condition.lock()
        state.isEnding = true
        state.condition.unlock()
        state.condition.broadcast()
    }
}
