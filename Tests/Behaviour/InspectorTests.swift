@testable import DipperInspector
import TestSupport
import Testing

/// A client of an inspector that sends what it likes, on threads of its own.
private struct Visitor: Sendable {
    struct Reply: Sendable {
        var status = 0
        var head = ""
        var body = Data()

        var text: String { String(decoding: body, as: UTF8.self) }
        var json: [String: any Sendable] {
            (try? JSONSerialization.jsonObject(with: body)) as? [String: any Sendable] ?? [:]
        }
        func field(_ name: String) -> String? {
            head.split(separator: "\r\n").first { $0.lowercased().hasPrefix("\(name.lowercased()): ") }
                .map { String($0.dropFirst(name.count + 2)) }
        }
    }

    let page: URL
    var port: Int { page.port ?? 0 }
    var host: String { "127.0.0.1:\(port)" }
    var token: String { String(page.path.split(separator: "/").first ?? "") }

    /// - Parameter room: the bytes that the system takes in for a client that does not read; the system's own choice
    ///   without it.
    static func connect(_ port: Int, room: Int32? = nil) throws -> FileHandle {
        let socket = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        if var room { setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &room, socklen_t(MemoryLayout<Int32>.size)) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(clamping: port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var limit = timeval(tv_sec: 30, tv_usec: 0)
        setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        let size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isConnected = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { Glibc.connect(socket, $0, size) == 0 }
        }
        let handle = FileHandle(fileDescriptor: socket, closeOnDealloc: true)
        if !isConnected { throw Unavailable(what: "no connection: \(String(cString: strerror(errno)))") }
        return handle
    }

    static func write(_ text: String, to handle: FileHandle) {
        let bytes = Array(text.utf8)
        _ = send(handle.fileDescriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL))
    }

    /// Reads until the connection ends, or until what has come meets a condition.
    static func read(_ handle: FileHandle, until isEnough: @Sendable (String) -> Bool = { _ in false }) -> Data {
        var (all, piece) = (Data(), [UInt8](repeating: 0, count: 64 << 10))
        let due = ContinuousClock.now + .seconds(60)
        while due > .now, case let count = recv(handle.fileDescriptor, &piece, piece.count, 0), count > 0 {
            all.append(contentsOf: piece[..<count])
            if isEnough(String(decoding: all, as: UTF8.self)) { break }
        }
        return all
    }

    static func onThread<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread { continuation.resume(with: Result { try body() }) }
        }
    }

    func ask(_ text: String) async throws -> Reply {
        let bytes = try await Self.onThread { [port] in
            let connection = try Self.connect(port)
            Self.write(text, to: connection)
            return Self.read(connection)
        }
        guard let end = bytes.range(of: Data("\r\n\r\n".utf8)) else { return Reply() }
        let head = String(decoding: bytes[..<end.lowerBound], as: UTF8.self)
        return Reply(
            status: Int(head.split(separator: " ").dropFirst().first ?? "") ?? 0, head: head,
            body: Data(bytes[end.upperBound...]))
    }

    func get(_ path: String = "", _ fields: String = "", method: String = "GET") async throws -> Reply {
        try await ask("\(method) /\(token)/\(path) HTTP/1.1\r\nHost: \(host)\r\n\(fields)\r\n")
    }

    func post(_ path: String) async throws -> Reply {
        try await get(path, "Origin: http://\(host)\r\nX-Dipper: 1\r\nContent-Length: 0\r\n", method: "POST")
    }

    /// Opens the live part of the page, and returns when it has begun to tell.
    func open(room: Int32? = nil) async throws -> Live {
        try await Self.onThread { [port, token, host] in
            let connection = try Self.connect(port, room: room)
            Self.write("GET /\(token)/events HTTP/1.1\r\nHost: \(host)\r\n\r\n", to: connection)
            return Live(connection: connection, begin: Self.read(connection) { $0.contains("data: ") })
        }
    }

    struct Live: Sendable {
        let connection: FileHandle
        let begin: Data

        /// Returns what the page has been told as soon as that has all the texts, or when the connection has ended.
        func reads(_ texts: String...) async throws -> String {
            try await Visitor.onThread {
                let rest = Visitor.read(connection) { told in texts.allSatisfy(told.contains) }
                return String(decoding: begin + rest, as: UTF8.self)
            }
        }
    }
}

/// Answers each request at once, and keeps none.
private struct InstantTransport: Transport {
    private struct Ended: Transfer {
        func cancel() {}
    }

    func start(_ request: TransferRequest, receive: @escaping @Sendable (TransferEvent) -> Void) -> any Transfer {
        receive(.finished(.success(TransferResponse(body: Data()))))
        return Ended()
    }

