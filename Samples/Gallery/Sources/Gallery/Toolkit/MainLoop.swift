import CGTK
import Dipper
import Synchronization

/// The thread of GTK's loop, on which the cache runs its closures through ``queue``.
final class MainLoop: Sendable {
    private struct State {
        /// The closures to run, in reverse order.
        var waiting: [@Sendable () -> Void] = []
        /// The closures that arrived after those in `waiting`, in order.
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

    /// The longest time that closures run before GTK's loop handles frames and events again.
    private let budget = Duration.milliseconds(4)
    private let state = Mutex(State())

    /// The callback queue that runs the cache's closures in GTK's loop.
    var queue: CallbackQueue { .custom { work in MainLoop.shared.add(work) } }

    /// Schedules a closure to run in GTK's loop. May be called on any thread.
    func add(_ work: @escaping @Sendable () -> Void) {
        let isFirst = state.withLock { state in
            state.arrived.append(work)
            defer { state.isScheduled = true }
            return !state.isScheduled
        }
        guard isFirst else { return }
        // With the priority of drawing, GTK alternates between both and neither starves.
        g_idle_add_full(
            GDK_PRIORITY_REDRAW, { _ in Meter.shared.measure { MainLoop.shared.carryOut() } ? 1 : 0 }, nil, nil)
    }

    /// Runs waiting closures until none is left or the time is up.
    /// - Returns: Whether closures may be left.
    private func carryOut() -> Bool {
        let end = ContinuousClock.now + budget
        repeat {
            guard let work = state.withLock({ $0.next() }) else { return false }
            work()
        } while ContinuousClock.now < end
        return true
    }
}
