import DipperTesting
import Glibc
import NIOCore
import NIOPosix

/// Starts a server that accepts connections on return, on an event-loop thread of its own.
func listen(
    host: String, port: Int, _ initialize: @escaping @Sendable (ChannelPipeline.SynchronousOperations) throws -> Void
) async throws -> (port: Int, group: MultiThreadedEventLoopGroup) {
    let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    let bootstrap = ServerBootstrap(group: group)
        .serverChannelOption(.backlog, value: 1024)
        .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
        .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
        .childChannelInitializer { channel in
            channel.eventLoop.makeCompletedFuture { try initialize(channel.pipeline.syncOperations) }
        }
    do {
        return (try await bootstrap.bind(host: host, port: port).get().localAddress?.port ?? port, group)
    } catch {
        try? await group.shutdownGracefully()
        throw error
    }
}

extension Channel {
    /// Sends something and calls a closure once the kernel has taken it, or never if the connection breaks.
    func send(_ part: some Sendable, then next: @escaping () -> Void) {
        let promise = eventLoop.makePromise(of: Void.self)
        promise.futureResult.assumeIsolated().whenSuccess(next)
        writeAndFlush(part, promise: promise)
    }

    /// Resets the connection once the client's kernel has acknowledged all bytes, or at the deadline, because a reset
    /// discards the send buffer. Must be called on the event loop.
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

final class ServerLog<Record: Sendable>: Sendable {
    private struct State {
        var record: Record
        var isClosed = false
    }

    private let state: WatchedState<State>

    init(_ record: Record) { state = WatchedState(State(record: record)) }

    var record: Record { state.value.record }

    func change<Result: Sendable>(_ body: (inout Record) -> Result) -> Result {
        state.update { body(&$0.record) }
    }

    func close() { state.update { $0.isClosed = true } }

    /// Waits until a condition holds, the task is cancelled, or the log is closed.
    func wait(until condition: @escaping @Sendable (Record) -> Bool) async {
        try? await state.wait(within: .seconds(3_600), until: { $0.isClosed || condition($0.record) })
    }
}
