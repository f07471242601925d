import CGTK
import Dipper
import Synchronization

/// Brings the cache's closures to the thread of GTK's loop: ``queue`` is all that the cache is told of it.
final class MainLoop: Sendable {
    private struct State {
        /// The next one is the last.
        var waiting: [@Sendable () -> Void] = []
        /// Those that came since, in order.
        var arrived: [@Sendable () -> Void] = []
        var isScheduled = false

        mutating func next() -> (@Sendable () -> Void)? {
            if waiting.isEmpty {
                waiting = arrived.reversed()
                arrived = []
            }
            if waiting.isEmpty { isScheduled = false }
            return waiting.popLast()
        }
    }

    static let shared = MainLoop()

    /// The longest that closures may hold up the loop before it looks at frames and events again.
    private let budget = Duration.milliseconds(4)
    private let state = Mutex(State())

    /// Where the cache calls.
    var queue: CallbackQueue { .custom { work in MainLoop.shared.add(work) } }

    /// Runs a closure in the loop, soon; from any thread.
    func add(_ work: @escaping @Sendable () -> Void) {
        let isFirst = state.withLock { state in
            state.arrived.append(work)
            defer { state.isScheduled = true }
            return !state.isScheduled
        }
        guard isFirst else { return }
        // As urgent as drawing, and in turn with it: neither keeps the other from its work.
        g_idle_add_full(
            GDK_PRIORITY_REDRAW, { _ in Meter.shared.measure { MainLoop.shared.carryOut() } ? 1 : 0 }, nil, nil)
    }

    /// - Returns: whether there is more.
    private func carryOut() -> Bool {
        let end = ContinuousClock.now + budget
        repeat {
            guard let work = state.withLock({ $0.next() }) else { return false }
            work()
        } while ContinuousClock.now < end
        return true
    }
}
