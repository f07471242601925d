import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization

/// A server of files over HTTP/1.1 on the loopback interface, at a set pace, with a log of its requests.
public final class AssetServer: Sendable {
    private typealias Connection = NIOAsyncChannel<HTTPServerRequestPart, HTTPServerResponsePart>

    /// The server's URL, without a slash at the end.
    public let url: URL
    /// The log of all requests.
    public let log: RequestLog
    private let group: MultiThreadedEventLoopGroup
    private let accepting: Task<Void, any Error>

    /// Starts the server, which accepts connections when this initializer returns.
    /// - Parameter port: The port to listen on; 0 for any free port.
    public init(_ assets: Assets, port: Int, pace: Pace) async throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let log = RequestLog()
        let listener = try await ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 256)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            // A small send buffer: the server cannot delay bytes that the kernel has already taken.
            .childChannelOption(.socketOption(.so_sndbuf), value: 16 << 10)
            .bind(host: "127.0.0.1", port: port) { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                    return try Connection(wrappingChannelSynchronously: channel)
                }
            }
        guard let port = listener.channel.localAddress?.port,
            let url = URL(string: "http://127.0.0.1:\(port)")
        else {
            throw Assets.Failure(description: "the server has no port")
        }
        self.url = url
        self.group = group
        self.log = log
        accepting = Task {
            try await listener.executeThenClose { connections in
                try await withThrowingDiscardingTaskGroup { tasks in
                    for try await connection in connections {
                        // A broken connection must not end the others.
                        tasks.addTask { try? await Self.serve(connection, assets, pace, log) }
                    }
                }
            }
        }
    }

    /// Stops the server and closes all connections.
    public func stop() async {
        accepting.cancel()
        _ = await accepting.result
        try? await group.shutdownGracefully()
    }

    private static func serve(
        _ connection: Connection, _ assets: Assets, _ pace: Pace, _ log: RequestLog
    ) async throws {
        try await connection.executeThenClose { requests, answers in
            for try await case .head(let request) in requests {
                log.add(request.uri)
                try await Task.sleep(for: pace.delay)
                let path = request.uri.prefix { $0 != "?" }
                let body = request.method == .GET ? assets.files[path.removingPercentEncoding ?? ""] : nil
                let head = HTTPResponseHead(
                    version: .http1_1, status: body == nil ? .notFound : .ok,
                    headers: ["Content-Length": "\(body?.count ?? 0)", "Content-Type": type(of: path)])
                try await answers.write(.head(head))
                if let body { try await write(body, to: answers, pace) }
                try await answers.write(.end(nil))
            }
        }
    }

    /// Writes a body in small pieces, each when it is due. The server waits for a client that stops reading, and does
    /// not send faster afterwards to catch up.
    private static func write(
        _ body: Data, to answers: NIOAsyncChannelOutboundWriter<HTTPServerResponsePart>, _ pace: Pace
    ) async throws {
        let clock = ContinuousClock()
        var due = clock.now
        var rest = body[...]
        while !rest.isEmpty {
            let piece = rest.prefix(8 << 10)
            rest = rest.dropFirst(piece.count)
            try await answers.write(.body(.byteBuffer(ByteBuffer(bytes: piece))))
            due =
                max(due, clock.now - .milliseconds(20)) + .seconds(Double(piece.count) / pace.bytesPerSecond)
            try await clock.sleep(until: due, tolerance: .zero)
        }
    }

    private static func type(of path: Substring) -> String {
        switch path.split(separator: ".").last {
        case "gif": "image/gif"
        case "json": "application/json"
        case "jpg": "image/jpeg"
        case "pdf": "application/pdf"
        default: "application/octet-stream"
        }
    }
}

/// The pace of a server: by default slow enough for the queues to be visible.
public struct Pace: Sendable {
    /// The time from a request to the first byte of its answer.
    public var delay: Duration
    /// The speed of each connection, in bytes per second.
    public var bytesPerSecond: Double

    /// Creates a pace; the default values resemble a link to a remote server.
    public init(delay: Duration = .milliseconds(30), bytesPerSecond: Double = 2e6) {
        self.delay = delay
        self.bytesPerSecond = bytesPerSecond
    }
}

/// A log of the requests to a server, in order of arrival.
public final class RequestLog: Sendable {
    /// A request in the log.
    public struct Entry: Sendable {
        /// Path and query as the client sent them.
        public let uri: String
        /// The time at which the server read the request's head.
        public let time: ContinuousClock.Instant
    }

    private let state = Mutex<[Entry]>([])

    init() {}

    func add(_ uri: String) {
        let entry = Entry(uri: uri, time: .now)
        state.withLock { $0.append(entry) }
    }

    /// All requests so far.
    public var entries: [Entry] { state.withLock { $0 } }
    /// The number of requests so far.
    public var count: Int { state.withLock { $0.count } }
    /// The largest number of requests for the same path and query.
    public var mostForOnePath: Int { Dictionary(grouping: entries, by: \.uri).values.map(\.count).max() ?? 0 }
}
