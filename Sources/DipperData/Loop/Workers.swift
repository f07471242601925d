import Dispatch
import Foundation
import HeapModule

/// A few threads for work that blocks or computes, the most urgent first. If there are several, one is always left to
/// urgent work. The work under way takes no more memory than a budget, but one piece may always run.
package final class Workers: Sendable {
    package typealias Place = WorkOrder<Int>.Place
    package typealias Work = @Sendable () -> Void

    /// Accessed only while holding `condition`.
    private final class Desk: @unchecked Sendable {
        let condition = NSCondition()
        let mostLeisurely: Int
        let budget: Int
        var order = WorkOrder<Int>()
        var work: [Int: Waiting] = [:]
        var lastID = 0
        var leisurely = 0
        /// Work under way that takes memory, and the bytes that it takes.
        var costly = 0
        var used = 0
        var allowed: WorkOrder<Int>.Rank? = .background
        var isEnding = false

        init(threads: Int, budget: Int) {
            mostLeisurely = max(1, threads - 1)
            self.budget = max(0, budget)
        }

        func locked<Result>(_ body: () -> Result) -> Result {
            condition.lock()
            defer { condition.unlock() }
            return body()
        }

        func next() -> Taken? {
            while true {
                switch locked(step) {
                case .run(let taken): return taken
                case .measure(let id, let measure):
                    // Another thread may measure the same work meanwhile, with the same result.
                    let cost = min(max(0, measure()), budget)
                    locked { work[id]?.cost = cost }
                case .end: return nil
                }
            }
        }

        private func step() -> Step {
            while true {
                let lowest = leisurely < mostLeisurely ? isEnding ? .background : allowed : .urgent
                if isEnding || allowed != nil, let lowest, let (id, rank) = order.first(upTo: lowest),
                    let found = work[id]
                {
                    if found.cost == nil, let measure = found.measure { return .measure(id, measure) }
                    let cost = found.cost ?? 0
                    if costly == 0 || cost <= budget - used {
                        order.remove(id)
                        work[id] = nil
                        if rank != .urgent { leisurely += 1 }
                        if cost > 0 { costly += 1 }
                        used += cost
                        return .run(Taken(run: found.run, isLeisurely: rank != .urgent, cost: cost))
                    }
                } else if isEnding, order.count == 0 {
                    return .end
                }
                condition.wait()
            }
        }

        func isDone(_ taken: Taken) {
            guard taken.isLeisurely || taken.cost > 0 else { return }
            locked {
                if taken.isLeisurely { leisurely -= 1 }
                if taken.cost > 0 { costly -= 1 }
                used -= taken.cost
            }
            condition.broadcast()
        }
    }

    private struct Waiting {
        let run: Work
        let measure: (@Sendable () -> Int)?
        var cost: Int?
    }

    private struct Taken {
        let run: Work
        let isLeisurely: Bool
        let cost: Int
    }

    private enum Step {
        case run(Taken)
        case measure(Int, @Sendable () -> Int)
        case end
    }

    private let desk: Desk
    private let threads: [JoinableThread]
    private let joining = OnceTask()

    /// - Parameter budget: the most memory that the work under way may take, in bytes.
    package init(name: String, threads count: Int, budget: Int = .max) {
        let desk = Desk(threads: count, budget: budget)
        self.desk = desk
        threads = (0..<max(1, count)).map { _ in
            JoinableThread(name: name) {
                while let taken = desk.next() {
                    taken.run()
                    desk.isDone(taken)
                }
            }
        }
    }

    /// The threads do not keep the workers.
    deinit { end() }

    /// The number of pieces of work that wait.
    package var count: Int { desk.locked { desk.order.count } }

    /// Adds work in its place in the order.
    /// - Parameter cost: measures the memory that the work takes, in bytes, on a thread of the workers; `nil` for none.
    /// - Returns: a ticket that cancels or moves the work; `nil`, and the work is dropped, once the workers are ending.
    @discardableResult
    package func add(_ place: Place, cost: (@Sendable () -> Int)? = nil, _ work: @escaping Work) -> Ticket? {
        let id = desk.locked { () -> Int? in
            guard !desk.isEnding else { return nil }
            desk.lastID += 1
            desk.work[desk.lastID] = Waiting(run: work, measure: cost)
            desk.order.insert(desk.lastID, place)
            return desk.lastID
        }
        desk.condition.signal()
        return id.map { Ticket(workers: self, id: $0) }
    }

    /// Adds urgent work.
    /// - Returns: `false`, and the work is dropped, once the workers are ending.
    @discardableResult
    package func run(_ work: @escaping Work) -> Bool { add(.init(rank: .urgent, priority: .normal), work) != nil }

    /// Adds work whose result must be taken: its thread begins nothing else until the work calls its closure.
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

    /// Lets only work of this rank, or more urgent work, begin; none with `nil`. What has begun continues.
    package func allow(downTo lowest: WorkOrder<Int>.Rank?) {
        desk.locked { desk.allowed = lowest }
        desk.condition.broadcast()
    }

    private func end() {
        desk.locked { desk.isEnding = true }
        desk.condition.broadcast()
    }

    /// Does all work that has been added, and returns when the threads have ended.
    package func shutdown() async {
        end()
        await joining.run { [threads] in for thread in threads { await thread.join() } }
    }

    /// A handle of work that waits.
    package struct Ticket: Sendable {
        fileprivate let workers: Workers
        fileprivate let id: Int

        /// Cancels the work; without effect if it has begun.
        package func cancel() {
            let desk = workers.desk
            let dropped = desk.locked {
                desk.order.remove(id)
                return desk.work.removeValue(forKey: id)
            }
            _ = consume dropped
            // Work that waited behind it may fit into the budget.
            desk.condition.broadcast()
        }

        /// Moves the work to another place in the order; without effect if it has begun.
        package func move(to place: Place) {
            let desk = workers.desk
            desk.locked { desk.order.move(id, to: place) }
            desk.condition.broadcast()
        }
    }
}

