import CMnl
import Foundation
import Synchronization

/// A thread that receives changes of the kernel's routing until it is stopped.
final class NetlinkWatch: Sendable {
    /// The time from the first change to the look at it. Changes come in bursts: plugging in a cable causes a dozen.
    private static let settling = Duration.milliseconds(20)
    /// The shortest time from one look to the next.
    private static let spacing = Duration.milliseconds(100)

    private let thread = WakeableThread()

    /// Starts the thread, which tells `monitor` to look at the routing after each change.
    func start(for monitor: NetlinkMonitor) { thread.start(name: "dipper-net") { self.run(monitor) } }

    /// Ends the thread soon; the thread itself may call this method.
    func stop() { thread.stop() }

    /// Waits until the thread has ended. May be called once.
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
            // The socket is not polled until then, so that a burst wakes the thread only once.
            let due = max(clock.now + Self.settling, lastLook + Self.spacing)
            guard try wait(for: [], until: due) else { return }
            // Drains first: a change after the look is received in the next round.
            try socket.drain()
            monitor.look(self)
            lastLook = clock.now
        }
    }

    /// Waits for one of the descriptors or for the time. Returns `false` if the thread must end.
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
