import Foundation
import ProcessShims
import Synchronization

/// A server of HTTP/1.1 for the inspector's page alone: each connection brings one request, on a thread of its own.
///
/// It listens on one address. A request must have the server's token in its path, and name the server in `Host` and, if
/// it has one, in `Origin`: a page of another site that finds the port by a rebound name or a guess learns nothing.
final class InspectorServer: Sendable {
    struct Request: Sendable {
        var method: String
        /// The path after the token.
        var name: String
        var query: [String: String]
        fileprivate var fields: [String: String]
        fileprivate var connection: Connection

        /// Whether the client still waits for the answer.
        var isWanted: Bool { connection.wait(0) }
    }

    enum Answer: Sendable {
        /// The turn ends when the bytes are sent.
        case bytes(Data, type: String, fields: [(String, String)] = [], turn: InspectorDesk.Turn? = nil)
        /// Server-sent events: the closure returns when it has no more to send, or when a send fails.
        case events(@Sendable (Connection) -> Void)
        case failure(status: Int, String)
    }

    typealias Handler = @Sendable (Request, InspectorServer) -> Answer

    private enum Limit {
        static let connections = 32
        static let streams = 8
        static let headBytes = 16 << 10
        static let bodyBytes = 64 << 10
        static let headTime = Duration.seconds(2)
        static let bodyTime = Duration.seconds(10)
        /// The time in which a client must take some bytes, and all of an answer that is not a stream of events.
        static let stallSeconds = 10
        static let answerTime = Duration.seconds(60)
        static let eventTime = Duration.seconds(10)
    }

    let url: URL
    private let token: String
    private let names: Set<String>
    private let listener: Int32
    private let handler: Handler
    /// The sockets of the open connections; `nil` once the server stops.
    private let open = Mutex<Set<Int32>?>([])
    private let streams = DispatchSemaphore(value: Limit.streams)
    private let threads = DispatchGroup()

    /// - Parameter hosts: the names by which the server may be asked, beside its address and those of the loopback.
    init(address: String, port: Int, hosts: Set<String>, handler: @escaping Handler) throws(InspectorError) {
        var generator = SystemRandomNumberGenerator()
        token = (0..<2).map { _ in Self.hexadecimal(generator.next()) }.joined()
        self.handler = handler
        let (listener, numbers, bound) = try Self.opened(address, port)
        self.listener = listener
        let shown = numbers.contains(":") ? "[\(numbers)]" : numbers
        names = Self.names(["127.0.0.1", "localhost", "[::1]", shown] + hosts, bound)
        guard let url = URL(string: "http://\(shown):\(bound)/\(token)/") else {
            close(listener)
            throw InspectorError(errno: EINVAL)
        }
        self.url = url
        run { [self] in takeConnections() }
    }

    /// Browsers leave out the port 80.
    static func names(_ hosts: [String], _ port: Int) -> Set<String> {
        Set(hosts.flatMap { ["\($0.lowercased()):\(port)"] + (port == 80 ? [$0.lowercased()] : []) })
    }

