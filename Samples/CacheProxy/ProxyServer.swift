import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization

/// The server that accepts connections and turns away those above the limit.
final class ProxyServer: Sendable {
    let address: String
    private let group: MultiThreadedEventLoopGroup
    private let accepting: Task<Void, any Error>

    private init(address: String, group: MultiThreadedEventLoopGroup, accepting: Task<Void, any Error>) {
        self.address = address
        self.group = group
        self.accepting = accepting
    }

    /// Starts the server, which accepts connections when this method returns.
    /// - Throws: NIO's error if the address cannot be bound.
    static func start(_ gateway: Gateway, host: String, port: Int, maxConnections: Int) async throws -> ProxyServer {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
        let listener: NIOAsyncChannel<ProxyHandler.Connection, Never>
        do {
            listener = try await ServerBootstrap(group: group)
                .serverChannelOption(.backlog, value: 256)
                .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
                .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
                // A client that has closed its sending side may still wait for the answer.
                .childChannelOption(.allowRemoteHalfClosure, value: true)
                .bind(host: host, port: port) { channel in
                    channel.eventLoop.makeCompletedFuture { try connection(on: channel) }
                }
        } catch {
            try? await group.shutdownGracefully()
            throw error
        }
        let name = host.contains(":") ? "[\(host)]" : host
        let accepting = Task {
            try await accept(listener, ProxyHandler(gateway: gateway), maxConnections: maxConnections)
        }
        return ProxyServer(
            address: "http://\(name):\(listener.channel.localAddress?.port ?? port)", group: group,
            accepting: accepting)
    }

    func stop() async {
        accepting.cancel()
        _ = await accepting.result
        try? await group.shutdownGracefully()
    }

    private final class OpenConnections: Sendable {
        let count = Atomic(0)
    }

    private static func accept(
        _ listener: NIOAsyncChannel<ProxyHandler.Connection, Never>, _ handler: ProxyHandler, maxConnections: Int
    ) async throws {
        let open = OpenConnections()
        try await listener.executeThenClose { connections in
            try await withThrowingDiscardingTaskGroup { tasks in
                for try await connection in connections {
                    let isWelcome = open.count.wrappingAdd(1, ordering: .relaxed).newValue <= maxConnections
                    tasks.addTask {
                        defer { open.count.wrappingSubtract(1, ordering: .relaxed) }
                        // A broken connection must not end the others.
                        try? await isWelcome ? handler.serve(connection) : ProxyHandler.refuse(connection)
                    }
                }
            }
        }
    }

    private static func connection(on channel: any Channel) throws -> ProxyHandler.Connection {
        var limits = NIOHTTPDecoderLimitConfiguration()
        limits.maxHeaderFieldSize = 16 << 10
        limits.maxHeaderListSize = 64 << 10
        limits.maxHeaderFieldCount = 200
        let pipeline = channel.pipeline.syncOperations
        try pipeline.addHandler(IdleStateHandler(allTimeout: .seconds(60)))
        try pipeline.configureHTTPServerPipeline(
            withEncoderConfiguration: .init(), withDecoderLimitConfiguration: limits)
        try pipeline.addHandler(IdleConnectionHandler())
        return try ProxyHandler.Connection(wrappingChannelSynchronously: channel)
    }
}

/// A handler that closes idle connections, unless the client is waiting for an answer, which may take long.
final class IdleConnectionHandler: ChannelDuplexHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    private var isWaitedFor = false

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .end = unwrapInboundIn(data) { isWaitedFor = true }
        context.fireChannelRead(data)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        let part = unwrapOutboundIn(data)
        if case .head(let head) = part, head.status.code >= 200 { isWaitedFor = false }
        context.write(wrapOutboundOut(part), promise: promise)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if event is IdleStateHandler.IdleStateEvent {
            if !isWaitedFor { context.close(promise: nil) }
        } else {
            context.fireUserInboundEventTriggered(event)
        }
    }
}
