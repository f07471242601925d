import NIOCore

/// The handler of one connection of a ``RawServer``.
///
/// The handler never stops reading, so that it notices at once when the client closes the connection.
final class RawConnection: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let log: RawLog
    private let number: Int
    private let greeting: [RawStep]
    private let script: @Sendable (RawServer.Request) -> [RawStep]
    private var received: [UInt8] = []
    private var requests = 0
    private var steps: ArraySlice<RawStep> = []
    private var isBusy = false
    /// Whether the connection is closed, or this server is about to close it.
    private var isOver = false

    init(log: RawLog, greeting: [RawStep], script: @escaping @Sendable (RawServer.Request) -> [RawStep]) {
        self.log = log
        self.greeting = greeting
        self.script = script
        number = log.newConnection()
    }

    func channelActive(context: ChannelHandlerContext) {
        carryOut(greeting, on: context.channel)
        context.fireChannelActive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        received += Self.unwrapInboundIn(data).readableBytesView
        answerNext(on: context.channel)
    }

    func channelInactive(context: ChannelHandlerContext) {
        if !isOver { log.left(number) }
        isOver = true
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }

    private func answerNext(on channel: any Channel) {
        let end = Array("\r\n\r\n".utf8)
        guard !isBusy, received.count >= end.count,
            let start = (0...(received.count - end.count)).first(where: { received[$0..<($0 + 4)].elementsEqual(end) })
        else { return }
        let head = String(decoding: received[..<(start + end.count)], as: UTF8.self)
        received.removeFirst(start + end.count)
        let request = RawServer.Request(connection: number, number: requests, head: head)
        requests += 1
        log.asked(request)
        carryOut(script(request), on: channel)
    }

    private func carryOut(_ steps: [RawStep], on channel: any Channel) {
        self.steps = steps[...]
        isBusy = true
        next(on: channel)
    }

    private func next(on channel: any Channel) {
        guard !isOver else { return }
        guard let step = steps.popFirst() else {
            isBusy = false
            return answerNext(on: channel)
        }
        switch step {
        case .bytes(let bytes):
            flood(bytes, count: 1, on: channel)
        case .flood(let bytes, let count):
            flood(bytes, count: count, on: channel)
        case .drip(let bytes, let interval, let count):
            drip(bytes, every: .milliseconds(Int64(interval)), count: count, on: channel)
        case .wait:
            break
        case .close:
            isOver = true
            channel.close(promise: nil)
        case .reset:
            isOver = true
            channel.resetWhenDrained()
        }
    }

    private func flood(_ bytes: [UInt8], count: Int, on channel: any Channel) {
        guard count > 0, !bytes.isEmpty else { return next(on: channel) }
        let times = min(count, max(1, Self.pieceSize / bytes.count))
        var piece = channel.allocator.buffer(capacity: times * bytes.count)
        for _ in 0..<times { piece.writeBytes(bytes) }
        flood(piece, of: times, rest: count, on: channel)
    }

    /// - Parameters:
    ///   - times: the number of repetitions in a piece.
    ///   - rest: the number of repetitions still to send.
    private func flood(_ piece: ByteBuffer, of times: Int, rest: Int, on channel: any Channel) {
        guard rest > 0 else { return next(on: channel) }
        let part = min(times, rest)
        let slice = piece.getSlice(at: piece.readerIndex, length: piece.readableBytes / times * part) ?? piece
        send(slice, on: channel) { self.flood(piece, of: times, rest: rest - part, on: channel) }
    }

    private func drip(_ bytes: [UInt8], every interval: TimeAmount, count: Int, on channel: any Channel) {
        guard count > 0, !isOver else { return next(on: channel) }
        send(channel.allocator.buffer(bytes: bytes), on: channel) {
            channel.eventLoop.assumeIsolated().scheduleTask(in: interval) {
                self.drip(bytes, every: interval, count: count - 1, on: channel)
            }
        }
    }

    private func send(_ bytes: ByteBuffer, on channel: any Channel, then next: @escaping () -> Void) {
        let count = bytes.readableBytes
        let promise = channel.eventLoop.makePromise(of: Void.self)
        promise.futureResult.assumeIsolated().whenSuccess {
            self.log.sent(count, on: self.number)
            if !self.isOver { next() }
        }
        channel.writeAndFlush(bytes, promise: promise)
    }

    private static let pieceSize = 64 << 10
}