    func shutdown() async {}
}

@Suite("The inspector's page", .timeLimit(.minutes(2)))
struct InspectorTests {
    private func inspected(
        _ options: Inspector.Options = .init(), folder: TemporaryFolder? = nil,
        _ body: (TestCache, Inspector, Visitor) async throws -> Void
    ) async throws {
        let test = TestCache(folder: folder)
        let inspector = Inspector(test.cache, options)
        let visitor = Visitor(page: try inspector.start())
        try await body(test, inspector, visitor)
        await inspector.stop()
        await test.cache.shutdown()
    }

    // MARK: Who may ask

    @Test("The page runs its own script and style alone, and nothing else may frame, sniff or keep it")
    func page() async throws {
        try await inspected { _, _, visitor in
            let page = try await visitor.get()
            #expect(page.status == 200 && page.body.count < 150_000)
            let policy = page.field("Content-Security-Policy") ?? ""
            let nonce = policy.split(separator: "'").first { $0.hasPrefix("nonce-") }?.dropFirst(6) ?? "none"
            #expect(policy.hasPrefix("default-src 'none'; ") && policy.contains("frame-ancestors 'none'"))
            #expect(!policy.contains("unsafe"))
            #expect(page.text.components(separatedBy: "nonce=\"\(nonce)\"").count == 3)
            #expect(page.field("X-Content-Type-Options") == "nosniff" && page.field("Referrer-Policy") == "no-referrer")
            #expect(page.field("Cache-Control") == "no-store" && page.field("Access-Control-Allow-Origin") == nil)
            #expect(!page.text.contains(visitor.token) && !page.text.contains("http://1"))
            let again = try await visitor.get("", method: "HEAD")
            #expect(again.status == 200 && again.body.isEmpty && !again.head.contains(nonce))
        }
    }

    @Test(
        "Requests of other sites, with a wrong token, of a rebound name or without sense are refused, and harm nobody")
    func attacks() async throws {
        try await inspected { test, _, visitor in
            let (host, token) = (visitor.host, visitor.token)
            func request(
                _ target: String, host other: String? = nil, _ fields: String = "", method: String = "GET"
            ) -> String { "\(method) \(target) HTTP/1.1\r\nHost: \(other ?? host)\r\n\(fields)\r\n" }
            let page = "/\(token)/"
            let wrong = String(token.reversed())
            let own = "Origin: http://\(host)\r\n"
            let attacks: [(String, Int)] = [
                (request("/"), 403), (request("/\(wrong)/"), 403), (request("/\(token)"), 403),
                (request("/\(token.dropLast())/"), 403), (request("/\(token.uppercased())A/"), 403),
                (request("*"), 403),
                (request(page, host: "evil.test"), 421), (request(page, host: "evil.test:\(visitor.port)"), 421),
                (request(page, host: "127.0.0.1"), 421),
                (request(page, host: "127.0.0.1.evil.test:\(visitor.port)"), 421),
                (request(page, "Origin: http://evil.test\r\n"), 403), (request(page, "Origin: null\r\n"), 403),
                (request(page, "Origin: https://\(host)\r\n"), 403),
                (request(page, "Sec-Fetch-Site: cross-site\r\n"), 403),
                (request(page, "Host: \(host)\r\n"), 400), ("GET \(page) HTTP/1.1\r\n\r\n", 421),
                (request(page + "control?do=clear", method: "POST"), 403),
                (request(page + "control?do=clear", own, method: "POST"), 403),
                (request(page + "control?do=clear", "X-Dipper: 1\r\n", method: "POST"), 403),
                (request(page + "control?do=clear"), 404), (request(page + "entry?do=remove&key=a"), 404),
                (request(page, method: "PUT"), 405), (request(page, method: "OPTIONS"), 405),
                (request(page + "../"), 404), (request(page + "%2e%2e/%2e%2e/etc/passwd"), 404),
                (request(page + "/entries"), 404), (request(page + "body?key=../../etc/passwd"), 404),
                (request(page + "body?key=%00"), 404), (request(page + "entries?offset=%zz"), 400),
                (request("http://\(host)\(page)"), 403), (request("//evil.test\(page)"), 403),
                (request(page, "Transfer-Encoding: chunked\r\n"), 400), (request(page, "Content-Length: -1\r\n"), 400),
                (request(page, "Content-Length: 1\r\nContent-Length: 2\r\n"), 400),
                (request(page, "Content-Length: 99999999\r\n", method: "POST"), 403),
                (request(page, own + "X-Dipper: 1\r\nContent-Length: 99999999\r\n", method: "POST"), 413),
                (request(page, "X: " + String(repeating: "x", count: 20_000) + "\r\n"), 431),
                (request(page, "X: a\u{0}b\r\n"), 400), (request(page, "X: a\nb\r\n"), 400),
                (request(page, "Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site\r\n"), 400),
                (request(page, " folded\r\n"), 400), (request(page, "No colon\r\n"), 400),
                ("GET\r\n\r\n", 400), ("GET  \(page) HTTP/1.1\r\n\r\n", 400), ("\0\u{1}\u{2}\r\n\r\n", 400),
                ("GET \(page) HTTP/2.0\r\nHost: \(host)\r\n\r\n", 400), ("\r\n\r\n", 400),
            ]
            try test.cache.addData(Data("kept".utf8), for: "kept")
            for (attack, status) in attacks {
                let reply = try await visitor.ask(attack)
                #expect(reply.status == status, "\(attack.prefix(200))")
                #expect(!reply.text.contains(token) && !reply.text.contains("script"))
            }
            #expect(try await visitor.get("", "Sec-Fetch-Site: same-origin\r\n" + own).status == 200)
            #expect(try await visitor.ask(request(page, host: "localhost:\(visitor.port)")).status == 200)
            #expect(test.cache.memoryCount == 1)
        }
    }

