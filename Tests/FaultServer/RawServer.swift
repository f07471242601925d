import NIOCore
import NIOPosix

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
        /// The number of its connection, from 0.
        public let connection: Int
        /// The number of earlier requests on the connection.
        public let number: Int
        /// The request line and fields as received, with the empty line.
        public let head: String

        /// The target in the request line; empty if there is none.
        public var path: String {
            let parts = head.prefix { $0 != "\r\n" }.split(separator: " ")
            return parts.count > 1 ? String(parts[1]) : ""
        }

        /// Returns the value of the first field with a name; `nil` if there is none.
        /// - Parameter name: the name of the field, in any case.
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
        // Does nothing after `stop()`; without this call the thread of a server that was not stopped would remain.
        group.shutdownGracefully { _ in }
    }

    /// Starts a server on an event-loop thread of its own; it accepts connections on return.
    ///
    /// - Parameters:
    ///   - host: the address to listen on.
    ///   - port: the TCP port to listen on; 0 takes a free one.
    ///   - greeting: the steps for each new connection, before its first request.
    ///   - script: returns the steps for a request; after the last step the server handles the next request of the
    ///     connection.
    /// - Throws: NIO's error if the address cannot be bound.
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

    /// Returns the url of a resource of this server as text.
    ///
    /// - Parameter pathAndQuery: path and query, with the leading slash and already percent-encoded.
    public func url(_ pathAndQuery: String, scheme: String = "http") -> String {
        "\(scheme)://\(host.contains(":") ? "[\(host)]" : host):\(port)\(pathAndQuery)"
    }

    /// All connections so far, in order of arrival.
    public var connections: [Connection] { log.connections }

    /// All requests so far, by connection.
    public var requests: [Request] { log.connections.flatMap(\.requests) }

    /// Waits until clients have closed `count` connections. Returns early when the server is stopped.
    public func waitUntilLeft(_ count: Int) async { await log.waitUntilLeft(count) }

    /// Closes the listener and all connections and ends the event-loop thread. Calling it again is harmless.
    public func stop() async {
        try? await group.shutdownGracefully()
        log.close()
    }
}
