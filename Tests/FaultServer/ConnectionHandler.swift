import NIOCore
import NIOHTTP1

/// One connection: logs its requests as they come and answers them one after the other.
///
/// It never stops reading, so that a client's hanging up is seen at once, also while a response
/// is delayed; pipelined requests therefore wait here.
final class ConnectionHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart

    private struct Pending {
        var head: HTTPRequestHead
        /// The request in the log; `nil` for those to `/log`.
        var id: Int?
        var ordinal: Int
        var isComplete = false
    }

    private let log: RequestLog
    private let connection: Int
    /// The first one is being answered if `isAnswering`.
    private var pending = CircularBuffer<Pending>()
    private var isAnswering = false
    private var exchange: Exchange?

    init(log: RequestLog) {
        self.log = log
        connection = log.newConnection()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch Self.unwrapInboundIn(data) {
        case .head(let head):
            let path = Target(head.uri).path
            if path == "/log" {
                pending.append(Pending(head: head, id: nil, ordinal: 1))
            } else {
                let (id, ordinal) = log.begin(head, path: path, connection: connection)
                pending.append(Pending(head: head, id: id, ordinal: ordinal))
            }
        case .body:
            break
        case .end:
            guard !pending.isEmpty else { return }
            pending[pending.index(before: pending.endIndex)].isComplete = true
            answerNext(on: context.channel)
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        exchange?.cancel()
        exchange = nil
        for request in pending { if let id = request.id { log.end(id) } }
        pending.removeAll()
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // Not HTTP, or the connection broke: `channelInactive` follows.
        context.close(promise: nil)
    }

    private func answerNext(on channel: any Channel) {
        guard !isAnswering, let request = pending.first, request.isComplete else { return }
        isAnswering = true
        // Without a plan the request stays the first for good: nothing is answered any more.
        guard let plan = Plan(for: request.head, ordinal: request.ordinal, log: log) else { return }
        exchange = Exchange(plan, on: channel, log: log, id: request.id) { [weak self] in
            self?.answered(on: channel)
        }
        exchange?.start()
    }

    private func answered(on channel: any Channel) {
        exchange = nil
        isAnswering = false
        if let id = pending.popFirst()?.id { log.end(id) }
        answerNext(on: channel)
    }
}
