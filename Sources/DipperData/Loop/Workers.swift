import Foundation
import Synchronization

/// A few threads that run the most urgent work first; one of several is left to urgent work. Of equal urgency, small
/// work comes before huge work, and each key has its turn. The work under way takes no more memory than a budget, but
/// one piece may always run. Threads begin when there is work, and end when there has been none for a while.
package final class Workers: Sendable {
    package typealias Work = @Sendable () -> Void
    /// Measures the memory that work takes and the memory that it goes through, in bytes, on a thread of the workers.
    package typealias Measure = @Sendable () -> (memory: Int, effort: Int)

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
        let name: String
        let mostThreads: Int
        let mostSlow: Int
        /// The time without work after which a thread ends, in seconds.
        let rest: TimeInterval
        let budget: Int
        var queue = WorkQueue()
        /// The number of pieces under way: their threads are at work, or their results have not been taken.
        private var open = 0
        /// The number of them that are not urgent.
        var slow = 0
        /// The memory that the work under way takes, in bytes.
        var used = 0
        var allowed: Rank? = .background
        var isEnding = false
        var threads: [Int: JoinableThread] = [:]
        private var lastThread = 0
        /// The number of threads that wait for work.
        private var idle = 0

        init(name: String, threads: Int, budget: Int, rest: TimeInterval) {
            (self.name, self.rest) = (name, rest)
            mostThreads = max(1, threads)
            mostSlow = max(1, threads - 1)
            self.budget = max(0, budget)
        }

        func locked<Result>(_ body: () -> Result) -> Result {
            condition.lock()
            defer { condition.unlock() }
            return body()
        }

        func add(_ work: @escaping UntilTaken, measure: Measure?, _ place: Place, _ key: CacheKey?) -> Int? {
            let (id, isFree) = locked { () -> (Int?, Bool) in
                guard !isEnding else { return (nil, false) }
                if idle <= queue.count, threads.count < mostThreads { beginThread() }
                // While the system gives no thread, nobody would do the work.
                return (threads.isEmpty ? nil : queue.add(work, measure: measure, place, key), open < mostThreads)
            }
            if isFree { condition.signal() }
            return id
        }

        private func beginThread() {
            lastThread += 1
            threads[lastThread] = JoinableThread(name: name) { [number = lastThread] in
                while let work = self.next(number) { work() }
            }
        }

        /// Returns `nil` when the thread with this number has to end.
        private func next(_ number: Int) -> Work? {
            locked {
                idle += 1
                defer { idle -= 1 }
                var rests = false
                while true {
                    if let work = take() { return work }
                    if queue.isEmpty, isEnding ? open == 0 : rests {
                        // One that ends with the others is joined.
                        if !isEnding { threads[number] = nil }
                        return nil
                    }
                    rests = !condition.wait(until: Date(timeIntervalSinceNow: rest))
                }
            }
        }

        private func take() -> Work? {
            guard let allowed = isEnding ? Rank.background : self.allowed,
                let (id, first) = queue.first(downTo: slow < mostSlow ? allowed : .urgent)
            else { return nil }
            if first.cost == nil, let measure = first.measure {
                queue.setMeasuring(id)
                return { self.setCost(of: id, measure) }
            }
            let (run, cost, isSlow) = (first.run, first.cost ?? 0, first.place.rank != .urgent)
            // No cost is above the budget, so one piece may always run.
            guard open < mostThreads, cost <= budget - used else { return nil }
            queue.remove(id)
            count(1, isSlow, cost)
            return {
                run {
                    let isAwaited = self.locked { () -> Bool in
                        self.count(-1, isSlow, cost)
                        return !self.queue.isEmpty || self.isEnding
                    }
                    if isAwaited { self.condition.broadcast() }
                }
            }
        }

        private func setCost(of id: Int, _ measure: Measure) {
            let (memory, effort) = measure()
            locked { queue.setCost(min(max(0, memory), budget), effort: effort, of: id) }
            condition.broadcast()
        }

        private func count(_ change: Int, _ isSlow: Bool, _ cost: Int) {
            open += change
            if isSlow { slow += change }
            used += change * cost
        }
    }

    private let state: State
    private let joining = OnceTask()

    /// - Parameters:
    ///   - threads: the most threads.
    ///   - budget: the most memory for the work under way, in bytes.
    ///   - rest: the time without work after which a thread ends, in seconds.
    package init(name: String, threads: Int, budget: Int = .max, rest: TimeInterval = 5) {
        state = State(name: name, threads: threads, budget: budget, rest: rest)
    }

    /// The threads do not keep the workers.
    deinit { end() }

    /// The most threads that work at a time.
    var threads: Int { state.mostThreads }

    /// - Parameters:
    ///   - key: whose turn it is; `nil` if the work is for no key.
    ///   - cost: `nil` for work that takes no memory.
    /// - Returns: a ticket to cancel or move the work; `nil`, and the work is dropped, once the workers are ending, and while
    ///   the system gives no thread.
    @discardableResult
    package func add(
        _ place: Place, of key: CacheKey? = nil, cost: Measure? = nil, _ work: @escaping Work
    ) -> Ticket? {
        add(
            place, of: key, cost: cost,
            untilTaken: { taken in
                work()
                taken()
            })
    }

    /// Adds work that counts as under way until it calls its closure, once.
    @discardableResult
    package func add(
        _ place: Place, of key: CacheKey? = nil, cost: Measure? = nil,
        untilTaken work: @escaping @Sendable (_ taken: @escaping Work) -> Void
    ) -> Ticket? {
        state.add(work, measure: cost, place, key).map { Ticket(workers: self, id: $0) }
    }

    /// Adds urgent work; returns `false`, and drops it, once the workers are ending or without a thread.
    @discardableResult
    package func run(_ work: @escaping Work) -> Bool { add(.init(.fast, .normal), work) != nil }

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
        await joining.run { [self] in
            for thread in state.locked({ Array(state.threads.values) }) { await thread.join() }
        }
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

