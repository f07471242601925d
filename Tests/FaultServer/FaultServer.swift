import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix

/// An HTTP/1.1 server for tests that misbehaves on request.
///
/// The query of the fetched url names the faults, so any client can ask for them and no test has to configure the
/// server (see ``Faults`` for all parameters):
///
/// ```swift
/// let server = try await FaultServer.start()
/// let url = server.url("/bytes/100000/picture?status=503&retryAfter=1&times=2&etag=a")
/// // … the client under test fetches the url …
/// await server.waitForEnds(3, to: "/bytes/100000/picture")
/// #expect(server.requests.map(\.status) == [503, 503, 200])
/// await server.stop()
/// ```
///
/// | path | content |
/// |---|---|
/// | `/bytes/SIZE/anything…` | SIZE pseudo-random bytes, ``body(of:size:)`` |
/// | `/text/anything…` | about 10 KB of compressible text, ``text(of:)`` |
/// | `/echo` | the headers of the request: a JSON object, names in lower case |
/// | a path in `files` | the bytes of that file |
/// | `/log` | ``requests`` as JSON; such requests are not recorded themselves |
/// | anything else | 404 |
public final class FaultServer: Sendable {
    /// The TCP port the server listens on.
    public let port: Int

    private let host: String
    private let group: MultiThreadedEventLoopGroup
    private let log: RequestLog

    private init(
        host: String, port: Int, group: MultiThreadedEventLoopGroup, log: RequestLog
    ) {
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
    ///   - files: the files to serve, by path, such as `/photo.jpg`; with the parameter `changes`, version N is the
    ///     file `/photo.jpg~N`, if there is one.
    /// - Throws: NIO's error if the address cannot be bound.
    public static func start(
        host: String = "127.0.0.1", port: Int = 0, files: [String: Data] = [:]
    ) async throws -> FaultServer {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let log = RequestLog(files: files)
        let bootstrap = ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 1024)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    // The faults set wrong framing headers on purpose, so the encoder must not correct them.
                    var configuration = HTTPResponseEncoder.Configuration()
                    configuration.automaticallySetFramingHeaders = false
                    try pipeline.addHandler(HTTPResponseEncoder(configuration: configuration))
                    try pipeline.addHandler(ByteToMessageHandler(HTTPRequestDecoder()))
                    try pipeline.addHandler(ConnectionHandler(log: log))
                }
            }
        do {
            let listener = try await bootstrap.bind(host: host, port: port).get()
            return FaultServer(
                host: host, port: listener.localAddress?.port ?? port, group: group, log: log)
        } catch {
            try? await group.shutdownGracefully()
            throw error
        }
    }

    /// Returns the url of a resource of this server.
    ///
    /// - Parameter pathAndQuery: path and query, with the leading slash and already percent-encoded.
    public func url(_ pathAndQuery: String) -> URL {
        let name = host.contains(":") ? "[\(host)]" : host
        guard let url = URL(string: "http://\(name):\(port)\(pathAndQuery)") else {
            preconditionFailure("\(pathAndQuery) is not the path and query of a url")
        }
        return url
    }

    /// All requests since the start or the last ``resetLog()``, in order of arrival.
    public var requests: [Request] { log.requests }

    /// Returns the requests whose path (without the query) equals `path`, in order of arrival.
    public func requests(to path: String) -> [Request] {
        log.requests.filter { $0.path == path }
    }

    /// Waits until the log holds `count` requests.
    ///
    /// Returns early when the task is cancelled or the server stopped.
    ///
    /// - Parameters:
    ///   - count: how many, counted since the start or the last ``resetLog()``.
    ///   - path: counts only requests to this path (without the query).
    public func waitForRequests(_ count: Int, to path: String? = nil) async {
        await log.wait(for: .arrival, count: count, path: path)
    }

    /// Waits until the log holds `count` requests whose response has ended: the kernel has taken it completely, it was
    /// cut, or either side closed its connection.
    ///
    /// Returns early when the task is cancelled or the server stopped.
    ///
    /// - Parameters:
    ///   - count: how many, counted since the start or the last ``resetLog()``.
    ///   - path: counts only requests to this path (without the query).
    public func waitForEnds(_ count: Int, to path: String? = nil) async {
        await log.wait(for: .end, count: count, path: path)
    }

    /// Empties the log and restarts the counts of requests by target that `times` and `changes` use.
    ///
    /// Running responses continue but are no longer in the log.
    public func resetLog() {
        log.reset()
    }

    /// Waits until `count` responses have reached the point where `stall` stops them.
    public func waitForStalls(_ count: Int, to path: String? = nil) async {
        await log.wait(for: .stall, count: count, path: path)
    }

    /// Resets the connections whose responses have reached the point where `stall` stops them.
    public func resetStalled() {
        for channel in log.takeStalled() { channel.eventLoop.execute { channel.resetWhenDrained() } }
    }

    /// Closes the listener and all connections and ends the event-loop thread.
    ///
    /// Unfinished requests get their ``Request/end``; the log stays readable. Calling it again is
    /// harmless.
    public func stop() async {
        try? await group.shutdownGracefully()
        log.close()
    }
}
