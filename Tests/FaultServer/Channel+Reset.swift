import NIOCore
import NIOPosix

#if canImport(Glibc)
    import Glibc
#else
    import Musl
#endif

extension Channel {
    /// Resets the connection once the client's kernel has acknowledged all bytes, or at the deadline.
    ///
    /// A reset discards the contents of the send buffer, but tests need exactly the bytes that they asked for. Must be
    /// called on the event loop.
    func resetWhenDrained(before deadline: NIODeadline = .now() + .seconds(2)) {
        guard queuedBytes == 0 || NIODeadline.now() >= deadline else {
            eventLoop.assumeIsolated().scheduleTask(in: .milliseconds(1)) { self.resetWhenDrained(before: deadline) }
            return
        }
        guard let options = self as? any SocketOptionProvider else { return close(promise: nil) }
        options.setSoLinger(linger(l_onoff: 1, l_linger: 0)).assumeIsolated().whenComplete { _ in
            self.close(promise: nil)
        }
    }

    /// The number of bytes that were written and not yet acknowledged (`SIOCOUTQ`, tcp(7)).
    private var queuedBytes: CInt {
        let bytes = try? pipeline.syncOperations.withUnsafeTransportIfAvailable(of: NIOBSDSocket.Handle.self) {
            var bytes: CInt = 0
            return ioctl($0, UInt(TIOCOUTQ), &bytes) == 0 ? bytes : 0
        }
        return bytes ?? 0
    }
}
