import Foundation
import NIOCore
import NIOHTTP1

/// Carries out the plan for one request, on the event loop of its connection.
///
/// Each piece of the body is sent only after the kernel has taken the previous one, so a slow client slows down the
/// sending, and the log has the number of bytes sent.
final class Exchange {
    private let channel: any Channel
    private let plan: Plan
    private let log: RequestLog
    private let id: Int?
    private let onEnd: () -> Void

    private var rest: ByteBuffer
    private var due = NIODeadline.now()
    private var timer: Scheduled<Void>?
    private var isCancelled = false

    /// - Parameters:
    ///   - id: the id of the request in the log; `nil` if it is not logged.
    ///   - onEnd: called when the response is sent and the connection stays open.
    init(
        _ plan: Plan, on channel: any Channel, log: RequestLog, id: Int?,
        onEnd: @escaping () -> Void
    ) {
        self.plan = plan
        self.channel = channel
        self.log = log
        self.id = id
        self.onEnd = onEnd
        rest = plan.body
    }

    func start() {
        after(plan.delay) { self.sendHead() }
    }

    /// Stops the exchange, because the connection is closed.
    func cancel() {
        isCancelled = true
        timer?.cancel()
        timer = nil
    }

    private func sendHead() {
        if let id { log.answered(id, status: Int(plan.head.status.code)) }
        channel.write(HTTPServerResponsePart.head(plan.head), promise: nil)
        if plan.bodyDelay > .zero { channel.flush() }
        after(plan.bodyDelay) {
            self.due = .now()
            self.sendBody()
        }
    }

    private func sendBody() {
        let count = min(plan.pieceSize, rest.readableBytes)
        guard count > 0, let piece = rest.readSlice(length: count) else { return finish() }
        send(.body(.byteBuffer(piece))) {
            if let id = self.id { self.log.sent(id, bytes: count) }
            guard self.rest.readableBytes > 0 else { return self.finish() }
            guard self.plan.interval > .zero else { return self.sendBody() }
            // Counted from the last due time, so that intervals do not drift; never in the past, so that no burst
            // catches up.
            self.due = max(self.due + self.plan.interval, .now())
            self.timer = self.channel.eventLoop.assumeIsolated()
                .scheduleTask(deadline: self.due) { self.sendBody() }
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
            case .silence: self.log.stalled(self.channel, path: self.plan.path)
            }
        }
    }

    private func send(_ part: HTTPServerResponsePart, then next: @escaping () -> Void) {
        let promise = channel.eventLoop.makePromise(of: Void.self)
        promise.futureResult.assumeIsolated().whenSuccess {
            if !self.isCancelled { next() }
        }
        channel.writeAndFlush(part, promise: promise)
    }

    private func after(_ delay: TimeAmount, _ next: @escaping () -> Void) {
        // A flush that fails closes the connection at once; no timer may start after that.
        guard !isCancelled else { return }
        guard delay > .zero else { return next() }
        timer = channel.eventLoop.assumeIsolated().scheduleTask(in: delay, next)
    }
}
