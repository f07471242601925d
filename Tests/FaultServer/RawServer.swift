import NIOCore
import NIOPosix

/// A step of a ``RawServer`` on a connection. Steps run one after the other.
public enum RawStep: Sendable {
    /// Sends bytes `count` times, as fast as the client takes them.
    case flood([UInt8], count: Int)
    /// Sends bytes `count` times, with a pause of `every` milliseconds after each time.
    case drip([UInt8], every: Int, count: Int)
    /// Sends nothing more, but still notices when the client closes the connection.
    case wait
    /// Closes the connection normally.
    case close
    /// Resets the connection once the client's kernel has acknowledged all bytes, or after 2 seconds.
    case reset
    /// Connects to a port of this machine, and forwards all further bytes in both directions.
    case tunnel(port: Int)

    public static func bytes(_ bytes: [UInt8]) -> RawStep { .flood(bytes, count: 1) }
    public static func send(_ text: String) -> RawStep { .bytes(Array(text.utf8)) }

    /// Returns the step that sends a text again and again, as fast as the client takes it.
    public static func `repeat`(_ text: String, count: Int = .max) -> RawStep { .flood(Array(text.utf8), count: count) }
}

/// A TCP server for tests that sends the bytes of a script, whether they are HTTP or not.
///
/// ```swift
/// let server = try await RawServer.start { request in
///     request.path == "/endless"
///         ? [.send("HTTP/1.1 200 OK\r\n\r\n"), .repeat("x")] : [.send("HTTP/1.1 204 No Content\r\n\r\n")]
/// }
/// // … the client under test fetches server.url("/endless") …
/// await server.waitUntilLeft(1)
/// #expect(server.connections[0].bytesSent < 5_000_000)
/// await server.stop()
/// ```
///
/// A request ends with an empty line; the server does not understand requests with a body. It never answers bytes
/// without an empty line, such as a TLS handshake.
public final class RawServer: Sendable {
    /// A request that the server has received.
    public struct Request: Sendable {
        /// The request line and fields as received, with the empty line; as Latin-1 if they are not UTF-8.
        public let head: String

        /// The target in the request line; empty if there is none.
        public var path: String {
            let parts = head.prefix { $0 != "\r\n" }.split(separator: " ")
            return parts.count > 1 ? String(parts[1]) : ""
        }

        /// Returns the value of the first field with a name, in any case; `nil` if there is none.
        public func header(_ name: String) -> String? {
            for line in head.split(separator: "\r\n").dropFirst() {
                let parts = line.split(separator: ":", maxSplits: 1)
                guard parts.count == 2, parts[0].lowercased() == name.lowercased() else { continue }
                return String(parts[1].drop { $0 == " " })
            }
            return nil
        }
    }

    /// A connection and its state so far.
    public struct Connection: Sendable {
        /// The requests on the connection so far.
        public internal(set) var requests: [Request] = []
        /// The number of bytes that the kernel has taken, counted in pieces of at most 64 KiB, or of the bytes of one
        /// step if these are more.
        public internal(set) var bytesSent = 0
        /// Whether the client or the network, not this server, has closed the connection.
        var wasLeft = false
    }

    public let port: Int
    private let host: String
    private let group: MultiThreadedEventLoopGroup
    private let log: ServerLog<[Connection]>

    private init(_ host: String, _ port: Int, _ group: MultiThreadedEventLoopGroup, _ log: ServerLog<[Connection]>) {
        (self.host, self.port, self.group, self.log) = (host, port, group, log)
    }

    // Does nothing after `stop()`.
    deinit { group.shutdownGracefully { _ in } }

    /// Starts a server on a free port.
    /// - Parameters:
    ///   - greeting: the steps for each new connection, before its first request.
    ///   - script: returns the steps for a request, after which the server handles the connection's next request.
    public static func start(
        host: String = "127.0.0.1", greeting: [RawStep] = [],
        script: @escaping @Sendable (Request) -> [RawStep] = { _ in [] }
    ) async throws -> RawServer {
        let log = ServerLog<[Connection]>([])
        let (port, group) = try await listen(host: host, port: 0) { pipeline in
            try pipeline.addHandler(RawConnection(log: log, greeting: greeting, script: script))
        }
        return RawServer(host, port, group, log)
    }

    /// - Parameter pathAndQuery: path and query, with the leading slash and already percent-encoded.
    public func url(_ pathAndQuery: String, scheme: String = "http") -> String {
        "\(scheme)://\(host):\(port)\(pathAndQuery)"
    }

    /// All connections so far, in order of arrival.
    public var connections: [Connection] { log.record }

    /// All requests so far, by connection.
    public var requests: [Request] { log.record.flatMap(\.requests) }

    /// Waits until clients have closed `count` connections. Returns early when the server is stopped.
    public func waitUntilLeft(_ count: Int) async { await log.wait { $0.count(where: \.wasLeft) >= count } }

