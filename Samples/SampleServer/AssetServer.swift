import Foundation
import Synchronization

/// A server of files over HTTP/1.1 on the loopback interface, at a set pace, with a log of its requests.
///
/// A thread accepts connections, and each connection has a thread of its own.
public final class AssetServer: Sendable {
    /// The server's URL, without a slash at the end.
    public let url: URL
    /// The log of all requests.
    public let log = RequestLog()
    private let assets: Assets
    private let pace: Pace
    private let listener: Int32
    /// The sockets of the open connections; `nil` once the server stops.
    private let connections = Mutex<Set<Int32>?>([])
    private let threads = DispatchGroup()

    /// Starts the server, which accepts connections when this initializer returns.
    /// - Parameter port: The port to listen on; 0 for any free port.
    /// - Throws: ``Assets/Failure`` if the port is in use.
    public init(_ assets: Assets, port: Int, pace: Pace) throws {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(clamping: port).bigEndian
        address.sin_addr.s_addr = INADDR_LOOPBACK.bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        Self.set(SOL_SOCKET, SO_REUSEADDR, 1, of: listener)
        let isListening = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                bind(listener, address, size) == 0 && listen(listener, 256) == 0
                    && getsockname(listener, address, &size) == 0
            }
        }
        guard isListening, let url = URL(string: "http://127.0.0.1:\(UInt16(bigEndian: address.sin_port))") else {
            let reason = String(cString: strerror(errno))
            close(listener)
            throw Assets.Failure(description: "the server cannot listen on port \(port): \(reason)")
        }
        (self.url, self.assets, self.pace, self.listener) = (url, assets, pace, listener)
        run { [self] in accept() }
    }

    /// Stops the server and closes all connections.
    public func stop() async {
        connections.withLock { open in
            // Under the lock no number of a socket can be that of another one already.
            for socket in open.map({ $0.union([listener]) }) ?? [] { shutdown(socket, Int32(SHUT_RDWR)) }
            open = nil
        }
        await withCheckedContinuation { done in threads.notify(queue: .global()) { done.resume() } }
    }

    private func accept() {
        defer { close(listener) }
        while connections.withLock({ $0 != nil }) {
            let connection = Glibc.accept(listener, nil, nil)
            if connection < 0 {
                // For example without a free descriptor: it may be better soon.
                if errno != EINTR, errno != ECONNABORTED { Thread.sleep(forTimeInterval: 0.01) }
                continue
            }
            guard connections.withLock({ $0?.insert(connection) }) != nil else { return _ = close(connection) }
            run { self.serve(connection) }
        }
    }

    private func run(_ body: @escaping @Sendable () -> Void) {
        threads.enter()
        Thread.detachNewThread { [threads] in
            body()
            threads.leave()
        }
    }

    private func serve(_ connection: Int32) {
        defer {
            connections.withLock { open in
                open?.remove(connection)
                close(connection)
            }
        }
        Self.set(Int32(IPPROTO_TCP), TCP_NODELAY, 1, of: connection)
        // A small send buffer: the server cannot delay bytes that the kernel has already taken.
        Self.set(SOL_SOCKET, SO_SNDBUF, 16 << 10, of: connection)
        var received = Data()
        while let head = Self.head(&received, from: connection) {
            let parts = head.split(separator: " ", maxSplits: 2)
            guard parts.count == 3 else { return }
            log.add(String(parts[1]))
            guard Self.sleep(until: .now + pace.delay, on: connection) else { return }
            let path = parts[1].prefix { $0 != "?" }
            let body = parts[0] == "GET" ? assets.files[path.removingPercentEncoding ?? ""] : nil
            let answer = """
                HTTP/1.1 \(body == nil ? "404 Not Found" : "200 OK")\r
                Content-Length: \(body?.count ?? 0)\r
                Content-Type: \(Self.type(of: path))\r
                \r

                """
            guard Self.send(Data(answer.utf8), to: connection), send(body ?? Data(), to: connection) else { return }
        }
    }

    /// Returns the next head of a request; `nil` at the end of the connection. The requests for files have no bodies.
    private static func head(_ received: inout Data, from connection: Int32) -> String? {
        let end = Data("\r\n\r\n".utf8)
        while true {
            if let range = received.range(of: end) {
                defer { received = Data(received[range.upperBound...]) }
                return String(decoding: received[..<range.lowerBound].prefix { $0 != 0x0D }, as: UTF8.self)
            }
            var bytes = [UInt8](repeating: 0, count: 8 << 10)
            let count = recv(connection, &bytes, bytes.count, 0)
            if count < 0, errno == EINTR { continue }
            guard count > 0, received.count < 64 << 10 else { return nil }
            received.append(contentsOf: bytes[..<count])
        }
    }

    /// Sends a body in small pieces, each when it is due. The server waits for a client that stops reading, and does not
    /// send faster afterwards to catch up.
    private func send(_ body: Data, to connection: Int32) -> Bool {
        var due = ContinuousClock.now
        var rest = body[...]
        while !rest.isEmpty {
            let piece = rest.prefix(8 << 10)
            rest = rest.dropFirst(piece.count)
            guard Self.send(piece, to: connection) else { return false }
            due = max(due, .now - .milliseconds(20)) + .seconds(Double(piece.count) / pace.bytesPerSecond)
            guard Self.sleep(until: due, on: connection) else { return false }
        }
        return true
    }

    private static func send(_ bytes: Data, to connection: Int32) -> Bool {
        bytes.withUnsafeBytes { (bytes: UnsafeRawBufferPointer) -> Bool in
            var rest = bytes[...]
            while !rest.isEmpty {
                let part = UnsafeRawBufferPointer(rebasing: rest)
                let count = Glibc.send(connection, part.baseAddress, part.count, Int32(MSG_NOSIGNAL))
                if count < 0, errno != EINTR { return false }
                rest = rest.dropFirst(max(0, count))
            }
            return true
        }
    }

    /// - Returns: `false` if the connection has been closed meanwhile.
    private static func sleep(until time: ContinuousClock.Instant, on connection: Int32) -> Bool {
        while case let left = time - .now, left > .zero {
            let milliseconds = Int32(clamping: Int((left / .milliseconds(1)).rounded(.up)))
            var waiting = pollfd(fd: connection, events: 0, revents: 0)
            if poll(&waiting, 1, milliseconds) > 0 { return false }
        }
        return true
    }

    private static func set(_ level: Int32, _ option: Int32, _ value: Int32, of socket: Int32) {
        var value = value
        setsockopt(socket, level, option, &value, socklen_t(MemoryLayout<Int32>.size))
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
