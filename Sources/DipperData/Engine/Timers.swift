extension Engine {
    typealias TimerID = UInt64

    /// The timers of the engine, by time. Entries without work have been cancelled, and are skipped.
    struct Timers {
        enum Work {
            case backOff(Fetch)
            case pause(UInt64)
            case cleaning
            case lease(Lease)
            case timeout(Waiter)
            case making(@Loop (Engine) -> Void)
            case patience(Waiter)
            case report(Fetch, Fetch.Reports)
            /// A look at the slots of a queue: the number of fetches that had started, and since when none has.
            case slots(FetchQueue, Int, since: Duration)
            /// Another look at a transfer to whose host there is no way: its number, and the bytes it had.
            case grace(Fetch, UInt64, received: Int)
        }

        private struct Entry: Comparable {
            let due: Duration
            let id: TimerID

            static func < (a: Self, b: Self) -> Bool { (a.due, a.id) < (b.due, b.id) }
        }

        private var entries = Heap<Entry>()
        private var work: [TimerID: Work] = [:]
        private var lastID: TimerID = 0

        var first: Duration? {
            mutating get {
                while let next = entries.min, work[next.id] == nil { entries.popMin() }
                return entries.min?.due
            }
        }

        @discardableResult
        mutating func add(at due: Duration, _ work: Work) -> TimerID {
            lastID += 1
            entries.insert(Entry(due: due, id: lastID))
            self.work[lastID] = work
            return lastID
        }

        mutating func cancel(_ id: TimerID) {
            guard work.removeValue(forKey: id) != nil, entries.count > 2 * work.count + 64 else { return }
            entries = Heap(entries.unordered.filter { work[$0.id] != nil })
        }

        mutating func take(dueAt now: Duration) -> Work? {
            guard let first, first <= now, let next = entries.popMin() else { return nil }
            return work.removeValue(forKey: next.id)
        }
    }
}
