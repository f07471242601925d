import CMnl
import Foundation
import Synchronization

/// A thread that hears of changes of the kernel's routing, until it is stopped.
final class NetlinkWatch: Sendable {
    /// Changes come in bursts: a cable plugged in makes a dozen. From the first one to looking at what has changed.
    private static let settling = Duration.milliseconds(20)
    /// The shortest time from one look to the next.
    private static let spacing = Duration.milliseconds(100)

    /// Wakes the thread to end it.
    private let wakeup: Int32
    private let thread = Mutex<JoinableThread?>(nil)

    init() {
        wakeup = eventfd(0, Int32(EFD_CLOEXEC))
    }

    deinit {
        if wakeup >= 0 { close(wakeup) }
    }

    /// Starts the thread, which asks `monitor` to look at the changes.
    func start(for monitor: NetlinkMonitor) {
        let thread = JoinableThread(name: "dipper-net") { self.run(monitor) }
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

    private func run(_ monitor: NetlinkMonitor) {
        do throws(NetlinkError) {
            guard wakeup >= 0 else { throw NetlinkError("eventfd", code: EMFILE) }
            let socket = try monitor.makeSocket(NetlinkSocket.allChanges)
            try hear(socket, monitor)
        } catch {
            monitor.refused(error, self)
        }
    }

    private func hear(_ socket: NetlinkSocket, _ monitor: NetlinkMonitor) throws(NetlinkError) {
        let clock = ContinuousClock()
        var lastLook = clock.now
        monitor.look(self)
        while true {
            guard try wait([wakeup, socket.descriptor]) else { return }
            monitor.noticed(self)
            // The socket is left alone until then: a burst wakes the thread once.
            let due = max(clock.now + Self.settling, lastLook + Self.spacing)
            guard try wait([wakeup], until: due) else { return }
            // In this order: what comes after the look is heard in the next round.
            try socket.drain()
            monitor.look(self)
            lastLook = clock.now
        }
    }

    /// Waits for the first or any of the descriptors, or the time; false if the thread is to end.
    private func wait(
        _ descriptors: [Int32], until due: ContinuousClock.Instant? = nil
    ) throws(NetlinkError) -> Bool {
        var polled = descriptors.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
        while true {
            let left = due.map { max(0, (ContinuousClock.now.duration(to: $0)).milliseconds) }
            let count = poll(&polled, nfds_t(polled.count), left.map { Int32(clamping: $0) } ?? -1)
            if count < 0, errno != EINTR { throw NetlinkError("poll") }
            if count >= 0 { return polled[0].revents == 0 }
        }
    }
}