    private static func hexadecimal(_ number: UInt64) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }

    /// - Returns: the listening socket, its address as browsers write it, and its port.
    private static func opened(
        _ address: String, _ port: Int
    ) throws(InspectorError) -> (socket: Int32, address: String, port: Int) {
        var hints = addrinfo()
        hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var found: UnsafeMutablePointer<addrinfo>?
        guard (0...65_535).contains(port), getaddrinfo(address, "\(port)", &hints, &found) == 0, let found else {
            throw InspectorError(errno: EINVAL)
        }
        defer { freeaddrinfo(found) }
        let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        let listener = socket(found.pointee.ai_family, type, 0)
        guard listener >= 0 else { throw InspectorError(errno: errno) }
        set(SOL_SOCKET, SO_REUSEADDR, Int32(1), of: listener)
        var name = sockaddr_storage()
        var size = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let isListening = withUnsafeMutablePointer(to: &name) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { name in
                bind(listener, found.pointee.ai_addr, found.pointee.ai_addrlen) == 0
                    && listen(listener, 64) == 0 && getsockname(listener, name, &size) == 0
            }
        }
        guard isListening else {
            let error = InspectorError(errno: errno)
            close(listener)
            throw error
        }
        // The port is at the same place in the addresses of both families.
        let bound = withUnsafeBytes(of: name) { $0.loadUnaligned(fromByteOffset: 2, as: UInt16.self) }
        var text = [CChar](repeating: 0, count: Int(NI_MAXHOST))
        let isNamed = withUnsafePointer(to: &name) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { name in
                getnameinfo(name, size, &text, socklen_t(text.count), nil, 0, NI_NUMERICHOST) == 0
            }
        }
        let numbers = String(decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        return (listener, isNamed ? numbers : address, Int(UInt16(bigEndian: bound)))
    }

    fileprivate static func set<Value>(_ level: Int32, _ option: Int32, _ value: Value, of socket: Int32) {
        withUnsafePointer(to: value) { pointer in
            _ = setsockopt(socket, level, option, pointer, socklen_t(MemoryLayout<Value>.size))
        }
    }

    /// Closes all connections, and takes no more.
    func end() {
        open.withLock { open in
            // Under the lock no number of a socket can be that of another one already.
            for socket in open ?? [] { shutdown(socket, Int32(SHUT_RDWR)) }
            if open != nil { shutdown(listener, Int32(SHUT_RDWR)) }
            open = nil
        }
    }

    /// Closes all connections, and returns when their threads have ended.
    func stop() async {
        end()
        await withCheckedContinuation { done in threads.notify(queue: .global()) { done.resume() } }
    }

    var isStopped: Bool { open.withLock { $0 == nil } }

    private func run(_ body: @escaping @Sendable () -> Void) {
        threads.enter()
        Thread.detachNewThread { [threads] in
            Thread.current.name = "dipper-inspect"
            body()
            threads.leave()
        }
    }

    private func takeConnections() {
        defer { close(listener) }
        while !isStopped {
            var waiting = pollfd(fd: listener, events: Int16(POLLIN), revents: 0)
            _ = poll(&waiting, 1, -1)
            let socket = dipper_accept(listener)
            guard socket >= 0 else {
                // Without a free descriptor, for example: it may be better soon.
                if !isStopped, errno != EINTR, errno != EAGAIN, errno != ECONNABORTED { usleep(10_000) }
                continue
            }
            let isTaken = open.withLock { open in
                guard let count = open?.count, count < Limit.connections else { return false }
                open?.insert(socket)
                return true
            }
            guard isTaken else {
                Connection(socket).refuse(503, "There are too many connections.", waits: false)
                close(socket)
                continue
            }
            run { [self] in
                serve(Connection(socket))
                open.withLock { open in
                    open?.remove(socket)
                    close(socket)
                }
            }
        }
    }

    private func serve(_ connection: Connection) {
        Self.set(SOL_SOCKET, SO_SNDTIMEO, timeval(tv_sec: Limit.stallSeconds, tv_usec: 0), of: connection.socket)
        Self.set(SOL_SOCKET, SO_RCVTIMEO, timeval(tv_sec: Limit.stallSeconds, tv_usec: 0), of: connection.socket)
        Self.set(Int32(IPPROTO_TCP), TCP_NODELAY, Int32(1), of: connection.socket)
        let (request, problem) = read(connection)
        guard let request else { return problem.map { connection.refuse($0.status, $0.text) } ?? () }
        switch handler(request, self) {
        case .failure(let status, let text): connection.refuse(status, text)
        case .bytes(let bytes, let type, let fields, let turn):
            defer { withExtendedLifetime(turn) {} }
            let due = ContinuousClock.now + Limit.answerTime
            let isSent = connection.write(
                Self.head(200, type, fields + [("Content-Length", "\(bytes.count)")]), by: due)
            if isSent, request.method != "HEAD" { _ = connection.write(bytes, by: due) }
            connection.finish()
        case .events(let body):
            guard streams.wait(timeout: .now()) == .success else {
                return connection.refuse(503, "Too many pages are open.")
            }
            defer { streams.signal() }
            let isSent = connection.write(Self.head(200, "text/event-stream", []))
            if isSent, request.method != "HEAD" { body(connection) }
            connection.finish()
        }
    }

    // MARK: Reading

    private typealias Problem = (status: Int, text: String)

    /// Returns a request that may be answered, or what is wrong with it; neither if the client has gone.
    private func read(_ connection: Connection) -> (Request?, Problem?) {
        let begin = ContinuousClock.now
        var received = Data()
        let end = Data("\r\n\r\n".utf8)
        var head: Range<Data.Index>?
        while head == nil {
            guard received.count < Limit.headBytes else { return (nil, (431, "The request is too long.")) }
            guard let piece = connection.receive(by: begin + Limit.headTime) else {
                return (nil, received.isEmpty ? nil : (408, "The request did not come to its end."))
            }
            let from = max(0, received.count - 3)
            received.append(piece)
            head = received.range(of: end, in: from..<received.count)
        }
        guard let head, let (parsed, bodyBytes) = parse(received[..<head.lowerBound], connection) else {
            return (nil, (400, "The request is not understood."))
        }
        var request = parsed
        if let problem = problem(of: &request) { return (nil, problem) }
        guard bodyBytes <= Limit.bodyBytes else { return (nil, (413, "The request's body is too long.")) }
        // No request needs its body, but a connection that is closed with unread bytes loses the answer.
        var rest = bodyBytes - (received.count - head.upperBound)
        while rest > 0, let piece = connection.receive(by: begin + Limit.bodyTime) { rest -= piece.count }
        return rest > 0 ? (nil, (408, "The request did not come to its end.")) : (request, nil)
    }

    private func parse(_ head: Data, _ connection: Connection) -> (Request, bodyBytes: Int)? {
        guard let text = String(validating: head, as: UTF8.self) else { return nil }
        var lines = text.split(separator: "\r\n", omittingEmptySubsequences: false)[...]
        guard let first = lines.popFirst()?.split(separator: " ", omittingEmptySubsequences: false), first.count == 3,
            first[2] == "HTTP/1.1" || first[2] == "HTTP/1.0"
        else { return nil }
        var fields: [String: String] = [:]
        for line in lines {
            guard let colon = line.firstIndex(of: ":"), colon > line.startIndex else { return nil }
            let name = line[..<colon].lowercased()
            let isDoubled = fields[name] != nil && Self.single.contains(name)
            let isClean = line.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 }
            guard !isDoubled, isClean, name.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else { return nil }
            fields[name] = line[line.index(after: colon)...].trimmingCharacters(in: .whitespaces)
        }
        let length = fields["content-length"].map { Int($0) ?? -1 } ?? 0
        guard fields["transfer-encoding"] == nil, length >= 0 else { return nil }
        let target = first[1].split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        var query: [String: String] = [:]
        for part in target.dropFirst().first?.split(separator: "&") ?? [] {
            let pair = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let value = pair.count == 2 ? String(pair[1]).removingPercentEncoding : "" else { return nil }
            query[String(pair[0])] = value
        }
        let request = Request(
            method: String(first[0]), name: String(target[0]), query: query, fields: fields, connection: connection)
        return (request, length)
    }

    private static let single: Set = ["host", "origin", "content-length", "sec-fetch-site", "x-dipper"]

    /// Checks who asks, and takes the token out of the path.
    private func problem(of request: inout Request) -> Problem? {
        guard let host = request.fields["host"]?.lowercased(), names.contains(host) else {
            return (421, "The inspector is not at this host.")
        }
        if let origin = request.fields["origin"], origin.lowercased() != "http://\(host)" {
            return (403, "The inspector answers its own page only.")
        }
        if let site = request.fields["sec-fetch-site"], !["same-origin", "none"].contains(site) {
            return (403, "The inspector answers its own page only.")
        }
        guard ["GET", "HEAD", "POST"].contains(request.method) else { return (405, "The method is not known.") }
        let path = Array(request.name.utf8)
        // Takes the same time wherever the tokens differ.
        let wanted = Array("/\(token)/".utf8)
        var difference = path.count < wanted.count ? 1 : 0 as UInt8
        for (index, byte) in wanted.enumerated() { difference |= byte ^ (index < path.count ? path[index] : 0) }
        guard difference == 0 else { return (403, "The token in the URL is wrong.") }
        // Forms and links of other sites cannot send this field, and scripts of them would have to ask first.
        if request.method == "POST", request.fields["x-dipper"] == nil || request.fields["origin"] == nil {
            return (403, "Only the inspector's page may do this.")
        }
        request.name = String(decoding: path[wanted.count...], as: UTF8.self)
        return nil
    }

    // MARK: Answering

    fileprivate static func head(_ status: Int, _ type: String, _ fields: [(String, String)]) -> Data {
        let standard = [
            ("Content-Type", type), ("Connection", "close"), ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"), ("X-Frame-Options", "DENY"),
            ("Cross-Origin-Opener-Policy", "same-origin"), ("Cross-Origin-Resource-Policy", "same-origin"),
        ]
        let policy = [("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")]
        let isPolicySet = fields.contains { $0.0 == "Content-Security-Policy" }
        let lines = (standard + (isPolicySet ? [] : policy) + fields).map { "\($0.0): \($0.1)\r\n" }.joined()
        return Data("HTTP/1.1 \(status) \(reasons[status] ?? "Error")\r\n\(lines)\r\n".utf8)
    }

    private static let reasons = [
        200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
        408: "Request Timeout", 409: "Conflict", 413: "Content Too Large", 421: "Misdirected Request",
        431: "Request Header Fields Too Large", 503: "Service Unavailable",
    ]

    struct Connection: Sendable {
        fileprivate let socket: Int32

        fileprivate init(_ socket: Int32) { self.socket = socket }

        /// Waits for a time, and returns whether the client is still there. A client of events sends nothing more.
        func wait(_ milliseconds: Int32) -> Bool {
            var waiting = pollfd(fd: socket, events: Int16(POLLIN), revents: 0)
            return poll(&waiting, 1, milliseconds) <= 0
        }

        fileprivate func receive(by due: ContinuousClock.Instant) -> Data? {
            while case let left = due - .now, left > .zero {
                var waiting = pollfd(fd: socket, events: Int16(POLLIN), revents: 0)
                guard poll(&waiting, 1, Int32(clamping: Int(left / .milliseconds(1)) + 1)) != 0 else { return nil }
                var bytes = [UInt8](repeating: 0, count: 4 << 10)
                let count = recv(socket, &bytes, bytes.count, 0)
                if count > 0 { return Data(bytes[..<count]) }
                if count == 0 || errno != EINTR { return nil }
            }
            return nil
        }

        /// - Returns: `false` if the client has gone, takes no bytes for a while, or has not taken all in time.
        @discardableResult
        fileprivate func write(_ bytes: Data, by due: ContinuousClock.Instant? = nil) -> Bool {
            bytes.withUnsafeBytes { (bytes: UnsafeRawBufferPointer) -> Bool in
                var rest = bytes[...]
                while !rest.isEmpty {
                    if let due, due < .now { return false }
                    let part = UnsafeRawBufferPointer(rebasing: rest.prefix(64 << 10))
                    let count = send(socket, part.baseAddress, part.count, Int32(MSG_NOSIGNAL))
                    if count < 0, errno != EINTR { return false }
                    rest = rest.dropFirst(max(0, count))
                }
                return true
            }
        }

        /// Sends an event to a page, which must take it in a time.
        @discardableResult
        func tell(_ event: String) -> Bool { write(Data("\(event)\n\n".utf8), by: .now + Limit.eventTime) }

        fileprivate func refuse(_ status: Int, _ text: String, waits: Bool = true) {
            let body = Data("\(text)\n".utf8)
            write(
                InspectorServer.head(status, "text/plain; charset=utf-8", [("Content-Length", "\(body.count)")]) + body)
            if waits { finish() }
        }

        /// Lets the client read the answer before a reset, which unread bytes of its request would cause.
        fileprivate func finish() {
            shutdown(socket, Int32(SHUT_WR))
            let due = ContinuousClock.now + .seconds(1)
            var left = 1 << 20
            while left > 0, let piece = receive(by: due) { left -= piece.count }
        }
    }
}
