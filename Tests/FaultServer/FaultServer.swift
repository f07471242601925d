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
/// await server.waitForEnds(3)
/// #expect(server.requests.map(\.status) == [503, 503, 200])
/// await server.stop()
/// ```
///
/// | path | content |
/// |---|---|
/// | `/bytes/SIZE/anything…` | SIZE pseudo-random bytes, ``body(of:size:)`` |
/// | a path in `files` | the bytes of that file |
/// | `/log` | the paths and times of all other requests as JSON |
/// | anything else | 404 |
public final class FaultServer: Sendable {
    /// A request that the server has received, with the state of its response.
    public struct Request: Sendable {
        public let method: String
        /// The path without the query, percent-encoded as sent.
        public let path: String
        /// The header fields in the order and spelling they came in.
        let headers: HTTPHeaders
        /// The time at which the head of the request had arrived.
        public let start = ContinuousClock.now
        /// The time at which the response ended: the kernel had taken it completely, or either side closed the
        /// connection. `nil` while the response is running.
        public internal(set) var end: ContinuousClock.Instant?
        /// The number of bytes of the response's body that the kernel has taken, without chunk framing and after
        /// content coding, counted in pieces of at most 64 KiB or of the size that `drip` sets.
        public internal(set) var bytesSent = 0
        /// The status of the response; 0 until its head is sent.
        public internal(set) var status = 0
        /// Whether the response has reached the point where `stall` stops it.
        var isStalled = false

        /// Returns the value of a header field, with several lines of that name joined by `", "` (RFC 9110, section
        /// 5.3); `nil` if there is none.
        public func header(_ name: String) -> String? {
            let values = headers[name]
            return values.isEmpty ? nil : values.joined(separator: ", ")
        }
    }

    /// The requests since the start or the last ``resetLog()``.
    struct Record: Sendable {
        var requests: [Request] = []
        /// The id of the first of `requests`; requests before a reset have lower ones.
        private var firstID = 0
        var stalled: [any Channel] = []
        private var perTarget: [String: Int] = [:]

        /// - Returns: the id of the request, and its number among those of its target, from 1.
        mutating func begin(_ head: HTTPRequestHead) -> (id: Int, ordinal: Int) {
            let path = String(head.uri.prefix { $0 != "?" })
            requests.append(Request(method: head.method.rawValue, path: path, headers: head.headers))
            perTarget[head.uri, default: 0] += 1
            return (firstID + requests.count - 1, perTarget[head.uri, default: 0])
        }

        mutating func update(_ id: Int, _ change: (inout Request) -> Void) {
            if id >= firstID { change(&requests[id - firstID]) }
        }

        mutating func end(_ id: Int) { update(id) { $0.end = $0.end ?? .now } }

        mutating func reset() {
            firstID += requests.count
            (requests, perTarget) = ([], [:])
        }
    }

    public let port: Int
    private let host: String
    private let group: MultiThreadedEventLoopGroup
    private let log: ServerLog<Record>

    private init(_ host: String, _ port: Int, _ group: MultiThreadedEventLoopGroup, _ log: ServerLog<Record>) {
        (self.host, self.port, self.group, self.log) = (host, port, group, log)
    }

    // Does nothing after `stop()`.
    deinit { group.shutdownGracefully { _ in } }

    /// Starts a server on a TCP port, 0 for a free one. It serves files by path, such as `/photo.jpg`, too.
    public static func start(
        host: String = "127.0.0.1", port: Int = 0, files: [String: Data] = [:]
    ) async throws -> FaultServer {
        let log = ServerLog(Record())
        let (port, group) = try await listen(host: host, port: port) { pipeline in
            // The faults set wrong framing headers on purpose, so the encoder must not correct them.
            var configuration = HTTPResponseEncoder.Configuration()
            configuration.automaticallySetFramingHeaders = false
            try pipeline.addHandler(HTTPResponseEncoder(configuration: configuration))
            try pipeline.addHandler(ByteToMessageHandler(HTTPRequestDecoder()))
            try pipeline.addHandler(ConnectionHandler(log, files))
        }
        return FaultServer(host, port, group, log)
    }

    /// - Parameter pathAndQuery: path and query, with the leading slash and already percent-encoded.
    public func url(_ pathAndQuery: String) -> URL {
        guard let url = URL(string: "http://\(host):\(port)\(pathAndQuery)") else {
            preconditionFailure("\(pathAndQuery) is not the path and query of a url")
        }
        return url
    }

    /// All requests since the start or the last ``resetLog()``, in order of arrival.
    public var requests: [Request] { log.record.requests }

    /// Returns the requests with a path, which is without the query, in order of arrival.
    public func requests(to path: String) -> [Request] { requests.filter { $0.path == path } }

    /// Waits until the log holds `count` requests. All waits return early when the task is cancelled or the server
    /// stopped.
    public func waitForRequests(_ count: Int) async { await log.wait { $0.requests.count >= count } }

    /// Waits until the log holds `count` requests whose responses have ended; see ``Request/end``.
    public func waitForEnds(_ count: Int) async {
        await log.wait { $0.requests.count { $0.end != nil } >= count }
    }

    /// Waits until `count` responses have reached the point where `stall` stops them.
    public func waitForStalls(_ count: Int) async { await log.wait { $0.requests.count(where: \.isStalled) >= count } }

    /// Empties the log, and restarts the counts of requests by target that `times` uses. Running responses continue.
    public func resetLog() { log.change { $0.reset() } }

    /// Resets the connections whose responses have reached the point where `stall` stops them.
    public func resetStalled() {
        let stalled = log.change { record in
            defer { record.stalled = [] }
            return record.stalled
        }
        for channel in stalled {
            channel.eventLoop.execute { channel.resetWhenDrained() }
        }
    }

    /// Closes the listener and all connections and ends the event-loop thread. Unfinished requests get their
    /// ``Request/end``. Calling it again is harmless.
    public func stop() async {
        try? await group.shutdownGracefully()
        log.close()
    }
}

// MARK: Bodies

extension FaultServer {
    /// Returns the bytes that `/bytes/SIZE/…` serves, the same on every run; a shorter body is a prefix of a longer
    /// one. A query in the path is ignored.
    ///
    /// Each 8 bytes are a little-endian output of SplitMix64 seeded with the hash of the path, so no two offsets look
    /// alike, and a test can detect a shifted or torn body.
    public static func body(of path: String, size: Int) -> Data {
        // All empty arrays are one for the whole process, to which the initializer below would write.
        if size == 0 { return Data() }
        var seed = hash(path.utf8.prefix { $0 != UInt8(ascii: "?") })
        let words = [UInt64](unsafeUninitializedCapacity: (size + 7) / 8) { words, count in
            count = words.count
            for index in words.indices {
                seed &+= 0x9E37_79B9_7F4A_7C15
                var word = seed
                word = (word ^ (word &>> 30)) &* 0xBF58_476D_1CE4_E5B9
                word = (word ^ (word &>> 27)) &* 0x94D0_49BB_1331_11EB
                words[index] = (word ^ (word &>> 31)).littleEndian
            }
        }
        return words.withUnsafeBytes { Data($0.prefix(size)) }
    }

    /// Returns a checksum with which tests compare bodies, in hexadecimal digits.
    public static func checksum(of data: Data) -> String { String(hash(data), radix: 16) }

    /// 64-bit FNV-1a.
    private static func hash(_ bytes: some Sequence<UInt8>) -> UInt64 {
        bytes.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
    }
}
