import Synchronization

/// Looks at the disk, the most urgent ones first, on a few threads. What is taken back is never carried out, and one thread
/// at least is left to urgent work.
package final class LookUpQueue: Sendable {
    package typealias Place = WorkOrder<Int>.Place

    private struct State {
        var order = WorkOrder<Int>()
        var work: [Int: @Sendable () -> Void] = [:]
        var nextID = 0
        /// Threads that look, and those of them at work that is not urgent.
        var active = 0
        var leisurely = 0
        /// The least urgent work that may begin; `nil` if none may.
        var allowed: WorkOrder<Int>.Rank? = .background
        var isEnding = false

        /// Reserves idle threads for the work that waits, and returns how many are to be started.
        mutating func startThreads(_ threads: Int) -> Int {
            guard allowed != nil || isEnding else { return 0 }
            let starting = min(threads - active, order.count)
            active += starting
            return starting
        }
    }

    private let state = Mutex(State())
    private let threads: Int
    private let pool: WorkerPool

    package init(name: String, threads: Int) {
        self.threads = max(1, threads)
        pool = WorkerPool(name: name, threads: self.threads)
    }

    /// Look-ups that wait.
    package var count: Int { state.withLock { $0.order.count } }

    /// - Returns: what takes the work back or moves it; `nil`, and the work is dropped, once the queue is ending.
    @discardableResult
    package func add(_ place: Place, _ work: @escaping @Sendable () -> Void) -> LookUp? {
        let (id, starting) = state.withLock { state -> (Int?, Int) in
            guard !state.isEnding else { return (nil, 0) }
            state.nextID += 1
            state.work[state.nextID] = work
            state.order.insert(state.nextID, place)
            return (state.nextID, state.startThreads(threads))
        }
        startThreads(starting)
        return id.map { LookUp(queue: self, id: $0) }
    }

    fileprivate func move(_ id: Int, to place: Place) {
        startThreads(
            state.withLock { state in
                state.order.move(id, to: place)
                return state.startThreads(threads)
            })
    }

    /// Lets only work of this rank, or more urgent work, begin; none with `nil`. What has begun goes on.
    package func allow(downTo lowest: WorkOrder<Int>.Rank?) {
        startThreads(
            state.withLock { state in
                state.allowed = lowest
                return state.startThreads(threads)
            })
    }

    private func startThreads(_ count: Int) {
        for _ in 0..<count {
            // The pool may have ended meanwhile: what was taken is carried out all the same.
            if !pool.run({ self.work() }) { work() }
        }
    }

    fileprivate func remove(_ id: Int) {
        let dropped = state.withLock { state in
            state.order.remove(id)
            return state.work.removeValue(forKey: id)
        }
        _ = consume dropped
    }

    /// Looks as long as there is something that this thread may look for.
    private func work() {
        var wasLeisurely = false
        while true {
            let next = state.withLock { [wasLeisurely] state -> (work: @Sendable () -> Void, isLeisurely: Bool)? in
                if wasLeisurely { state.leisurely -= 1 }
                let mayTakeAll = threads == 1 || state.leisurely < threads - 1
                guard let allowed = state.isEnding ? .background : state.allowed,
                    let (id, rank) = state.order.take(upTo: mayTakeAll ? allowed : .urgent),
                    let work = state.work.removeValue(forKey: id)
                else {
                    state.active -= 1
                    return nil
                }
                if rank != .urgent { state.leisurely += 1 }
                return (work, rank != .urgent)
            }
            guard let next else { return }
            next.work()
            wasLeisurely = next.isLeisurely
        }
    }

    /// Finishes what was given, and returns when the threads have ended.
    package func shutdown() async {
        startThreads(
            state.withLock { state in
                state.isEnding = true
                return state.startThreads(threads)
            })
        await pool.shutdown()
    }
}

/// A look at the disk that waits for its turn, or has had it.
package struct LookUp: Sendable {
    fileprivate let queue: LookUpQueue
    fileprivate let id: Int

    /// Takes it back; without effect if it has begun.
    package func cancel() { queue.remove(id) }

    /// Puts it in another place; without effect if it has begun.
    package func move(to place: LookUpQueue.Place) { queue.move(id, to: place) }
}
