import NIOCore
import NIOHTTP1

/// The handler of one connection: logs its requests as they arrive and answers them one after the other.
///
/// The handler never stops reading, so that it notices at once when the client hangs up, even while a response is
/// delayed. Pipelined requests therefore wait in the handler.
final class ConnectionHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart

    private struct Pending {
        var head: HTTPRequestHead
        /// The id of the request in the log; `nil` for requests to `/log`.
        var id: Int?
        var ordinal: Int
        var isComplete = false
    }

    private let log: RequestLog
    private let connection: Int
    /// Unfinished requests. If `isAnswering`, the first one is being answered.
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
        // The bytes are not HTTP, or the connection broke; `channelInactive` follows.
        context.close(promise: nil)
    }

    private func answerNext(on channel: any Channel) {
        guard !isAnswering, let request = pending.first, request.isComplete else { return }
        isAnswering = true
        // Without a plan the request stays the first forever, so the connection answers nothing any more.
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
