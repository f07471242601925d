import CMnl
import Foundation
import Synchronization

/// A thread that waits in the kernel for descriptors and times, and can be woken to end.
final class WakeableThread: Sendable {
    enum Waited {
        /// The descriptors with their events; without events if the time came first.
        case found([pollfd])
        /// The thread must end.
        case stopped
        /// The kernel refused to wait, with this `errno`.
        case failed(Int32)
    }

    /// The `errno` of a failure because of which the thread cannot be woken; it must then not wait.
    let failure: Int32?
    private let wakeup: Int32
    private let thread = AtomicLazyReference<JoinableThread>()

    init() {
        wakeup = eventfd(0, Int32(EFD_CLOEXEC))
        failure = wakeup < 0 ? errno : nil
    }

    deinit {
        if wakeup >= 0 { close(wakeup) }
    }

    /// Starts the thread. Call this method once.
    func start(name: String, _ run: @escaping @Sendable () -> Void) {
        _ = thread.storeIfNil(JoinableThread(name: name, run))
    }

    /// Makes the thread end soon. The thread may call this method itself.
    func stop() {
        if wakeup >= 0 { eventfd_write(wakeup, 1) }
    }

    /// Returns when the thread has ended. Call this method once.
    func join() async {
        await thread.load()?.join()
    }

    /// Waits for any of the descriptors, or for the time. Only the thread itself calls this method.
    func wait(for descriptors: [pollfd] = [], until due: ContinuousClock.Instant? = nil) -> Waited {
        var polled = [pollfd(fd: wakeup, events: Int16(POLLIN), revents: 0)] + descriptors
        while true {
            let left = due.map { max(0, ContinuousClock.now.duration(to: $0) / .milliseconds(1)).rounded(.up) }
            let count = poll(&polled, nfds_t(polled.count), left.map { Int32(min($0, 1e6)) } ?? -1)
            if count < 0, errno != EINTR { return .failed(errno) }
            if count > 0 { return polled[0].revents == 0 ? .found(Array(polled.dropFirst())) : .stopped }
            // A wait for longer than one call of `poll` continues.
            if count == 0, due.map({ $0 <= .now }) ?? false { return .found(Array(polled.dropFirst())) }
        }
    }
}
