import HummingbirdCore
import Logging
import NIOCore

/// The connections of the server. Their requests are handled on the threads of their event loops, so that an answer from
/// memory needs no other thread. Nothing there may block.
struct Connections: ServerChildChannel {
    let channels: HTTP1Channel

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<HTTP1Channel.Value> {
        channels.setup(channel: channel, logger: logger)
    }

    func handle(value: HTTP1Channel.Value, logger: Logger) async {
        await withTaskExecutorPreference(LoopExecutor(loop: value.channel.eventLoop)) {
            await channels.handle(value: value, logger: logger)
        }
    }
}

/// Runs tasks on the thread of an event loop.
private final class LoopExecutor: TaskExecutor {
    private let loop: any EventLoop

    init(loop: any EventLoop) { self.loop = loop }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        loop.execute { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}

/// Ends a connection whose client takes nothing of what is sent to it.
///
/// A channel that has bytes to send is not writable, so that the end of an answer is written after all its bytes have gone
/// to the socket: the server counts the idle time of a connection from there, and closes it there when it ends.
final class SlowClients: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = NIOAny

    private let patience: TimeAmount
    /// The time from which a client that takes nothing is ended. `nil` while there is nothing to take.
    private var end: NIODeadline?
    private var check: Scheduled<Void>?

    init(patience: TimeAmount) { self.patience = patience }

    func handlerAdded(context: ChannelHandlerContext) {
        try? context.channel.syncOptions?.setOption(.writeBufferWaterMark, value: .init(low: 1, high: 1))
    }

    func handlerRemoved(context: ChannelHandlerContext) { forget() }

    func channelInactive(context: ChannelHandlerContext) {
        forget()
        context.fireChannelInactive()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        end = context.channel.isWritable ? nil : context.eventLoop.now + patience
        if let end, check == nil { look(at: end, context.channel) }
        context.fireChannelWritabilityChanged()
    }

    /// One look serves all answers until then.
    private func look(at time: NIODeadline, _ channel: any Channel) {
        check = channel.eventLoop.assumeIsolated().scheduleTask(deadline: time) { [self] in
            check = nil
            guard let end else { return }
            if end <= channel.eventLoop.now { channel.close(promise: nil) } else { look(at: end, channel) }
        }
    }

    private func forget() {
        check?.cancel()
        (check, end) = (nil, nil)
    }
}
