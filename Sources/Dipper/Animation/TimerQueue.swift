import DipperData
import Dispatch
import HeapModule
import Synchronization

/// A queue that runs closures at given times on an injected clock, with one sleeper for all of them.
final class TimerQueue: Sendable {
    /// The identity of a timer, which no later timer has.
    struct ID: Sendable, Hashable {
        fileprivate let number: UInt64
    }

    private struct Entry: Comparable, Sendable {
        let due: Duration
        let number: UInt64

        static func < (a: Self, b: Self) -> Bool { (a.due, a.number) < (b.due, b.number) }
        static func == (a: Self, b: Self) -> Bool { a.number == b.number }
    }

    private struct State {
        /// The timers by time. Entries without work have been cancelled, and are skipped.
        var entries = Heap<Entry>()
        var work: [UInt64: @Sendable () -> Void] = [:]
        var nextNumber: UInt64 = 0
        /// Cancels the sleeper.
        var sleeper: (@Sendable () -> Void)?
        var sleepsUntil: Duration?
        /// The number of the latest nap.
        var napNumber: UInt64 = 0
        var isEnded = false

        mutating func nap(until due: Duration) -> Nap {
            sleepsUntil = due
            napNumber += 1
            return Nap(number: napNumber, due: due)
        }
    }

    /// A sleep that has been decided, and that begins once the lock is released.
    private struct Nap {
        let number: UInt64
        let due: Duration
    }

    private let time: TimeSource
    private let thread: SeparateThread
    private let state = Mutex(State())

    /// - Parameter thread: runs the closures, if the clock is one of the system's.
    init(_ time: TimeSource, on thread: SeparateThread = SeparateThread()) {
        self.time = time
        self.thread = thread
    }

    /// The number of timers that have neither fired nor been cancelled.
    var count: Int { state.withLock { $0.work.count } }

    /// Runs `work` once after a wait, unless ``cancel(_:)`` or ``end()`` comes first.
    @discardableResult
    func schedule(after delay: Duration, _ work: @escaping @Sendable () -> Void) -> ID {
        // Clocks trap if a sum does not fit.
        schedule(at: time.now() + min(delay, .seconds(1_000_000_000)), work)
    }

    /// Runs `work` once at a time of the time source, unless ``cancel(_:)`` or ``end()`` comes first.
    @discardableResult
    func schedule(at due: Duration, _ work: @escaping @Sendable () -> Void) -> ID {
        let (id, nap) = state.withLock { state -> (ID, Nap?) in
            let id = ID(number: state.nextNumber)
            guard !state.isEnded else { return (id, nil) }
            state.entries.insert(Entry(due: due, number: state.nextNumber))
            state.work[state.nextNumber] = work
            state.nextNumber += 1
            if let until = state.sleepsUntil, until <= due { return (id, nil) }
            return (id, state.nap(until: due))
        }
        if let nap { sleep(nap) }
        return id
    }

    /// Cancels a timer, unless its work has begun.
    func cancel(_ id: ID) {
        let (dropped, old) = state.withLock { state -> ((@Sendable () -> Void)?, Heap<Entry>?) in
            guard let dropped = state.work.removeValue(forKey: id.number) else { return (nil, nil) }
            guard state.entries.count > 2 * state.work.count + 64 else { return (dropped, nil) }
            let left = Heap(state.entries.unordered.filter { state.work[$0.number] != nil })
            return (dropped, exchange(&state.entries, with: left))
        }
        _ = consume dropped
        _ = consume old
    }

    /// Cancels all timers, unless their work has begun. Timers that are scheduled later never fire.
    func end() {
        let (sleeper, work) = state.withLock { state in
            state.isEnded = true
            state.entries = Heap()
            return (exchange(&state.sleeper, with: nil), exchange(&state.work, with: [:]))
        }
        sleeper?()
        _ = consume work
    }

    /// Starts a sleeper in place of the one before, unless a later nap has been decided meanwhile.
    private func sleep(_ nap: Nap) {
        let cancel = time.wake(at: nap.due, on: thread) { [weak self] in self?.fire() }
        let unneeded = state.withLock { state in
            state.napNumber == nap.number && !state.isEnded ? exchange(&state.sleeper, with: cancel) : cancel
        }
        unneeded?()
    }

    private func fire() {
        let now = time.now()
        let (due, nap, last) = state.withLock { state -> ([UInt64], Nap?, (@Sendable () -> Void)?) in
            var due: [UInt64] = []
            while let next = state.entries.min, next.due <= now || state.work[next.number] == nil {
                state.entries.removeMin()
                due.append(next.number)
            }
            state.sleepsUntil = nil
            // The sleeper that has woken may not have been noted yet.
            state.napNumber += 1
            let last = exchange(&state.sleeper, with: nil)
            let next = state.isEnded ? nil : state.entries.min
            return (due, next.map { state.nap(until: $0.due) }, last)
        }
        // Another thread may have started this sleeper while the one that has woken was on its way.
        last?()
        if let nap { sleep(nap) }
        for number in due {
            // The timer may have been cancelled, or the queue may have ended, during the work before.
            let work = state.withLock { $0.work.removeValue(forKey: number) }
            work?()
        }
    }
}

extension TimeSource {
    /// The longest wait of a timer of Dispatch. These timers stand still while the computer sleeps, but
    /// `ContinuousClock` goes on.
    private static let longestWait: Duration = .seconds(60)

    /// Calls a closure once, at a time or earlier: a long wait is given up after a minute, and the caller waits again.
    /// - Parameter thread: calls the closure, if this is a clock of the system. Code of the program's own that follows
    ///   from the closure runs elsewhere, so that it does not hold up other timers.
    /// - Returns: a closure that keeps it from being called.
    fileprivate func wake(
        at due: Duration, on thread: SeparateThread, _ body: @escaping @Sendable () -> Void
    ) -> @Sendable () -> Void {
        guard isReal else {
            let task = Task.detached { [sleep] in
                try? await sleep(due)
                if !Task.isCancelled { thread.carryOut(body) }
            }
            return { task.cancel() }
        }
        let wait = min(max(due - now(), .zero), Self.longestWait)
        // Any thread may cancel a timer of Dispatch; only its Swift type does not say so.
        nonisolated(unsafe) let timer = DispatchSource.makeTimerSource(queue: thread.queue)
        timer.setEventHandler {
            timer.cancel()
            thread.carryOut(body)
        }
        timer.schedule(deadline: .now() + wait / .seconds(1))
        timer.activate()
        return { timer.cancel() }
    }
}