    @Test("Only by names that the program gives may the page be opened from another machine")
    func hostNames() async throws {
        var options = Inspector.Options()
        for (given, status) in [([], 421), (["Kiosk.test"], 200)] as [(Set<String>, Int)] {
            options.hostNames = given
            try await inspected(options) { _, _, visitor in
                for (name, status) in [("kiosk.test", status), ("other.test", 421)] {
                    let line = "GET /\(visitor.token)/ HTTP/1.1\r\nHost: \(name):\(visitor.port)\r\n\r\n"
                    let reply = try await visitor.ask(line)
                    #expect(reply.status == status, "\(given) \(name)")
                }
            }
        }
    }

    @Test("Browsers may leave out the port 80 of the page")
    func names() {
        #expect(InspectorServer.names(["A.test"], 80) == ["a.test", "a.test:80"])
        #expect(InspectorServer.names(["A.test"], 81) == ["a.test:81"])
    }

    @Test("Pages that stay open keep nobody from the rest, and a question for the head of the live part ends")
    func streams() async throws {
        try await inspected { _, _, visitor in
            var pages: [Visitor.Live] = []
            for _ in 0..<8 { pages.append(try await visitor.open()) }
            let ninth = try await visitor.get("events")
            #expect(ninth.status == 503 && ninth.text == "Too many pages are open.\n")
            #expect(try await visitor.get().status == 200)
            withExtendedLifetime(pages) {}
        }
        try await inspected { _, _, visitor in
            let head = try await visitor.get("events", method: "HEAD")
            #expect(head.status == 200 && head.body.isEmpty)
        }
    }

    @Test("Connections that say nothing keep others out only while they are there")
    func silentClients() async throws {
        try await inspected { _, _, visitor in
            let port = visitor.port
            let refused = try await Visitor.onThread {
                let silent = try (0..<32).map { _ in try Visitor.connect(port) }
                var last = Data()
                // The server takes connections in their order.
                while !String(decoding: last, as: UTF8.self).hasPrefix("HTTP/1.1 503") {
                    last = Visitor.read(try Visitor.connect(port))
                }
                return withExtendedLifetime(silent) { last }
            }
            #expect(String(decoding: refused, as: UTF8.self).hasSuffix("There are too many connections.\n"))
            var status = 503
            while status == 503 { status = try await visitor.get().status }
            #expect(status == 200)
        }
    }

    @Test("A client that sends its request a byte at a time is dropped after its limit")
    func tricklingClient() async throws {
        try await inspected { _, _, visitor in
            let (port, begin) = (visitor.port, ContinuousClock.now)
            let reply = try await Visitor.onThread {
                let connection = try Visitor.connect(port)
                var answer = pollfd(fd: connection.fileDescriptor, events: Int16(POLLIN), revents: 0)
                // The next byte comes long before the client would be taken for silent.
                repeat { Visitor.write("x", to: connection) } while poll(&answer, 1, 200) == 0
                return String(decoding: Visitor.read(connection), as: UTF8.self)
            }
            #expect(reply.hasPrefix("HTTP/1.1 408 ") && ContinuousClock.now - begin < .seconds(20))
        }
    }