    /// Closes the listener and all connections and ends the event-loop thread. Calling it again is harmless.
    public func stop() async {
        try? await group.shutdownGracefully()
        log.close()
    }
}

/// The handler of one connection, which never stops reading, so that it notices at once when the client hangs up.
private final class RawConnection: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private static let pieceSize = 64 << 10
    private static let headEnd = Array("\r\n\r\n".utf8)

    private let log: ServerLog<[RawServer.Connection]>
    private let number: Int
    private let greeting: [RawStep]
    private let script: @Sendable (RawServer.Request) -> [RawStep]
    private var received: [UInt8] = []
    private var steps: ArraySlice<RawStep> = []
    private var isBusy = false
    /// Whether the connection is closed, or this server is about to close it.
    private var isOver = false
    private var exit: (any Channel)?

    init(
        log: ServerLog<[RawServer.Connection]>, greeting: [RawStep],
        script: @escaping @Sendable (RawServer.Request) -> [RawStep]
    ) {
        (self.log, self.greeting, self.script) = (log, greeting, script)
        number = log.change { connections in
            connections.append(RawServer.Connection())
            return connections.count - 1
        }
    }

    func channelActive(context: ChannelHandlerContext) {
        carryOut(greeting, on: context.channel)
        context.fireChannelActive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let bytes = Self.unwrapInboundIn(data)
        if let exit { return exit.writeAndFlush(bytes, promise: nil) }
        received += bytes.readableBytesView
        answerNext(on: context.channel)
    }

    func channelInactive(context: ChannelHandlerContext) {
        if !isOver { log.change { [number] in $0[number].wasLeft = true } }
        isOver = true
        exit?.close(promise: nil)
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    private func answerNext(on channel: any Channel) {
        guard !isBusy, let end = received.firstRange(of: Self.headEnd)?.upperBound else { return }
        let head = received[..<end]
        let text = String(validating: head, as: UTF8.self) ?? String(head.map { Character(Unicode.Scalar($0)) })
        let request = RawServer.Request(head: text)
        received.removeFirst(end)
        log.change { [number] in $0[number].requests.append(request) }
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
        case .flood(let bytes, let count):
            let times = min(count, max(1, Self.pieceSize / max(1, bytes.count)))
            var piece = ByteBuffer()
            for _ in 0..<times { piece.writeBytes(bytes) }
            flood(piece, of: times, rest: bytes.isEmpty ? 0 : count, on: channel)
        case .drip(let bytes, let interval, let count):
            drip(ByteBuffer(bytes: bytes), every: .milliseconds(Int64(interval)), count: count, on: channel)
        case .wait: break
        case .close, .reset:
            isOver = true
            if case .close = step { channel.close(promise: nil) } else { channel.resetWhenDrained() }
        case .tunnel(let port): tunnel(to: port, on: channel)
        }
    }

    /// `times` repetitions are in a piece, and `rest` are still to send.
    private func flood(_ piece: ByteBuffer, of times: Int, rest: Int, on channel: any Channel) {
        guard rest > 0 else { return next(on: channel) }
        let part = min(times, rest)
        let slice = piece.getSlice(at: piece.readerIndex, length: piece.readableBytes / times * part) ?? piece
        send(slice, on: channel) { self.flood(piece, of: times, rest: rest - part, on: channel) }
    }

    private func drip(_ bytes: ByteBuffer, every interval: TimeAmount, count: Int, on channel: any Channel) {
        guard count > 0, !isOver else { return next(on: channel) }
        send(bytes, on: channel) {
            channel.eventLoop.assumeIsolated().scheduleTask(in: interval) {
                self.drip(bytes, every: interval, count: count - 1, on: channel)
            }
        }
    }

    private func send(_ bytes: ByteBuffer, on channel: any Channel, then next: @escaping () -> Void) {
        channel.send(bytes) {
            self.log.change { [number = self.number] in $0[number].bytesSent += bytes.readableBytes }
            if !self.isOver { next() }
        }
    }

    private func tunnel(to port: Int, on channel: any Channel) {
        ClientBootstrap(group: channel.eventLoop)
            .channelInitializer { exit in
                exit.eventLoop.makeCompletedFuture {
                    try exit.pipeline.syncOperations.addHandler(TunnelExit(entrance: channel))
                }
            }
            .connect(host: "127.0.0.1", port: port).assumeIsolated().whenComplete { result in
                guard case .success(let exit) = result else { return channel.close(promise: nil) }
                self.exit = exit
                exit.writeAndFlush(ByteBuffer(bytes: self.received), promise: nil)
            }
    }
}

private final class TunnelExit: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let entrance: any Channel

    init(entrance: any Channel) { self.entrance = entrance }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        entrance.writeAndFlush(Self.unwrapInboundIn(data), promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        entrance.close(promise: nil)
        context.fireChannelInactive()
    }
}
