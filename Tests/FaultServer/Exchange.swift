import Foundation
import NIOCore
import NIOHTTP1

/// Carries out the plan for one request, on the event loop of its connection.
///
/// Pieces of the body follow one another only when the kernel has taken the one before, so a slow
/// client slows the sending down and the log knows how far it came.
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
    ///   - id: the request in the log, if it is there.
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

    /// Drops what is still to be done: the connection is gone.
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
            // From the last due time, so that intervals do not drift; never to catch up in a burst.
            self.due = max(self.due + self.plan.interval, .now())
            self.timer = self.channel.eventLoop.assumeIsolated()
                .scheduleTask(deadline: self.due) { self.sendBody() }
        }
    }

    private func finish() {
        // An empty piece is not framed by the encoder; it tells when all before it is written.
        send(plan.endsChunks ? .end(nil) : .body(.byteBuffer(ByteBuffer()))) {
            switch self.plan.ending {
            case .keepAlive: self.onEnd()
            case .close: self.channel.close(promise: nil)
            case .reset: self.channel.resetWhenDrained()
            // Until the client hangs up, or the test does.
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
        // A flush that fails closes the connection at once: no timer may be started after that.
        guard !isCancelled else { return }
        guard delay > .zero else { return next() }
        timer = channel.eventLoop.assumeIsolated().scheduleTask(in: delay, next)
    }
}
