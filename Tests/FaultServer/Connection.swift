import Foundation
import NIOCore
import NIOHTTP1

/// The handler of one connection: logs its requests as they arrive and answers them one after the other.
///
/// It never stops reading, so that it notices at once when the client hangs up; pipelined requests wait.
final class ConnectionHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart

    private struct Pending {
        var head: HTTPRequestHead
        var id: Int
        var ordinal: Int
        var isComplete = false
    }

    private let log: ServerLog<FaultServer.Record>
    private let files: [String: Data]
    /// Unfinished requests. If `isAnswering`, the first one is being answered.
    private var pending: [Pending] = []
    private var isAnswering = false
    private var exchange: Exchange?

    init(_ log: ServerLog<FaultServer.Record>, _ files: [String: Data]) { (self.log, self.files) = (log, files) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch Self.unwrapInboundIn(data) {
        case .head(let head):
            let (id, ordinal) = log.change { $0.begin(head) }
            pending.append(Pending(head: head, id: id, ordinal: ordinal))
        case .body: break
        case .end:
            guard !pending.isEmpty else { return }
            pending[pending.count - 1].isComplete = true
            answerNext(on: context.channel)
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        exchange?.cancel()
        exchange = nil
        log.change { [ids = pending.map(\.id)] record in for id in ids { record.end(id) } }
        pending = []
        context.fireChannelInactive()
    }

    // The bytes are not HTTP, or the connection broke; `channelInactive` follows.
    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    private func answerNext(on channel: any Channel) {
        guard !isAnswering, let request = pending.first, request.isComplete else { return }
        isAnswering = true
        // Without a plan the request stays the first forever, so the connection answers nothing any more.
        guard let plan = Plan(for: request.head, ordinal: request.ordinal, resource: resource) else { return }
        exchange = Exchange(plan, on: channel, log, request.id) { [weak self] in
            guard let self, !pending.isEmpty else { return }
            (exchange, isAnswering) = (nil, false)
            log.change { [id = pending.removeFirst().id] in $0.end(id) }
            answerNext(on: channel)
        }
        exchange?.start()
    }

    private func resource(_ path: String) -> Data? {
        if let file = files[path] { return file }
        let steps = path.split(separator: "/", omittingEmptySubsequences: false)
        if path == "/log" { return logText() }
        // The limit prevents a typing error from using up the machine's memory.
        guard steps.count > 2, steps[1] == "bytes", let size = Int(steps[2]), (0...(1 << 30)).contains(size)
        else { return nil }
        return FaultServer.body(of: path, size: size)
    }

    private func logText() -> Data? {
        struct Entry: Encodable {
            var path: String
            /// Milliseconds since the first request.
            var startMS: Double
            /// Absent while the response is running.
            var endMS: Double?
        }
        let requests = log.record.requests
        guard let epoch = requests.first?.start else { return nil }
        func milliseconds(_ time: ContinuousClock.Instant) -> Double { (time - epoch) / .milliseconds(1) }
        return try? JSONEncoder().encode(
            requests.filter { $0.path != "/log" }.map {
                Entry(path: $0.path, startMS: milliseconds($0.start), endMS: $0.end.map(milliseconds))
            })
    }
}

/// Carries out the plan for one request, on the event loop of its connection.
///
/// Each piece of the body is sent only after the kernel has taken the previous one, so a slow client slows down the
/// sending, and the log has the number of bytes sent.
private final class Exchange {
    private let channel: any Channel
    private let plan: Plan
    private let log: ServerLog<FaultServer.Record>
    private let id: Int
    private let onEnd: () -> Void

    private var rest: ByteBuffer
    private var due = NIODeadline.now()
    private var timer: Scheduled<Void>?
    private var isCancelled = false

    /// - Parameter onEnd: called when the response is sent and the connection stays open.
    init(
        _ plan: Plan, on channel: any Channel, _ log: ServerLog<FaultServer.Record>, _ id: Int,
        onEnd: @escaping () -> Void
    ) {
        (self.plan, self.channel, self.log, self.id, self.onEnd, rest) = (plan, channel, log, id, onEnd, plan.body)
    }

    func start() {
        guard plan.delay > .zero else { return sendHead() }
        timer = channel.eventLoop.assumeIsolated().scheduleTask(in: plan.delay) { self.sendHead() }
    }

    func cancel() {
        isCancelled = true
        timer?.cancel()
        timer = nil
    }

    private func sendHead() {
        log.change { [id, status = Int(plan.head.status.code)] in $0.update(id) { $0.status = status } }
        channel.write(HTTPServerResponsePart.head(plan.head), promise: nil)
        due = .now()
        sendBody()
    }

    private func sendBody() {
        guard let piece = rest.readSlice(length: min(plan.pieceSize, rest.readableBytes)), piece.readableBytes > 0
        else { return finish() }
        send(.body(.byteBuffer(piece))) {
            self.log.change { [id = self.id] in $0.update(id) { $0.bytesSent += piece.readableBytes } }
            guard self.rest.readableBytes > 0 else { return self.finish() }
            guard self.plan.interval > .zero else { return self.sendBody() }
            // From the last due time, so that intervals do not drift; never in the past, so that no burst catches up.
            self.due = max(self.due + self.plan.interval, .now())
            self.timer = self.channel.eventLoop.assumeIsolated().scheduleTask(deadline: self.due) { self.sendBody() }
        }
    }

    private func finish() {
        // The encoder writes no frame for an empty piece; its promise completes once all earlier pieces are written.
        send(plan.endsChunks ? .end(nil) : .body(.byteBuffer(ByteBuffer()))) {
            switch self.plan.ending {
            case .keepAlive: self.onEnd()
            case .close: self.channel.close(promise: nil)
            case .reset: self.channel.resetWhenDrained()
            // The connection stays open until the client or the test closes it.
            case .silence:
                self.log.change { [id = self.id, channel = self.channel] record in
                    record.update(id) { $0.isStalled = true }
                    record.stalled.append(channel)
                }
            }
        }
    }

    private func send(_ part: HTTPServerResponsePart, then next: @escaping () -> Void) {
        channel.send(part) { if !self.isCancelled { next() } }
    }
}