    @Test("Pages that take nothing, or a few bytes a second, are dropped, and no call of the program waits for them")
    func slowReaders() async throws {
        var configuration = DataCache.Configuration()
        configuration.transport = InstantTransport()
        configuration.cachePolicy = .bypass
        let cache = DataCache(configuration)
        let inspector = Inspector(cache)
        let visitor = Visitor(page: try inspector.start())
        var pages: [Visitor.Live] = []
        for _ in 0..<8 { pages.append(try await visitor.open(room: 4 << 10)) }
        let (slow, isOver) = (pages[7].connection, Box(false))
        Thread.detachNewThread {
            var byte = [UInt8(0)]
            while !isOver.value, recv(slow.fileDescriptor, &byte, 1, 0) > 0 { usleep(100_000) }
        }
        // More than the system holds back for eight clients.
        var (next, status) = (0, 503)
        while status == 503, !Task.isCancelled {
            let tasks = (next..<next + 200).map { cache.getData(url("n\($0)?\(String(repeating: "x", count: 300))")) }
            for task in tasks { _ = try await task.value }
            next += 200
            status = try await visitor.get("events", method: "HEAD").status
        }
        #expect(status == 200)
        withExtendedLifetime(pages) {}
        isOver.update { $0 = true }
        await inspector.stop()
        await cache.shutdown()
    }

    @Test("A port that is in use, and an address that is none, are typed errors")
    func errors() async throws {
        try await inspected { test, inspector, visitor in
            var options = Inspector.Options()
            options.port = visitor.port
            #expect(throws: InspectorError.addressInUse) { try Inspector(test.cache, options).start() }
            let again = try inspector.start()
            #expect(again == visitor.page)
            options.address = "localhost.evil.test"
            #expect(throws: InspectorError.invalidAddress) { try Inspector(test.cache, options).start() }
            (options.address, options.port) = ("127.0.0.1", 70_000)
            #expect(throws: InspectorError.invalidAddress) { try Inspector(test.cache, options).start() }
            (options.address, options.port) = ("192.0.2.1", 0)
            #expect(throws: InspectorError.addressNotAvailable) { try Inspector(test.cache, options).start() }
        }
    }

    @Test("A stopped inspector closes its connections, and starts again with another token")
    func stopped() async throws {
        try await inspected { _, inspector, visitor in
            let live = try await visitor.open()
            await inspector.stop()
            // The connection has ended: what comes is not waited for.
            #expect(try await !live.reads("nothing like this").contains("nothing like this"))
            #expect(inspector.url == nil)
            await #expect(throws: Unavailable.self) { try await visitor.get() }
            let again = Visitor(page: try inspector.start())
            #expect(again.token != visitor.token && again.token.count == 32)
            #expect(try await again.get().status == 200)
        }
    }

    // MARK: What it tells

    @Test("It tells live why a fetch waits, and where answers came from, without secrets")
    func live() async throws {
        try await inspected { test, _, visitor in
            let secret = url("urgent?token=CANARY&n=1")
            test.transport.script(url("later"), [.body(Data())])
            let (live, other) = (try await visitor.open(), try await visitor.open())
            let (task, transfer) = try await test.begin(secret)
            let later = test.call(url("later"), in: .slow)
            // Two pages see the same.
            let waits = try await [live.reads("waits for 1 urgent fetch"), other.reads("waits for 1 urgent fetch")]
            transfer.finish(with: Data("body".utf8))
            for task in [task, later] { _ = try await task.value }
            _ = try await test.call(secret, in: .fast).value
            let text = try await live.reads("\"network\",false]", "\"memory\",false]")
            #expect(waits.allSatisfy { $0.contains("waits for 1 urgent fetch") && !$0.contains("CANARY") })
            #expect(text.contains("\"network\",false]") && text.contains("\"memory\",false]"))
            #expect(text.contains("Content-Type: text/event-stream") && (waits[0] + text).contains("token=***"))
            #expect(!text.contains("CANARY"))
        }
    }

