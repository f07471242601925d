import HeapModule
import Synchronization

/// Runs closures at given times on an injected clock, with one sleeper for all of them.
package final class TimerQueue: Sendable {
    private struct Entry: Comparable, Sendable {
        let due: Duration
        let number: UInt64
        let run: @Sendable () -> Void

        static func < (a: Self, b: Self) -> Bool { (a.due, a.number) < (b.due, b.number) }
        static func == (a: Self, b: Self) -> Bool { a.number == b.number }
    }

    private struct State {
        var entries = Heap<Entry>()
        var nextNumber: UInt64 = 0
        var sleeper: Task<Void, Never>?
        var sleepsUntil: Duration?
        var isEnded = false
    }

    private let time: TimeSource
    private let state = Mutex(State())

    package init(_ time: TimeSource) {
        self.time = time
    }

    /// Runs `work` once after the wait. Nothing runs after ``end()``.
    package func schedule(after delay: Duration, _ work: @escaping @Sendable () -> Void) {
        // Clocks trap where a sum does not fit.
        schedule(at: time.now() + min(delay, .seconds(1_000_000_000)), work)
    }

    /// The same at a time of the time source.
    package func schedule(at due: Duration, _ work: @escaping @Sendable () -> Void) {
        let replaced = state.withLock { state -> Task<Void, Never>? in
            guard !state.isEnded else { return nil }
            state.entries.insert(Entry(due: due, number: state.nextNumber, run: work))
            state.nextNumber += 1
            if let until = state.sleepsUntil, until <= due { return nil }
            return startSleeper(&state, until: due)
        }
        replaced?.cancel()
    }

    /// Forgets all that is scheduled.
    package func end() {
        let (sleeper, entries) = state.withLock { state in
            state.isEnded = true
            return (exchange(&state.sleeper, with: nil), exchange(&state.entries, with: Heap()))
        }
        sleeper?.cancel()
        _ = consume entries
    }

    /// The sleeper that is no longer needed.
    private func startSleeper(_ state: inout State, until due: Duration) -> Task<Void, Never>? {
        state.sleepsUntil = due
        let task = Task.detached { [weak self, time] in
            try? await time.sleep(due - time.now())
            guard !Task.isCancelled else { return }
            self?.fire()
        }
        return exchange(&state.sleeper, with: task)
    }

    private func fire() {
        let now = time.now()
        let due = state.withLock { state in
            var due: [Entry] = []
            while let next = state.entries.min, next.due <= now {
                due.append(state.entries.removeMin())
            }
            state.sleepsUntil = nil
            state.sleeper = nil
            if let next = state.entries.min, !state.isEnded {
                _ = startSleeper(&state, until: next.due)
            }
            return due
        }
        for entry in due { entry.run() }
    }
}
