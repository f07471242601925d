import Foundation
import Synchronization

/// Threads that decode and process, urgent work first. One thread at least is left to urgent work, if there are several.
final class DecodeQueue: Sendable {
    typealias Place = WorkOrder<Int>.Place
    typealias Rank = WorkOrder<Int>.Rank

    // Every access is made while holding `condition`.
    private final class State: @unchecked Sendable {
        let condition = NSCondition()
        var order = WorkOrder<Int>()
        var work: [Int: @Sendable () -> Void] = [:]
        var nextID = 0
        var leisurely = 0
        let mostLeisurely: Int
        var isEnding = false

        init(threads: Int) {
            mostLeisurely = max(1, threads - 1)
        }

        /// Waits for work; `nil` when there will be none.
        func take() -> (work: @Sendable () -> Void, isLeisurely: Bool)? {
            condition.lock()
            defer { condition.unlock() }
            while true {
                if let (id, rank) = order.take(upTo: leisurely < mostLeisurely ? .background : .urgent),
                    let next = work.removeValue(forKey: id)
                {
                    if rank != .urgent { leisurely += 1 }
                    return (next, rank != .urgent)
                }
                if isEnding, order.count == 0 { return nil }
                condition.wait()
            }
        }

        func done(isLeisurely: Bool) {
            guard isLeisurely else { return }
            condition.lock()
            leisurely -= 1
            condition.unlock()
            condition.broadcast()
        }
    }

    private let state: State
    private let threads: [JoinableThread]

    init(name: String, threads count: Int) {
        let count = max(1, count)
        let state = State(threads: count)
        self.state = state
        threads = (0..<count).map { _ in
            JoinableThread(name: JoinableThread.name(name, "decode")) {
                while let (work, isLeisurely) = state.take() {
                    work()
                    state.done(isLeisurely: isLeisurely)
                }
            }
        }
    }

    /// A number for work to be done; `nil`, and it is dropped, once the queue is ending.
    @discardableResult
    func add(_ place: Place, _ work: @escaping @Sendable () -> Void) -> Int? {
        state.condition.lock()
        defer { state.condition.unlock() }
        guard !state.isEnding else { return nil }
        state.nextID += 1
        state.work[state.nextID] = work
        state.order.insert(state.nextID, place)
        state.condition.broadcast()
        return state.nextID
    }

    /// Puts work that waits in another place.
    func move(_ id: Int, to place: Place) {
        state.condition.lock()
        state.order.move(id, to: place)
        state.condition.unlock()
        state.condition.broadcast()
    }

    /// Takes work back; without effect if it has begun.
    func remove(_ id: Int) {
        state.condition.lock()
        state.order.remove(id)
        let dropped = state.work.removeValue(forKey: id)
        state.condition.unlock()
        _ = consume dropped
    }

    /// Finishes what was given, and returns when the threads have ended. To be called once.
    func shutdown() async {
        end()
        for thread in threads { await thread.join() }
    }

    /// The same without waiting.
    func end() {
        state.condition.lock()
        state.isEnding = true
        state.condition.unlock()
        state.condition.broadcast()
    }
}
