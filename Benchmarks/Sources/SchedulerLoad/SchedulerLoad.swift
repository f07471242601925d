/// A scheduler with a given number of queued jobs, and timed operations on it.
///
/// Each public function times a batch of operations and leaves the number of queued jobs unchanged, except that
/// ``submit()`` adds a batch of jobs and ``finish()`` removes a batch.
public final class SchedulerLoad {
    private struct Work: SchedulableWork {
        let number: Int
        var host: String { "example.com" }
    }

    private typealias Scheduler = QueueScheduler<Int, Work>

    /// The number of operations in a batch.
    public let batch = 100
    private let urgentKeys: [CacheKey]
    private var scheduler = Scheduler()
    private var actions: [Scheduler.Action] = []
    private var running: (id: JobID, number: Int)?
    /// The numbers of keys without a job (`idle`) and with a queued job (`queued`), and the place of each number in
    /// `queued`.
    private var idle: [Int] = []
    private var queued: [Int] = []
    private var places: [Int]
    private let wanted: Int

    public init(queued wanted: Int) throws {
        self.wanted = wanted
        let count = wanted + 1_000
        urgentKeys = (0..<8).map { CacheKey("https://images.example.com/urgent/\($0)") }
        places = Array(repeating: 0, count: count)
        scheduler.makesNotes = false
        idle = Array(0..<count).shuffled()
        for _ in 0...wanted { submitNext() }
        try check(slow: wanted)
    }

    private func check(slow count: Int) throws {
        guard scheduler.counts.slowWaiting == count, queued.count == count else {
            throw UnexpectedLoad(description: "\(scheduler.counts.slowWaiting) jobs are queued, not \(count)")
        }
    }

    // MARK: Bookkeeping, not timed

    /// Creates a new key for each event, as callers do from a URL, so that its string is never the one that the
    /// scheduler holds.
    private func key(_ number: Int) -> CacheKey {
        CacheKey("https://images.example.com/photos/\(number)/thumbnail.jpg")
    }

    private func noteQueued(_ number: Int) {
        places[number] = queued.count
        queued.append(number)
    }

    private func noteGone(_ number: Int) {
        let place = places[number]
        guard let last = queued.popLast(), last != number else { return }
        queued[place] = last
        places[last] = place
    }

    private func pick() -> [Int] {
        Set((0..<batch).map { _ in queued[Int.random(in: 0..<queued.count)] }).shuffled()
    }

    private func submitNext() {
        guard let number = idle.popLast() else { return }
        submit(number, key(number))
        noteQueued(number)
        if let running, running.number == number { noteGone(number) }
    }

    // MARK: Timed operations, in seconds per batch

    @inline(__always)
    private func submit(_ number: Int, _ key: CacheKey) {
        _ = scheduler.submit(
            key, number, queue: .slow, reads: false, makeWork: { Work(number: number) }, into: &actions)
        takeStarted()
    }

    @inline(__always)
    private func takeStarted() {
        for case .transfer(let id, let work, _, _) in actions { running = (id, work.number) }
        actions.removeAll(keepingCapacity: true)
    }

    /// Submits prefetches.
    public func submit() -> Double {
        let numbers = Array(idle.suffix(batch))
        idle.removeLast(batch)
        let keys = numbers.map(key)
        let time = seconds { for (number, key) in zip(numbers, keys) { submit(number, key) } }
        numbers.forEach(noteQueued)
        return time
    }

    /// Finishes the running prefetch, so that the next one starts.
    public func finish() throws -> Double {
        var started: [Int] = []
        started.reserveCapacity(batch)
        if let running { idle.insert(running.number, at: 0) }
        let time = seconds {
            for _ in 0..<batch {
                guard let id = running?.id else { return }
                scheduler.finished(id, into: &actions)
                takeStarted()
                started.append(running?.number ?? 0)
            }
        }
        started.forEach(noteGone)
        idle.insert(contentsOf: started.dropLast(), at: 0)
        try check(slow: wanted)
        return time
    }

    /// Requests queued prefetches urgently, demotes them to prefetches again, and cancels the urgent calls.
    public func promoteDemoteCancel() throws -> (promote: Double, demote: Double, cancel: Double) {
        var urgent: [TaskID] = []
        // These jobs fill fastQueue, so that promoted jobs wait there.
        for key in urgentKeys {
            urgent.append(
                scheduler.submit(
                    key, -1, queue: .fast, reads: false, makeWork: { Work(number: -1) }, into: &actions
                ).task)
        }
        actions.removeAll(keepingCapacity: true)
        let picks = pick().map(key)
        var tasks: [TaskID] = []
        tasks.reserveCapacity(picks.count)
        let promote = seconds {
            for key in picks {
                tasks.append(
                    scheduler.submit(
                        key, -1, queue: .fast, reads: false, makeWork: { Work(number: -1) }, into: &actions
                    ).task)
                actions.removeAll(keepingCapacity: true)
            }
        }
        guard scheduler.counts.fastWaiting == picks.count else {
            throw UnexpectedLoad(description: "nothing was promoted")
        }
        let demote = seconds {
            for key in picks {
                scheduler.demote(key, into: &actions)
                actions.removeAll(keepingCapacity: true)
            }
        }
        try check(slow: wanted)
        let cancel = seconds {
            for task in tasks {
                scheduler.cancel(task, into: &actions)
                actions.removeAll(keepingCapacity: true)
            }
        }
        for task in urgent { scheduler.cancel(task, into: &actions) }
        actions.removeAll(keepingCapacity: true)
        let scale = Double(batch) / Double(picks.count)
        return (promote * scale, demote * scale, cancel * scale)
    }

    /// Cancels queued prefetches; they are submitted again outside the measured time.
    public func cancelJobs() throws -> Double {
        let numbers = pick()
        let picks = numbers.map(key)
        let time = seconds {
            for key in picks {
                scheduler.cancel(key, into: &actions)
                actions.removeAll(keepingCapacity: true)
            }
        }
        guard scheduler.counts.slowWaiting == wanted - picks.count else {
            throw UnexpectedLoad(description: "nothing was cancelled")
        }
        for number in numbers { submit(number, key(number)) }
        try check(slow: wanted)
        return time * Double(batch) / Double(picks.count)
    }
}

/// An error for a scheduler that has not done what the load expects.
public struct UnexpectedLoad: Error, CustomStringConvertible {
    public let description: String
}

private func seconds(_ body: () -> Void) -> Double {
    let time = ContinuousClock().measure(body).components
    return Double(time.seconds) + Double(time.attoseconds) * 1e-18
}