    @Test(
        "The story of a fetch has its callers, attempts and writes; without a page and without need nothing is recorded"
    )
    func story() async throws {
        var options = Inspector.Options()
        options.recordsAlways = true
        for isRecorded in [true, false] {
            try await inspected(isRecorded ? options : .init(), folder: TemporaryFolder()) { test, _, visitor in
                let record = EventRecord()
                let observation = test.cache.observe(record)
                test.cache.slowQueue.isSuspended = true
                let tasks = [test.call(url("a"), in: .slow), test.call(url("a"), in: .fast)]
                try await test.transport.nextTransfer().finish(with: Data(count: 3_000))
                for task in tasks { _ = try await task.value }
                await test.cache.idle()
                withExtendedLifetime(observation) {}
                let fetch = try #require(record.begins(.fetch).first?.id)
                let reply = try await visitor.get("fetch?id=\(fetch.number)")
                #expect(reply.status == (isRecorded ? 200 : 404))
                if !isRecorded { return #expect(reply.text.hasPrefix("The fetch is not among")) }
                let pieces = (reply.json["pieces"] as? [[String: any Sendable]] ?? []).compactMap { $0["n"] as? String }
                #expect(pieces == ["look-up", "attempt: status 200, 3000 bytes", "write of 3000 bytes"])
                #expect((reply.json["callers"] as? [any Sendable])?.count == 2)
                let row = reply.json["row"] as? [String: any Sendable]
                #expect(row?["o"] as? String == "network" && row?["k"] as? String == "http://host.test/a")
            }
        }
    }

    @Test("A fetch and a call that began before the page are told, and go on when an inspector starts again")
    func earlier() async throws {
        try await inspected { test, inspector, visitor in
            let (task, transfer) = try await test.begin(url("early"))
            let live = try await visitor.open()
            _ = try await live.reads("\"rows\":[{", "early")
            await inspector.stop()
            let again = try await Visitor(page: inspector.start()).open()
            transfer.finish(with: Data("body".utf8))
            _ = try await task.value
            let text = try await again.reads("\"o\":\"network\"", "null,\"network\",false]")
            #expect(text.contains("\"o\":\"network\"") && text.contains("null,\"network\",false]"))
            #expect(
                text.components(separatedBy: "\n").last { $0.contains("\"rows\"") }?.contains("\"l\":false") == true)
        }
    }

    @Test("A prefetch that is held back again and again has a story of bounded length")
    func interrupted() async throws {
        try await inspected { test, _, visitor in
            let record = EventRecord()
            let observation = test.cache.observe(record)
            let live = try await visitor.open()
            let (_, slow) = try await test.begin(url("s"), in: .slow)
            for number in 0..<180 {
                let (task, transfer) = try await test.begin(url("\(number)"))
                try await slow.wait { $0.isThrottled }
                test.clock.advance(by: .milliseconds(1))
                transfer.finish(with: Data())
                _ = try await task.value
                try await slow.wait { !$0.isThrottled }
                test.clock.advance(by: .milliseconds(1))
            }
            let fetch = try #require(record.begins(.fetch).first?.id)
            let story = try await visitor.get("fetch?id=\(fetch.number)").json
            let spans = ((story["row"] as? [String: any Sendable])?["s"] as? [any Sendable])?.count ?? 0
            #expect(spans == 3 * 200 && story["omitted"] as? Int ?? 0 > 0)
            withExtendedLifetime((observation, live)) {}
        }
    }

