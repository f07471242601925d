import DipperData
import Dispatch
import Synchronization

/// A timer on an injected clock, which calls a closure once, at the time that was set last.
final class Alarm: Sendable {
    private struct State {
        var number = 0
        var cancel: (@Sendable () -> Void)?
    }

    private let time: TimeSource
    private let queue: DispatchQueue
    private let state = Mutex(State())

    init(_ time: TimeSource, on queue: DispatchQueue = DispatchQueue(label: "dipper.alarm")) {
        self.time = time
        self.queue = queue
    }

    func set(at due: Duration, _ body: @escaping @Sendable () -> Void) {
        let number = begin()
        let cancel = time.wake(at: due, on: queue) { [weak self] in self?.ring(number, due, body) }
        let unneeded = state.withLock { $0.number == number ? exchange(&$0.cancel, with: cancel) : cancel }
        unneeded?()
    }

    func cancel() { _ = begin() }

    private func begin() -> Int {
        let (number, old) = state.withLock { state in
            state.number += 1
            return (state.number, exchange(&state.cancel, with: nil))
        }
        old?()
        return number
    }

    private func ring(_ number: Int, _ due: Duration, _ body: @escaping @Sendable () -> Void) {
        guard state.withLock({ $0.number == number }) else { return }
        if time.now() < due { set(at: due, body) } else { body() }
    }
}

extension TimeSource {
    /// Timers of Dispatch stand still while the computer sleeps, but `ContinuousClock` goes on.
    private static let longestWait: Duration = .seconds(60)

    /// Calls a closure once, at a time or earlier, within a minute. Returns a closure that cancels it.
    fileprivate func wake(
        at due: Duration, on queue: DispatchQueue, _ body: @escaping @Sendable () -> Void
    ) -> @Sendable () -> Void {
        guard isReal else {
            let task = Task.detached { [sleep] in
                try? await sleep(due)
                if !Task.isCancelled { body() }
            }
            return { task.cancel() }
        }
        let wait = min(max(due - now(), .zero), Self.longestWait)
        // Any thread may cancel a timer of Dispatch; only its Swift type does not say so.
        nonisolated(unsafe) let timer = DispatchSource.makeTimerSource(queue: queue)
        timer.setEventHandler {
            timer.cancel()
            body()
        }
        timer.schedule(deadline: .now() + wait / .seconds(1))
        timer.activate()
        return { timer.cancel() }
    }
}
