import Dispatch
import Foundation
import HeapModule
import Synchronization

/// A few threads that run the most urgent work first; one of several is left to urgent work. The work under way takes
/// no more memory than a budget, but one piece may always run.
package final class Workers: Sendable {
    package typealias Work = @Sendable () -> Void

    package enum Rank: Sendable, Comparable {
        case urgent
        case slow
        /// Work that no call waits for.
        case background
    }

    package struct Place: Hashable, Sendable {
        package var rank: Rank
        package var priority: Priority
        /// Whether newer work comes first (last in, first out).
        package var isLIFO = false
    }

    /// Used under `condition`.
    private final class State: @unchecked Sendable {
        let condition = NSCondition()
        let mostSlow: Int
        let budget: Int
        var queue = WorkQueue()
        /// The number of pieces under way that are not urgent.
        var slow = 0
        /// The memory that the work under way takes, in bytes.
        var used = 0
        var allowed: Rank? = .background
        var isEnding = false

        init(threads: Int, budget: Int) {
            mostSlow = max(1, threads - 1)
            self.budget = max(0, budget)
        }

        func locked<Result>(_ body: () -> Result) -> Result {
            condition.lock()
            defer { condition.unlock() }
            return body()
        }

        func next() -> Work? {
            condition.lock()
            defer { condition.unlock() }
            while true {
                if let work = take() { return work }
                if isEnding, queue.isEmpty { return nil }
                condition.wait()
            }
        }

        private func take() -> Work? {
            guard let allowed = isEnding ? Rank.background : self.allowed,
                let (id, first) = queue.first(downTo: slow < mostSlow ? allowed : .urgent)
            else { return nil }
            if first.cost == nil, let measure = first.measure { return { self.setCost(of: id, measure) } }
            let (run, cost, isSlow) = (first.run, first.cost ?? 0, first.place.rank != .urgent)
            // No cost is above the budget, so one piece may always run.
            guard cost <= budget - used else { return nil }
            queue.remove(id)
            count(1, isSlow, cost)
            return {
                run()
                guard isSlow || cost > 0 else { return }
                self.locked { self.count(-1, isSlow, cost) }
                self.condition.broadcast()
            }
        }

        private func setCost(of id: Int, _ measure: () -> Int) {
            let cost = min(max(0, measure()), budget)
            locked { queue.setCost(cost, of: id) }
        }

        private func count(_ change: Int, _ isSlow: Bool, _ cost: Int) {
            if isSlow { slow += change }
            used += change * cost
        }
    }

    private let state: State
    private let name: String
    private let count: Int
    private let threads = Mutex<[JoinableThread]>([])
    private let isComplete = Atomic(false)
    private let joining = OnceTask()

    /// - Parameter budget: the most memory for the work under way, in bytes.
    package init(name: String, threads count: Int, budget: Int = .max) {
        let state = State(threads: count, budget: budget)
        self.state = state
        (self.name, self.count) = (name, max(1, count))
        begin()
    }

    /// Starts the threads that are missing; returns `false` while the system gives none.
    @discardableResult
    private func begin() -> Bool {
        if isComplete.load(ordering: .relaxed) { return true }
        return threads.withLock { threads in
            let state = state
            while threads.count < count,
                let thread = JoinableThread(name: name, { while let work = state.next() { work() } })
            {
                threads.append(thread)
            }
            isComplete.store(threads.count == count, ordering: .relaxed)
            return !threads.isEmpty
        }
    }

    /// The threads do not keep the workers.
    deinit { end() }

    /// - Parameter cost: measures the memory that the work takes, in bytes, on a thread of the workers; `nil` for none.
    /// - Returns: a ticket to cancel or move the work; `nil`, and the work is dropped, once the workers are ending, and while
    ///   the system gives no thread.
    @discardableResult
    package func add(_ place: Place, cost: (@Sendable () -> Int)? = nil, _ work: @escaping Work) -> Ticket? {
        guard begin() else { return nil }
        let id = state.locked { () -> Int? in state.isEnding ? nil : state.queue.add(work, measure: cost, place) }
        state.condition.signal()
        return id.map { Ticket(workers: self, id: $0) }
    }

    /// Adds urgent work; returns `false`, and drops it, once the workers are ending or without a thread.
    @discardableResult
    package func run(_ work: @escaping Work) -> Bool { add(.init(.fast, .normal), work) != nil }

    /// Adds work whose thread begins nothing else until the work calls its closure.
    @discardableResult
    package func add(
        _ place: Place, cost: (@Sendable () -> Int)? = nil,
        untilTaken work: @escaping @Sendable (_ taken: @escaping Work) -> Void
    ) -> Ticket? {
        add(place, cost: cost) {
            let isTaken = DispatchSemaphore(value: 0)
            work { isTaken.signal() }
            isTaken.wait()
        }
    }

    /// Lets only work of this rank or a more urgent one begin; none with `nil`.
    package func allow(downTo lowest: Rank?) {
        state.locked { state.allowed = lowest }
        state.condition.broadcast()
    }

    private func end() {
        state.locked { state.isEnding = true }
        state.condition.broadcast()
    }

    package func shutdown() async {
        end()
        await joining.run { [self] in for thread in threads.withLock({ $0 }) { await thread.join() } }
    }

    package struct Ticket: Sendable {
        fileprivate let workers: Workers
        fileprivate let id: Int

        /// Has no effect if the work has begun.
        package func cancel() {
            let state = workers.state
            let dropped = state.locked { state.queue.remove(id) }
            _ = consume dropped
            // Work that waited behind it may fit into the budget.
            state.condition.broadcast()
        }

        package func move(to place: Place) {
            let state = workers.state
            state.locked { state.queue.move(id, to: place) }
            state.condition.broadcast()
        }
    }
}

