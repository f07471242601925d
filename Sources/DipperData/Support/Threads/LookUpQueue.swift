import Synchronization

/// A queue of disk look-ups that a few threads carry out, the most urgent ones first. A look-up that is cancelled
/// before it begins is never carried out. If there are several threads, at least one is left to urgent look-ups.
package final class LookUpQueue: Sendable {
    package typealias Place = WorkOrder<Int>.Place

    /// A look-up. It calls the closure it is given when its answer has been delivered, which may be later and on another
    /// thread; the queue begins nothing in its place until then.
    package typealias Work = @Sendable (_ delivered: @escaping @Sendable () -> Void) -> Void

    private struct State {
        var order = WorkOrder<Int>()
        var work: [Int: Work] = [:]
        var nextID = 0
        /// Look-ups that are under way or whose answers have not been delivered.
        var active = 0
        /// The part of ``active`` that is not urgent.
        var leisurely = 0
        /// The rank of the least urgent look-up that may begin; `nil` if none may.
        var allowed: WorkOrder<Int>.Rank? = .background
        var isEnding = false
        /// Continuations that wait for the last look-up.
        var ending: [CheckedContinuation<Void, Never>] = []

        /// Reserves idle threads for the look-ups that wait, and returns the number of threads to start.
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

    /// The number of look-ups that wait.
    package var count: Int { state.withLock { $0.order.count } }

    /// Adds a look-up that has delivered its answer when it returns.
    /// - Returns: a handle that cancels or moves the look-up. Once the queue is ending, `nil`: the look-up is dropped.
    @discardableResult
    package func add(_ place: Place, _ work: @escaping @Sendable () -> Void) -> LookUp? {
        add(place) { delivered in
            work()
            delivered()
        }
    }

    /// Adds a look-up that delivers its answer later.
    /// - Returns: a handle that cancels or moves the look-up. Once the queue is ending, `nil`: the look-up is dropped.
    @discardableResult
    package func add(_ place: Place, _ work: @escaping Work) -> LookUp? {
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

    /// Lets only look-ups of this rank, or more urgent ones, begin; none with `nil`. A look-up that has begun
    /// continues.
    package func allow(downTo lowest: WorkOrder<Int>.Rank?) {
        startThreads(
            state.withLock { state in
                state.allowed = lowest
                return state.startThreads(threads)
            })
    }

    private func startThreads(_ count: Int) {
        for _ in 0..<count {
            // The pool may have ended meanwhile. The reserved thread's look-ups are then carried out here.
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

    /// Carries out look-ups as long as there is one that this thread may take and answers are delivered.
    /// - Parameter wasLeisurely: whether the look-up that this thread follows was not urgent.
    private func work(after wasLeisurely: Bool = false) {
        var wasLeisurely = wasLeisurely
        while true {
            let (next, ending) = state.withLock { [wasLeisurely] state -> (Next?, [CheckedContinuation<Void, Never>]) in
                if wasLeisurely { state.leisurely -= 1 }
                let mayTakeAll = threads == 1 || state.leisurely < threads - 1
                guard let allowed = state.isEnding ? .background : state.allowed,
                    let (id, rank) = state.order.take(upTo: mayTakeAll ? allowed : .urgent),
                    let work = state.work.removeValue(forKey: id)
                else {
                    state.active -= 1
                    return (nil, state.active == 0 ? exchange(&state.ending, with: []) : [])
                }
                if rank != .urgent { state.leisurely += 1 }
                return (Next(work: work, isLeisurely: rank != .urgent), [])
            }
            for continuation in ending { continuation.resume() }
            guard let next else { return }
            let turn = Turn()
            next.work {
                guard turn.passes() else { return }
                self.goOn(after: next.isLeisurely)
            }
            // Whoever delivers the answer goes on.
            guard turn.passes() else { return }
            wasLeisurely = next.isLeisurely
        }
    }

    private struct Next {
        let work: Work
        let isLeisurely: Bool
    }

    private func goOn(after wasLeisurely: Bool) {
        if !pool.run({ self.work(after: wasLeisurely) }) { work(after: wasLeisurely) }
    }

    /// The end of a look-up and the delivery of its answer: whichever comes second passes.
    private final class Turn: Sendable {
        private let isSecond = Atomic(false)

        func passes() -> Bool { isSecond.exchange(true, ordering: .acquiringAndReleasing) }
    }

    /// Carries out all remaining look-ups, and returns when their answers are delivered and the threads have ended.
    package func shutdown() async {
        startThreads(
            state.withLock { state in
                state.isEnding = true
                return state.startThreads(threads)
            })
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            let isIdle = state.withLock { state in
                if state.active > 0 { state.ending.append(continuation) }
                return state.active == 0
            }
            if isIdle { continuation.resume() }
        }
        await pool.shutdown()
    }
}

/// A handle of a look-up in a ``LookUpQueue``.
package struct LookUp: Sendable {
    fileprivate let queue: LookUpQueue
    fileprivate let id: Int

    /// Cancels the look-up; without effect if it has begun.
    package func cancel() { queue.remove(id) }

    /// Moves the look-up to another place in the order; without effect if it has begun.
    package func move(to place: LookUpQueue.Place) { queue.move(id, to: place) }
}
