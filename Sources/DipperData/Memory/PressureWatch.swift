import CMnl
import Foundation
import Synchronization

/// A thread that hears from the kernel how short memory is, until it is stopped.
final class PressureWatch: Sendable {
    /// Wakes the thread to end it.
    private let wakeup: Int32
    /// Why there is no `wakeup`, as an `errno`.
    private let failure: Int32
    private let thread = Mutex<JoinableThread?>(nil)

    init() {
        wakeup = eventfd(0, Int32(EFD_CLOEXEC))
        failure = wakeup < 0 ? errno : 0
    }

    deinit {
        if wakeup >= 0 { close(wakeup) }
    }

    /// Starts the thread, which tells `monitor` of each change.
    func start(for monitor: KernelMemoryPressure) {
        guard wakeup >= 0 else { return monitor.cannotWatch(self, failure) }
        let thread = JoinableThread(name: "dipper-memory") { self.run(monitor) }
        self.thread.withLock { $0 = thread }
    }

    /// Ends the thread soon; may be called from itself.
    func stop() {
        if wakeup >= 0 { eventfd_write(wakeup, 1) }
    }

    /// Returns when the thread has ended. To be called once.
    func join() async {
        let thread = thread.withLock { exchange(&$0, with: nil) }
        await thread?.join()
    }

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
            // Events come in storms when there is no memory.
            guard wait([], for: monitor.timing.spacing) != nil else { return }
            let left = [state.due.map { $0 - now }, sources.period].compactMap { $0 }.min()
            guard let found = wait(sources.polled, for: left) else { return }
            signs = sources.signs(found, at: now)
        }
    }

    /// What the descriptors tell; `nil` if the thread is to end.
    private func wait(_ descriptors: [pollfd], for time: Duration?) -> [pollfd]? {
        var polled = [pollfd(fd: wakeup, events: Int16(POLLIN), revents: 0)] + descriptors
        let deadline = time.map { ContinuousClock.now + max(.zero, $0) }
        while true {
            let left = deadline.map { max(0, ContinuousClock.now.duration(to: $0) / .milliseconds(1)).rounded(.up) }
            let count = poll(&polled, nfds_t(polled.count), left.map { Int32(min($0, 1e6)) } ?? -1)
            if count < 0, errno != EINTR { return nil }
            if count >= 0 { return polled[0].revents == 0 ? Array(polled.dropFirst()) : nil }
        }
    }
}