extension Workers.Place {
    package init(_ queue: FetchQueue, _ priority: Priority, isLIFO: Bool = false) {
        self.init(rank: queue == .fast ? .urgent : .slow, priority: priority, isLIFO: isLIFO)
    }
}

private struct WorkQueue {
    struct Waiting {
        let run: Workers.Work
        let measure: (@Sendable () -> Int)?
        /// In bytes; `nil` if not measured.
        var cost: Int?
        var place: Workers.Place
        /// The valid entry of the heap; others of this work are skipped.
        var number = 0
    }

    private struct Entry: Comparable {
        let place: Workers.Place
        let number: Int
        let id: Int

        static func < (a: Self, b: Self) -> Bool {
            // mutant ImageQueue: `e.rank < b.plac` => `e.rank > b.plac`
            if a.place.rank != b.place.rank { return a.place.rank < b.place.rank }
            if a.place.priority != b.place.priority { return a.place.priority > b.place.priority }
            return a.order < b.order
        }

        private var order: Int { place.isLIFO ? -number : number }
    }

    private var waiting: [Int: Waiting] = [:]
    private var heap = Heap<Entry>()
    private var lastID = 0
    private var lastNumber = 0

    var isEmpty: Bool { waiting.isEmpty }

    mutating func add(_ run: @escaping Workers.Work, measure: (@Sendable () -> Int)?, _ place: Workers.Place) -> Int {
        lastID += 1
        enter(lastID, Waiting(run: run, measure: measure, place: place))
        return lastID
    }

    mutating func setCost(_ cost: Int, of id: Int) { waiting[id]?.cost = cost }

    mutating func move(_ id: Int, to place: Workers.Place) {
        guard var work = waiting[id], work.place != place else { return }
        work.place = place
        enter(id, work)
    }

    private mutating func enter(_ id: Int, _ work: Waiting) {
        lastNumber += 1
        var work = work
        work.number = lastNumber
        waiting[id] = work
        heap.insert(Entry(place: work.place, number: lastNumber, id: id))
        if heap.count > 2 * waiting.count + 64 {
            heap = Heap(heap.unordered.filter { waiting[$0.id]?.number == $0.number })
        }
    }

    @discardableResult
    mutating func remove(_ id: Int) -> Waiting? { waiting.removeValue(forKey: id) }

    mutating func first(downTo lowest: Workers.Rank) -> (id: Int, work: Waiting)? {
        while let first = heap.min {
            if let work = waiting[first.id], work.number == first.number {
                return work.place.rank <= lowest ? (first.id, work) : nil
            }
            heap.removeMin()
        }
        return nil
    }
}
