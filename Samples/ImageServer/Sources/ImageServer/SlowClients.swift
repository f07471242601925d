import NIOCore

/// Ends a connection whose client takes nothing of what is sent to it.
///
/// A channel that has bytes to send is not writable, so that the end of an answer is written after all its bytes have gone
/// to the socket: the server counts the idle time of a connection from there, and closes it there when it ends.
final class SlowClients: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = NIOAny

    private let patience: TimeAmount
    private var end: Scheduled<Void>?

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
        forget()
        if !context.channel.isWritable {
            let channel = context.channel
            end = context.eventLoop.scheduleTask(in: patience) { channel.close(promise: nil) }
        }
        context.fireChannelWritabilityChanged()
    }

    private func forget() {
        end?.cancel()
        end = nil
    }
}
