import NIOCore
import NIOPosix

/// A proxy for tests that opens a tunnel for each `CONNECT` (RFC 9110, section 9.3.6) and adds given fields to its
/// answer.
public final class ConnectProxy: Sendable {
    /// The TCP port the proxy listens on.
    public let port: Int
    private let group: MultiThreadedEventLoopGroup

    private init(port: Int, group: MultiThreadedEventLoopGroup) {
        self.port = port
        self.group = group
    }

    deinit {
        // Does nothing after `stop()`.
        group.shutdownGracefully { _ in }
    }

    /// Starts a proxy on a free port of the loopback interface.
    /// - Parameter fields: lines of the answer to `CONNECT`, each with its line break.
    public static func start(fields: String) async throws -> ConnectProxy {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let bootstrap = ServerBootstrap(group: group).childChannelInitializer { channel in
            channel.eventLoop.makeCompletedFuture {
                try channel.pipeline.syncOperations.addHandler(TunnelEntrance(fields: fields))
            }
        }
        let listener = try await bootstrap.bind(host: "127.0.0.1", port: 0).get()
        return ConnectProxy(port: listener.localAddress?.port ?? 0, group: group)
    }

    /// Closes the listener and all tunnels.
    public func stop() async { try? await group.shutdownGracefully() }
}

/// The client's end of a tunnel: reads the `CONNECT`, then forwards the client's bytes.
private final class TunnelEntrance: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let fields: String
    private var head = ""
    private var exit: (any Channel)?

    init(fields: String) {
        self.fields = fields
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let bytes = Self.unwrapInboundIn(data)
        if let exit { return exit.writeAndFlush(bytes, promise: nil) }
        head += String(decoding: bytes.readableBytesView, as: UTF8.self)
        guard head.hasSuffix("\r\n\r\n") else { return }
        let words = head.split(separator: " ")
        let channel = context.channel
        guard words.count > 1, let colon = words[1].lastIndex(of: ":"),
            let port = Int(words[1][words[1].index(after: colon)...])
        else { return channel.close(promise: nil) }
        let answer = ByteBuffer(string: "HTTP/1.1 200 Connection established\r\n\(fields)\r\n")
        ClientBootstrap(group: context.eventLoop)
            .channelInitializer { exit in
                exit.eventLoop.makeCompletedFuture {
                    try exit.pipeline.syncOperations.addHandler(TunnelExit(entrance: channel))
                }
            }
            .connect(host: String(words[1][..<colon]), port: port).assumeIsolated().whenComplete { result in
                guard case .success(let exit) = result else { return channel.close(promise: nil) }
                self.exit = exit
                channel.writeAndFlush(answer, promise: nil)
            }
    }

    func channelInactive(context: ChannelHandlerContext) {
        exit?.close(promise: nil)
        context.fireChannelInactive()
    }
}

/// The server's end of a tunnel: forwards the server's bytes.
private final class TunnelExit: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let entrance: any Channel

    init(entrance: any Channel) {
        self.entrance = entrance
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        entrance.writeAndFlush(Self.unwrapInboundIn(data), promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        entrance.close(promise: nil)
        context.fireChannelInactive()
    }
}