    @Test("A page that is open for an hour of traffic does not make the program larger")
    func hourOfTraffic() async {
        await #expect(processExitsWith: .success) {
            var configuration = DataCache.Configuration()
            configuration.transport = InstantTransport()
            configuration.cachePolicy = .bypass
            configuration.memoryPressure = nil
            let cache = DataCache(configuration)
            var options = Inspector.Options()
            options.historyLimit = 1_000
            let inspector = Inspector(cache, options)
            let live = try await Visitor(page: try inspector.start()).open()
            Thread.detachNewThread {
                var piece = [UInt8](repeating: 0, count: 64 << 10)
                while recv(live.connection.fileDescriptor, &piece, piece.count, 0) > 0 {}
            }
            // The pages that the process has in memory.
            func size() throws -> Int {
                let fields = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8).split(separator: " ")
                return (Int(fields[1]) ?? 0) * sysconf(Int32(_SC_PAGESIZE))
            }
            func fetch(_ count: Int, from first: Int) async throws {
                for batch in stride(from: first, to: first + count, by: 50) {
                    let tasks = (batch..<batch + 50).map { cache.getData(url("n\($0)")) }
                    for task in tasks { _ = try await task.value }
                }
            }
            try await fetch(3_000, from: 0)
            let before = try size()
            // Four fetches a second make 150,000 events in an hour.
            try await fetch(15_000, from: 3_000)
            let growth = try size() - before
            #expect(growth < 4 << 20, "\(growth) bytes")
            await inspector.stop()
            await cache.shutdown()
        }
    }

    @Test("A page is told that the cache has shut down, and its stream ends")
    func shutDown() async throws {
        try await inspected { test, _, visitor in
            let live = try await visitor.open()
            await test.cache.shutdown()
            #expect(try await live.reads("nothing like this").hasSuffix("data: {\"over\":true}\n\n"))
        }
    }

    @Test("The program's own names of secrets are left out of entries and fetches")
    func redaction() async throws {
        let test = TestCache(folder: TemporaryFolder()) { $0.redaction = Redaction(secretNames: ["ticket"]) }
        let inspector = Inspector(test.cache)
        let visitor = Visitor(page: try inspector.start())
        try await test.cache.addDataAndWait(Data("a".utf8), for: url("a?ticket=CANARY"))
        _ = try await test.begin(url("b?ticket=CANARY"))
        let live = try await visitor.open()
        let text = try await live.reads("b?ticket=***") + visitor.get("entries").text
        #expect(text.contains("a?ticket=***") && text.contains("b?ticket=***") && !text.contains("CANARY"))
        await inspector.stop()
        await test.cache.shutdown()
    }

    // MARK: Entries

    private func rows(_ visitor: Visitor, _ query: String = "") async throws -> [[String: any Sendable]] {
        try await visitor.get("entries?\(query)").json["rows"] as? [[String: any Sendable]] ?? []
    }

    private func key(_ visitor: Visitor, of name: String) async throws -> String {
        try #require(try await rows(visitor, "search=\(name)").first?["i"] as? String)
    }

    @Test("Entries are searched, sorted and paged, on disk and in memory alone", arguments: [true, false])
    func entries(onDisk: Bool) async throws {
        try await inspected(folder: onDisk ? TemporaryFolder() : nil) { test, _, visitor in
            for number in 1...7 {
                let request = url("picture-\(number)?token=CANARY\(number)")
                try await test.cache.addDataAndWait(Data(count: number * 1_000), for: request)
            }
            let (first, total) = (try await rows(visitor, "order=size&limit=3"), try await visitor.get("entries"))
            #expect(first.map { ($0["n"] as? Int ?? 0) / 1_000 } == [7, 6, 5] && total.json["total"] as? Int == 7)
            let next = try await rows(visitor, "order=size&up=1&limit=3&offset=3")
            #expect(next.map { ($0["n"] as? Int ?? 0) / 1_000 } == [4, 5, 6])
            let found = try await visitor.get("entries?search=PICTURE-3")
            #expect((found.json["rows"] as? [any Sendable])?.count == 1 && found.json["total"] as? Int == 1)
            #expect(found.text.contains("picture-3?token=***") && !found.text.contains("CANARY"))
            // A search cannot be used to guess what is secret.
            #expect(try await rows(visitor, "search=CANARY").isEmpty)
            for order in ["used", "stored", "expires", "url", "nonsense", "size;drop"] {
                #expect(try await rows(visitor, "order=\(order)&limit=200").count == 7)
            }
            #expect(try await rows(visitor, "limit=-1&offset=-5").count == 1)
        }
    }

    @Test("What is made of an entry is found by the steps that have made it")
    func madeEntries() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        let inspector = Inspector(test.cache)
        let visitor = Visitor(page: try inspector.start())
        try test.script(url("a?size=2"), .sample(40, 30))
        try await test.load(ImageRequest(url("a?size=2")).processed(by: Inverting("Sepia")))
        let found = try await rows(visitor, "search=test.sepia")
        #expect(found.count == 1 && found.first?["made"] as? Bool == true)
        #expect(try await rows(visitor, "search=host.test/a").count >= 1)
        #expect(try await rows(visitor, "search=size").isEmpty)
        await inspector.stop()
        await test.cache.shutdown()
    }

    @Test("An entry has the number of calls that the cache has answered with it while a page was open")
    func hits() async throws {
        try await inspected(folder: TemporaryFolder()) { test, _, visitor in
            test.transport.script(url("a"), [.text("a", ["Cache-Control": "max-age=600"])])
            let live = try await visitor.open()
            for _ in 0..<3 { _ = try await test.cache.getData(url("a")).value }
            test.cache.clearMemory()
            _ = try await test.cache.getData(url("a")).value
            try await test.cache.addDataAndWait(Data("b".utf8), for: url("b"))
            func hits(_ name: String) async throws -> Int? {
                try await rows(visitor, "search=host.test/\(name)").first?["hits"] as? Int
            }
            // The first call is answered by the network.
            #expect(try await hits("a") == 3)
            #expect(try await hits("b") == 0)
            withExtendedLifetime(live) {}
        }
    }

    @Test("What a search finds is counted up to a limit")
    func counted() async throws {
        try await inspected(folder: TemporaryFolder()) { test, _, visitor in
            for number in 0..<10_010 { try test.cache.addData(Data([1]), for: url("n\(number)")) }
            await test.cache.synchronize()
            let (all, found) = (try await visitor.get("entries"), try await visitor.get("entries?search=host.test/n"))
            #expect(all.json["total"] as? Int == 10_010 && found.json["total"] as? Int == 10_001)
        }
    }

    @Test("A file that is handed out is not named after the digests in its key, and a large one is no picture")
    func fileNames() async throws {
        try await inspected(folder: TemporaryFolder()) { test, _, visitor in
            let request = DataRequest(url("photo.png")).with(\.headers, ["Authorization": "CANARY"])
            try await test.cache.addDataAndWait(Data("a".utf8), for: request)
            let key = try await key(visitor, of: "photo")
            let reply = try await visitor.get("body?key=\(key)")
            #expect(reply.field("Content-Disposition") == "attachment; filename=\"photo.png\"")
            try await test.cache.addDataAndWait(Data(count: 33 << 20), for: url("large"))
            let large = try await self.key(visitor, of: "large")
            #expect(try await visitor.get("thumbnail?key=\(large)").status == 413)
            #expect(try await visitor.get("entry?key=\(large)").json["bytes"] as? Int ?? 0 >= 33 << 20)
        }
    }

    @Test("A body is handed out as an attachment alone, and a thumbnail is a picture made anew from its pixels")
    func bodies() async throws {
        try await inspected(folder: TemporaryFolder()) { test, _, visitor in
            let page = Data("<script>alert(1)</script>".utf8)
            let picture = try Image.filled(with: Color(hex: 0xff0000), 300, 150).encoded(as: .png) + page
            for (name, body, type) in [
                ("page.html", page, "text/html"), ("evil.svg", page, "image/svg+xml"), ("p.png", picture, "image/png"),
            ] {
                let headers: HTTPHeaders = ["Content-Type": type, "Set-Cookie": "CANARY", "ETag": "\"<b>\""]
                test.transport.script(url(name), [.response(TransferResponse(headers: headers, body: body))])
                _ = try await test.call(url(name), in: .fast).value
            }
            await test.cache.idle()
            for (name, body) in [("page.html", page), ("evil.svg", page), ("p.png", picture)] {
                let key = try await key(visitor, of: name)
                let reply = try await visitor.get("body?key=\(key)")
                #expect(reply.body == body && reply.field("Content-Type") == "application/octet-stream")
                #expect(reply.field("Content-Disposition") == "attachment; filename=\"\(name)\"")
                #expect(reply.field("Content-Security-Policy")?.contains("sandbox") == true)
                let details = try await visitor.get("entry?key=\(key)")
                #expect(!details.text.contains("CANARY") && !details.text.contains("<b>"))
                let thumbnail = try await visitor.get("thumbnail?key=\(key)")
                #expect(thumbnail.status == (name == "p.png" ? 200 : 404) && !thumbnail.text.contains("script"))
                guard name == "p.png" else { continue }
                #expect(try CodecRegistry.standard.decode(thumbnail.body).size == PixelSize(width: 96, height: 48))
            }
            #expect(try await visitor.get("body?key=\(String(repeating: "a", count: 64))").status == 404)
        }
    }

    @Test("A thumbnail is decoded apart if the pictures of the data are", arguments: [Isolation.off, .required])
    func apart(_ isolation: Isolation) async throws {
        let test = TestImageCache { configuration in
            configuration.isolation = isolation
            // There is no such helper, so nothing can be decoded apart.
            configuration.decoderProgram = URL(fileURLWithPath: "/nowhere/dipper-decoder")
        }
        let picture = try Image.filled(with: .black, 3, 2).encoded(as: .png)
        try await test.cache.data.addDataAndWait(picture, for: url("p.png"))
        for inspector in [Inspector(test.cache), Inspector(test.cache.data)] {
            let visitor = Visitor(page: try inspector.start())
            let key = try await key(visitor, of: "p.png")
            #expect(try await visitor.get("thumbnail?key=\(key)").status == (isolation == .off ? 200 : 404))
            await inspector.stop()
        }
        await test.cache.shutdown()
    }

    @Test("An entry is removed, or the server is asked whether it still holds")
    func changes() async throws {
        try await inspected(folder: TemporaryFolder()) { test, _, visitor in
            try await test.cache.addDataAndWait(Data("a".utf8), for: url("a"))
            try await test.cache.addDataAndWait(Data("own".utf8), for: "a key of its own")
            let (key, own) = (try await key(visitor, of: "host.test/a"), try await key(visitor, of: "own"))
            #expect(try await visitor.post("entry?do=revalidate&key=\(own)").status == 409)
            #expect(try await visitor.post("entry?do=revalidate&key=\(key)").status == 200)
            try await test.transport.nextTransfer().finish(with: Data("newer".utf8))
            await test.cache.idle()
            #expect(test.cache.readData(for: url("a")) == Data("newer".utf8))
            #expect(try await visitor.post("entry?do=remove&key=\(key)").status == 200)
            #expect(!test.cache.hasData(for: url("a")) && test.cache.hasData(for: "a key of its own"))
            #expect(try await visitor.post("entry?do=nonsense&key=\(own)").status == 404)
        }
    }

    // MARK: Controls

    @Test("The controls change the queues, the network, the memory pressure and what is kept")
    func controls() async throws {
        try await inspected(folder: TemporaryFolder()) { test, _, visitor in
            func control(_ query: String) async throws {
                #expect(try await visitor.post("control?do=\(query)").status == 200, "\(query)")
            }
            try await control("suspend&queue=fast&value=1")
            try await control("width&queue=slow&value=3")
            #expect(test.cache.fastQueue.isSuspended && test.cache.slowQueue.maxConcurrent == 3)
            #expect(!test.cache.slowQueue.isSuspended)
            try await control("network&value=offline")
            try await control("pressure&value=severe")
            #expect(test.cache.simulatedNetwork == .offline && test.cache.memoryPressure == .severe)
            let waiting = test.call(url("w"), in: .fast)
            try await control("cancel")
            #expect(await waiting.error == .cancelled)
            try await control("network&value=")
            try await control("pressure&value=")
            #expect(test.cache.simulatedNetwork == nil && test.cache.simulatedMemoryPressure == nil)
            try await test.cache.addDataAndWait(Data(count: 9_000), for: "a")
            try await control("clearMemory")
            #expect(test.cache.memoryCount == 0 && test.cache.hasData(for: "a"))
            try await control("trim&value=0")
            await test.cache.synchronize()
            #expect(!test.cache.hasData(for: "a"))
            try test.cache.addData(Data(count: 10), for: "b")
            try await control("clear")
            #expect(!test.cache.hasData(for: "b"))
            #expect(try await visitor.post("control?do=nonsense").status == 404)
        }
    }

    @Test("A control without a value that makes sense changes nothing")
    func senseless() async throws {
        try await inspected(folder: TemporaryFolder()) { test, inspector, visitor in
            test.cache.fastQueue.isSuspended = true
            let width = test.cache.slowQueue.maxConcurrent
            _ = try await visitor.post("control?do=network&value=constrained")
            _ = try await visitor.post("control?do=pressure&value=moderate")
            try await test.cache.addDataAndWait(Data(count: 9_000), for: "a")
            for query in [
                "trim", "trim&value=", "trim&value=abc", "trim&value=1e%2b22", "trim&value=-1", "flush",
                "flush&value=x",
                "suspend&queue=fast", "suspend&queue=fast&value=zz", "suspend&queue=nope&value=0", "suspend&value=0",
                "width&queue=slow&value=zz", "width&queue=slow&value=0", "width&value=3", "network",
                "network&value=bogus",
                "pressure", "pressure&value=bogus",
            ] {
                #expect(try await visitor.post("control?do=\(query)").status == 400, "\(query)")
            }
            await test.cache.synchronize()
            #expect(test.cache.hasData(for: "a") && test.cache.fastQueue.isSuspended)
            #expect(test.cache.slowQueue.maxConcurrent == width && test.cache.simulatedNetwork == .constrained)
            #expect(test.cache.simulatedMemoryPressure == .moderate)
            // What pages simulate ends with the inspector, what the program simulates does not.
            test.cache.simulatedMemoryPressure = .severe
            await inspector.stop()
            #expect(test.cache.simulatedNetwork == nil && test.cache.simulatedMemoryPressure == .severe)
        }
    }

    @Test("A read-only inspector shows, and changes and hands out nothing")
    func readOnly() async throws {
        try await inspected(.readOnly, folder: TemporaryFolder()) { test, _, visitor in
            try await test.cache.addDataAndWait(Data("a".utf8), for: url("a"))
            let key = try await key(visitor, of: "host.test")
            for path in [
                "control?do=clear", "control?do=suspend&queue=fast&value=1", "entry?do=remove&key=\(key)", "nonsense",
            ] {
                #expect(try await visitor.post(path).status == 403, "\(path)")
            }
            #expect(try await visitor.get("body?key=\(key)").status == 403)
            #expect(test.cache.hasData(for: url("a")) && !test.cache.fastQueue.isSuspended)
            #expect(try await visitor.get().text.contains("data-read-only=\"true\""))
        }
    }

    @Test("An image cache's decodes and pictures are told")
    func pictures() async throws {
        let test = TestImageCache()
        let inspector = Inspector(test.cache)
        let visitor = Visitor(page: try inspector.start())
        test.transport.script(url("p"), [.body(try Image.filled(with: Color(hex: 0xff0000), 4, 4).encoded(as: .png))])
        let live = try await visitor.open()
        _ = try await test.cache.getImage(url("p")).value
        let text = try await live.reads("\"decode\":[1,")
        #expect(text.contains("\"decode\":[1,") && text.contains("\"pictures\":["))
        _ = try await visitor.post("control?do=clear")
        #expect(test.cache.memoryCount == 0)
        await inspector.stop()
        await test.cache.shutdown()
    }
}
