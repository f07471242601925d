import NIOCore
import NIOPosix

/// A TCP server for tests that sends whatever bytes it is told to, HTTP or not.
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
/// A request is what ends in an empty line; one that has a body is not understood. Bytes that never come to an empty
/// line, such as those of a TLS handshake, are never answered.
public final class RawServer: Sendable {
    /// What is told of a request.
    public struct Request: Sendable {
        /// The number of its connection, from 0.
        public let connection: Int
        /// How many requests came before it on its connection.
        public let number: Int
        /// Request line and fields as they came, with the empty line.
        public let head: String

        /// The target of the request line.
        public var path: String {
            let parts = head.prefix { $0 != "\r\n" }.split(separator: " ")
            return parts.count > 1 ? String(parts[1]) : ""
        }

        /// The value of a field; `nil` if there is none.
        /// - Parameter name: in any case.
        public func header(_ name: String) -> String? {
            for line in head.split(separator: "\r\n").dropFirst() {
                let parts = line.split(separator: ":", maxSplits: 1)
                guard parts.count == 2, parts[0].lowercased() == name.lowercased() else { continue }
                return String(parts[1].drop { $0 == " " })
            }
            return nil
        }
    }

    /// What has become of a connection.
    public struct Connection: Sendable {
        /// Its requests so far.
        public internal(set) var requests: [Request] = []
        /// Bytes that the kernel has taken, counted in pieces of at most 64 KiB.
        public internal(set) var bytesSent = 0
        /// The client has closed it, or the network; not this server.
        public internal(set) var wasLeft = false
    }

    /// The TCP port the server listens on.
    public let port: Int

    private let host: String
    private let group: MultiThreadedEventLoopGroup
    private let log: RawLog

    private init(host: String, port: Int, group: MultiThreadedEventLoopGroup, log: RawLog) {
        self.host = host
        self.port = port
        self.group = group
        self.log = log
    }

    deinit {
        // Does nothing after `stop()`; without it the thread of a forgotten server would stay.
        group.shutdownGracefully { _ in }
    }

    /// Starts a server on an event-loop thread of its own; it accepts connections on return.
    ///
    /// - Parameters:
    ///   - host: the address to listen on.
    ///   - port: the TCP port to listen on; 0 takes a free one.
    ///   - greeting: what to do with each connection before it asks for anything.
    ///   - script: what to do upon a request; after the last step the next request of the connection is awaited.
    /// - Throws: what NIO throws when the address cannot be bound.
    public static func start(
        host: String = "127.0.0.1", port: Int = 0, greeting: [RawStep] = [],
        script: @escaping @Sendable (Request) -> [RawStep] = { _ in [] }
    ) async throws -> RawServer {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let log = RawLog()
        let bootstrap = ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 1024)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(
                        RawConnection(log: log, greeting: greeting, script: script))
                }
            }
        do {
            let listener = try await bootstrap.bind(host: host, port: port).get()
            return RawServer(host: host, port: listener.localAddress?.port ?? port, group: group, log: log)
        } catch {
            try? await group.shutdownGracefully()
            throw error
        }
    }

    /// The text of the url of a resource of this server.
    ///
    /// - Parameter pathAndQuery: with the leading slash, percent-encoded as they shall be sent.
    public func url(_ pathAndQuery: String, scheme: String = "http") -> String {
        "\(scheme)://\(host.contains(":") ? "[\(host)]" : host):\(port)\(pathAndQuery)"
    }

    /// All connections so far, in order of arrival.
    public var connections: [Connection] { log.connections }

    /// All requests so far, by connection.
    public var requests: [Request] { log.connections.flatMap(\.requests) }

    /// Waits until the client has closed so many connections. Returns early when the server is stopped.
    public func waitUntilLeft(_ count: Int) async { await log.waitUntilLeft(count) }

    /// Closes the listener and all connections and ends the event-loop thread. Calling it again is harmless.
    public func stop() async {
        try? await group.shutdownGracefully()
        log.close()
    }
}
