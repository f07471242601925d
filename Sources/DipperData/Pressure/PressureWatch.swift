import CMnl
import Foundation
import Synchronization

/// A thread that hears from the kernel how short memory is, until it is stopped.
final class PressureWatch: Sendable {
    private let thread = WakeableThread()

    /// Starts the thread, which tells `monitor` of each change of the level.
    func start(for monitor: KernelMemoryPressure) {
        if let failure = thread.failure { return monitor.cannotWatch(self, failure) }
        thread.start(name: "dipper-memory") { self.run(monitor) }
    }

    /// Ends the thread soon; the thread itself may call this method.
    func stop() { thread.stop() }

    /// Waits until the thread has ended. May be called once.
    func join() async { await thread.join() }

    private func run(_ monitor: KernelMemoryPressure) {
        let clock = ContinuousClock()
        let start = clock.now
        var now: Duration { start.duration(to: clock.now) }
        let sources = PressureSources(root: monitor.root, monitor.timing, now: now)
        if sources.isDeaf { return monitor.isDeaf() }
        var state = PressureState(calm: monitor.timing.calm)
        var signs: [PressureSign] = [.looked]
        while true {
            let (use, before) = (sources.use, state.level)
            for sign in signs.isEmpty ? [.looked] : signs { state.apply(sign, use, at: now) }
            if state.level != before { monitor.learned(state.level, self) }
            // The pause limits the work: events come in large numbers when memory is short.
            guard wait([], for: monitor.timing.spacing) != nil else { return }
            let left = [state.due.map { $0 - now }, sources.period].compactMap { $0 }.min()
            guard let found = wait(sources.polled, for: left) else { return }
            signs = sources.signs(found, at: now)
        }
    }

    /// Waits for the descriptors or the time. Returns the descriptors with the results; `nil` if the thread must end.
    private func wait(_ descriptors: [pollfd], for time: Duration?) -> [pollfd]? {
        let waited = thread.wait(for: descriptors, until: time.map { .now + max(.zero, $0) })
        return if case .found(let found) = waited { found } else { nil }
    }
}