/// The order in which work is done. A value: no lock, no thread.
package struct WorkOrder<ID: Hashable & Sendable>: Sendable {
    /// The urgency of work.
    package enum Rank: Int, Sendable, Comparable {
        case urgent
        case slow
        /// Work that no call waits for.
        case background

        package static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }
    }

    package struct Place: Hashable, Sendable {
        package var rank: Rank
        package var priority: Priority
        /// Whether newer work comes first (last in, first out).
        package var isLIFO: Bool

        package init(rank: Rank, priority: Priority, isLIFO: Bool = false) {
            self.rank = rank
            self.priority = priority
            self.isLIFO = isLIFO
        }
    }

    private struct Entry: Comparable, Sendable {
        let place: Place
        let number: Int
        let id: ID

        static func < (a: Self, b: Self) -> Bool {
            // mutant ImageQueue: `e.rank < b.plac` => `e.rank > b.plac`
            if a.place.rank != b.place.rank { return a.place.rank < b.place.rank }
            if a.place.priority != b.place.priority { return a.place.priority > b.place.priority }
            return a.order < b.order
        }

        private var order: Int { place.isLIFO ? -number : number }
        static func == (a: Self, b: Self) -> Bool { a.number == b.number }
    }

    /// Entries of the heap with another number than the present one are skipped.
    private var waiting: [ID: (number: Int, place: Place)] = [:]
    private var heap = Heap<Entry>()
    private var next = 0

    package init() {}

    package var count: Int { waiting.count }

    /// Adds work in a place, or moves it there if it waits already.
    package mutating func insert(_ id: ID, _ place: Place) {
        if let present = waiting[id], present.place == place { return }
        next += 1
        waiting[id] = (next, place)
        heap.insert(Entry(place: place, number: next, id: id))
        if heap.count > 2 * waiting.count + 64 { removeOutOfDate() }
    }

    /// Moves work that waits; without effect on other work.
    package mutating func move(_ id: ID, to place: Place) {
        if waiting[id] != nil { insert(id, place) }
    }

    /// Removes work, and returns whether it was waiting.
    @discardableResult
    package mutating func remove(_ id: ID) -> Bool { waiting.removeValue(forKey: id) != nil }

    /// Removes and returns the work to do next. Work below the given rank is not taken.
    package mutating func take(upTo lowest: Rank = .background) -> (id: ID, rank: Rank)? {
        let next = first(upTo: lowest)
        if let next { remove(next.id) }
        return next
    }

    /// Returns the work to do next, which continues to wait.
    package mutating func first(upTo lowest: Rank) -> (id: ID, rank: Rank)? {
        while let first = heap.min {
            guard waiting[first.id]?.number == first.number else {
                heap.removeMin()
                continue
            }
            return first.place.rank <= lowest ? (first.id, first.place.rank) : nil
        }
        return nil
    }

    private mutating func removeOutOfDate() {
        heap = Heap(heap.unordered.filter { waiting[$0.id]?.number == $0.number })
    }
}

extension WorkOrder.Place {
    /// Creates the place of work that is done for a call.
    package init(_ queue: FetchQueue, _ priority: Priority, isLIFO: Bool = false) {
        self.init(rank: queue == .fast ? .urgent : .slow, priority: priority, isLIFO: isLIFO)
    }
}
