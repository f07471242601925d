import HeapModule

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
