import Dispatch
import Foundation
import HeapModule

/// A few threads, the most urgent work first; one of several is left to urgent work. The work under way takes no more
/// memory than a budget, but one piece may always run.
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

        package init(rank: Rank, priority: Priority) {
            self.rank = rank
            self.priority = priority
        }

        package init(_ queue: FetchQueue, _ priority: Priority, isLIFO: Bool = false) {
            self.init(rank: queue == .fast ? .urgent : .slow, priority: priority)
            self.isLIFO = isLIFO
        }
    }

    /// Used under `condition`.
    private final class Desk: @unchecked Sendable {
        let condition = NSCondition()
        let mostLeisurely: Int
        let budget: Int
        var order = WorkOrder()
        var leisurely = 0
        /// Work under way that takes memory, and its bytes.
        var costly = 0
        var used = 0
        var allowed: Rank? = .background
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

        func next() -> Work? {
            condition.lock()
            defer { condition.unlock() }
            while true {
                let lowest: Rank? = leisurely < mostLeisurely ? isEnding ? .background : allowed : .urgent
                if isEnding || allowed != nil, let lowest, let (id, first) = order.first(upTo: lowest) {
                    if first.cost == nil, let measure = first.measure { return { self.setCost(of: id, measure) } }
                    let cost = first.cost ?? 0
                    if costly == 0 || cost <= budget - used {
                        order.remove(id)
                        return begin(first.run, isLeisurely: first.place.rank != .urgent, cost: cost)
                    }
                } else if isEnding, order.isEmpty {
                    return nil
                }
                condition.wait()
            }
        }

        private func setCost(of id: Int, _ measure: () -> Int) {
            let cost = min(max(0, measure()), budget)
            locked { order.setCost(cost, of: id) }
        }

        private func begin(_ run: @escaping Work, isLeisurely: Bool, cost: Int) -> Work {
            count(1, isLeisurely, cost)
            return {
                run()
                guard isLeisurely || cost > 0 else { return }
                self.locked { self.count(-1, isLeisurely, cost) }
                self.condition.broadcast()
            }
        }

        private func count(_ change: Int, _ isLeisurely: Bool, _ cost: Int) {
            if isLeisurely { leisurely += change }
            if cost > 0 { costly += change }
            used += change * cost
        }
    }

    private let desk: Desk
    private let threads: [JoinableThread]
    private let joining = OnceTask()

    /// - Parameter budget: the most memory for the work under way, in bytes.
    package init(name: String, threads count: Int, budget: Int = .max) {
        let desk = Desk(threads: count, budget: budget)
        self.desk = desk
        threads = (0..<max(1, count)).map { _ in
            JoinableThread(name: name) {
                while let work = desk.next() { work() }
            }
        }
    }

    /// The threads do not keep the workers.
    deinit { end() }

    /// - Parameter cost: measures the memory that the work takes, in bytes, on a thread of the workers; `nil` for none.
    /// - Returns: a ticket to cancel or move the work; `nil`, and the work is dropped, once the workers are ending.
    @discardableResult
    package func add(_ place: Place, cost: (@Sendable () -> Int)? = nil, _ work: @escaping Work) -> Ticket? {
        let id = desk.locked { () -> Int? in desk.isEnding ? nil : desk.order.add(work, measure: cost, place) }
        desk.condition.signal()
        return id.map { Ticket(workers: self, id: $0) }
    }

    /// Adds urgent work; returns `false`, and drops it, once the workers are ending.
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
        desk.locked { desk.allowed = lowest }
        desk.condition.broadcast()
    }

    private func end() {
        desk.locked { desk.isEnding = true }
        desk.condition.broadcast()
    }

    package func shutdown() async {
        end()
        await joining.run { [threads] in for thread in threads { await thread.join() } }
    }

    package struct Ticket: Sendable {
        fileprivate let workers: Workers
        fileprivate let id: Int

        /// Has no effect if the work has begun.
        package func cancel() {
            let desk = workers.desk
            let dropped = desk.locked { desk.order.remove(id) }
            _ = consume dropped
            // Work that waited behind it may fit into the budget.
            desk.condition.broadcast()
        }

        package func move(to place: Place) {
            let desk = workers.desk
            desk.locked { desk.order.move(id, to: place) }
            desk.condition.broadcast()
        }
    }
}

private struct WorkOrder {
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
        static func == (a: Self, b: Self) -> Bool { a.number == b.number }
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

    mutating func first(upTo lowest: Workers.Rank) -> (id: Int, work: Waiting)? {
        while let first = heap.min {
            if let work = waiting[first.id], work.number == first.number {
                return work.place.rank <= lowest ? (first.id, work) : nil
            }
            heap.removeMin()
        }
        return nil
    }
}
