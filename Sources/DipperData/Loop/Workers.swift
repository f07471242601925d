import Dispatch
import Foundation
import HeapModule

/// A few threads for work that blocks or computes, the most urgent first. If there are several, one is always left to
/// urgent work.
package final class Workers: Sendable {
    package typealias Place = WorkOrder<Int>.Place
    package typealias Work = @Sendable () -> Void

    /// The work that waits. Every access is made while holding `condition`.
    private final class Desk: @unchecked Sendable {
        let condition = NSCondition()
        let mostLeisurely: Int
        var order = WorkOrder<Int>()
        var work: [Int: Work] = [:]
        var lastID = 0
        /// The pieces of work under way that are not urgent.
        var leisurely = 0
        /// The rank of the least urgent work that may begin; `nil` if none may.
        var allowed: WorkOrder<Int>.Rank? = .background
        var isEnding = false

        init(threads: Int) { mostLeisurely = max(1, threads - 1) }

        func locked<Result>(_ body: () -> Result) -> Result {
            condition.lock()
            defer { condition.unlock() }
            return body()
        }

        /// Waits for work that may begin; `nil` if the thread is to end.
        func next() -> (work: Work, isLeisurely: Bool)? {
            locked {
                while true {
                    let lowest = leisurely < mostLeisurely ? isEnding ? .background : allowed : .urgent
                    let mayBegin = isEnding || allowed != nil
                    if mayBegin, let lowest, let (id, rank) = order.take(upTo: lowest),
                        let work = work.removeValue(forKey: id)
                    {
                        if rank != .urgent { leisurely += 1 }
                        return (work, rank != .urgent)
                    }
                    if isEnding, order.count == 0 { return nil }
                    condition.wait()
                }
            }
        }

        func isDone(_ wasLeisurely: Bool) {
            guard wasLeisurely else { return }
            locked { leisurely -= 1 }
            condition.signal()
        }
    }

    private let desk: Desk
    private let threads: [JoinableThread]
    private let joining = OnceTask()

    package init(name: String, threads count: Int) {
        let desk = Desk(threads: count)
        self.desk = desk
        threads = (0..<max(1, count)).map { _ in
            JoinableThread(name: name) {
                while let (work, isLeisurely) = desk.next() {
                    work()
                    desk.isDone(isLeisurely)
                }
            }
        }
    }

    /// Ends the threads, which do not keep the workers.
    deinit { end() }

    /// Adds work in its place in the order.
    /// - Returns: a ticket that cancels or moves the work; `nil`, and the work is dropped, once the workers are ending.
    @discardableResult
    package func add(_ place: Place, _ work: @escaping Work) -> Ticket? {
        let id = desk.locked { () -> Int? in
            guard !desk.isEnding else { return nil }
            desk.lastID += 1
            desk.work[desk.lastID] = work
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

    /// Adds work whose result somebody has yet to take: its thread begins nothing else until the closure that the work
    /// is given has been called.
    @discardableResult
    package func add(_ place: Place, untilTaken work: @escaping @Sendable (_ taken: @escaping Work) -> Void) -> Ticket?
    {
        add(place) {
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
        }

        /// Moves the work to another place in the order; without effect if it has begun.
        package func move(to place: Place) {
            let desk = workers.desk
            desk.locked { desk.order.move(id, to: place) }
            desk.condition.signal()
        }
    }
}

/// The order in which pieces of work are done. A value: no lock, no thread.
package struct WorkOrder<ID: Hashable & Sendable>: Sendable {
    /// The urgency of a piece of work.
    package enum Rank: Int, Sendable, Comparable {
        /// Work for calls in `fastQueue`.
        case urgent
        /// Work for calls in `slowQueue`.
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

    /// The waiting work, with the number of its present entry in the heap. Entries with other numbers are skipped.
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

    /// Removes work, and returns whether the work was waiting.
    @discardableResult
    package mutating func remove(_ id: ID) -> Bool { waiting.removeValue(forKey: id) != nil }

    /// Removes and returns the work to do next. Work below the given rank is not taken.
    package mutating func take(upTo lowest: Rank = .background) -> (id: ID, rank: Rank)? {
        let next = first(upTo: lowest)
        if let next { remove(next.id) }
        return next
    }

    /// Returns the work to do next, which continues to wait. Work below the given rank is not returned.
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