private typealias UntilTaken = @Sendable (_ taken: @escaping Workers.Work) -> Void

private struct WorkQueue {
    struct Waiting {
        let run: UntilTaken
        let measure: Workers.Measure?
        let key: CacheKey?
        /// The number at which it is the turn of the key.
        let turn: Int
        /// In bytes; `nil` if not measured.
        var cost: Int?
        /// The number of later pieces, of no effort, that come before this one.
        var weight = WorkQueue.unit
        var place: Workers.Place
        /// The number of the entry before, while a thread measures the cost.
        fileprivate var measured: Int?
        /// The valid entry of the heap; others of this work are skipped.
        fileprivate var entry: Entry?
    }

    fileprivate struct Entry: Comparable {
        let place: Workers.Place
        let order: Int
        let number: Int
        let id: Int

        static func < (a: Self, b: Self) -> Bool {
            // mutant ImageQueue: `e.rank < b.plac` => `e.rank > b.plac`
            if a.place.rank != b.place.rank { return a.place.rank < b.place.rank }
            if a.place.priority != b.place.priority { return a.place.priority > b.place.priority }
            if a.order != b.order { return a.order < b.order }
            return a.place.isLIFO ? a.number > b.number : a.number < b.number
        }
    }

    /// For each piece, and for each MiB of its effort.
    private static let unit = 100

    private var waiting: [Int: Waiting] = [:]
    private var heap = Heap<Entry>()
    private var lastID = 0
    private var lastNumber = 0
    /// Where the next turn of a key begins.
    private var turns: [CacheKey: Int] = [:]

    var isEmpty: Bool { waiting.isEmpty }
    var count: Int { waiting.count }

    mutating func add(
        _ run: @escaping UntilTaken, measure: Workers.Measure?, _ place: Workers.Place, _ key: CacheKey?
    ) -> Int {
        lastID += 1
        if waiting.isEmpty { turns = [:] }
        let turn = max(lastNumber, key.flatMap { turns[$0] } ?? 0)
        if let key { turns[key] = turn + Self.unit }
        enter(lastID, Waiting(run: run, measure: measure, key: key, turn: turn, place: place))
        return lastID
    }

    /// The piece has no place in the heap until its cost is known, so that other threads go on to the next one.
    mutating func setMeasuring(_ id: Int) {
        guard var work = waiting[id] else { return }
        (work.measured, work.entry) = (work.entry?.number, nil)
        waiting[id] = work
    }

    mutating func setCost(_ cost: Int, effort: Int, of id: Int) {
        guard var work = waiting[id], work.cost == nil else { return }
        let more = (min(max(0, effort), 1 << 40) >> 20) * Self.unit
        work.cost = cost
        work.weight += more
        if let key = work.key { turns[key, default: 0] += more }
        let number = exchange(&work.measured, with: nil)
        enter(id, work, number: number)
    }

    mutating func move(_ id: Int, to place: Workers.Place) {
        guard var work = waiting[id], work.place != place else { return }
        work.place = place
        if work.measured == nil { enter(id, work) } else { waiting[id] = work }
    }

    private mutating func enter(_ id: Int, _ work: Waiting, number: Int? = nil) {
        lastNumber += 1
        var work = work
        let number = number ?? lastNumber
        let order = work.weight + (work.place.isLIFO ? -number : work.turn)
        let entry = Entry(place: work.place, order: order, number: number, id: id)
        if work.entry != entry { heap.insert(entry) }
        work.entry = entry
        waiting[id] = work
        if heap.count > 2 * waiting.count + 64 {
            heap = Heap(heap.unordered.filter { waiting[$0.id]?.entry == $0 })
        }
    }

    @discardableResult
    mutating func remove(_ id: Int) -> Waiting? {
        let removed = waiting.removeValue(forKey: id)
        // A queue that was long gives its memory back.
        if waiting.isEmpty, waiting.capacity > 1_024 { (waiting, heap) = ([:], Heap()) }
        return removed
    }

    mutating func first(downTo lowest: Workers.Rank) -> (id: Int, work: Waiting)? {
        while let first = heap.min {
            if let work = waiting[first.id], work.entry == first {
                return work.place.rank <= lowest ? (first.id, work) : nil
            }
            heap.popMin()
        }
        return nil
    }
}
