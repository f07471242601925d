import CMnl
import Foundation
import Synchronization

/// A thread that hears of changes of the kernel's routing, until it is stopped.
final class NetlinkWatch: Sendable {
    /// Changes come in bursts: a cable plugged in makes a dozen. From the first one to looking at what has changed.
    private static let settling = Duration.milliseconds(20)
    /// The shortest time from one look to the next.
    private static let spacing = Duration.milliseconds(100)

    private let thread = WakeableThread()

    /// Starts the thread, which asks `monitor` to look at the changes.
    func start(for monitor: NetlinkMonitor) { thread.start(name: "dipper-net") { self.run(monitor) } }

    /// Ends the thread soon; may be called from itself.
    func stop() { thread.stop() }

    /// Returns when the thread has ended. To be called once.
    func join() async { await thread.join() }

    private func run(_ monitor: NetlinkMonitor) {
        do throws(NetlinkError) {
            if let failure = thread.failure { throw NetlinkError("eventfd", code: failure) }
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
            guard try wait(for: [socket.descriptor]) else { return }
            monitor.noticed(self)
            // The socket is left alone until then: a burst wakes the thread once.
            let due = max(clock.now + Self.settling, lastLook + Self.spacing)
            guard try wait(for: [], until: due) else { return }
            // In this order: what comes after the look is heard in the next round.
            try socket.drain()
            monitor.look(self)
            lastLook = clock.now
        }
    }

    /// Waits for any of the descriptors, or the time; false if the thread is to end.
    private func wait(
        for descriptors: [Int32], until due: ContinuousClock.Instant? = nil
    ) throws(NetlinkError) -> Bool {
        switch thread.wait(for: descriptors.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }, until: due) {
        case .found: return true
        case .stopped: return false
        case .failed(let code): throw NetlinkError("poll", code: code)
        }
    }
}
