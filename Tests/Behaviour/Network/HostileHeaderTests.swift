import FaultServer
import TestSupport
import Testing

private let ok = "HTTP/1.1 200 OK\r\n"
private let hello = "Content-Length: 5\r\n\r\nhello"

@Suite("Servers with odd heads", .timeLimit(.minutes(2)))
struct HostileHeaderTests {
    private static func malformed(_ start: String) -> HostileAnswer {
        HostileAnswer(start, start + "\r\n" + hello, .malformedResponse)
    }

    @Test(
        "status lines",
        arguments: [
            malformed("HTTP/1.1 200 OK\r\nno colon"), malformed("ICY 200 OK"), malformed("HTTP/3 200"),
            malformed("HTTP/9.9 200 OK"), malformed("HTTP/1.1"), malformed("HTTP/1.1 "), malformed("HTTP/1.1200 OK"),
            malformed("HTTP/1.1 000 None"), malformed("HTTP/1.1 099 Few"), malformed("HTTP/1.1 20 OK"),
            malformed("HTTP/1.1 1000 Many"), malformed("HTTP/1.1 2000 OK"), malformed("HTTP/1.1 abc OK"),
            malformed("HTTP/1.1 -200 OK"), malformed("HTTP/1.1 206 Partial Content"),
            malformed("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-4/10"),
            HostileAnswer("HTTP/0.9", "hello", .malformedResponse),
            HostileAnswer("an unknown protocol", "SSH-2.0-OpenSSH_9.2\r\n\r\n", .malformedResponse),
            HostileAnswer("HTTP/2 in clear", "HTTP/2.0 200 OK\r\n" + hello, body: "hello"),
            HostileAnswer("HTTP/2 in clear, short", "HTTP/2 200\r\n" + hello, body: "hello"),
            HostileAnswer("no reason", "HTTP/1.1 200\r\n" + hello, body: "hello"),
            HostileAnswer("line feeds alone", "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", body: "hello"),
            HostileAnswer("204 with a body", "HTTP/1.1 204 No Content\r\n" + hello, body: ""),
            HostileAnswer("999", "HTTP/1.1 999 Request Denied\r\n" + hello, .status(999)),
            HostileAnswer("600", "HTTP/1.1 600 Beyond\r\n" + hello, .status(600)),
            HostileAnswer("101 unasked", "HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\nhello", .status(101)),
            HostileAnswer("304 unasked", "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n", .status(304)),
            HostileAnswer("401", "HTTP/1.1 401 No\r\nWWW-Authenticate: Basic, Digest, ,\r\n" + hello, .status(401)),
            HostileAnswer("407", "HTTP/1.1 407 No\r\nProxy-Authenticate: Basic\r\n" + hello, .status(407)),
            HostileAnswer("416", "HTTP/1.1 416 No\r\nContent-Range: bytes */0\r\n" + hello, .status(416)),
        ])
    func status(answer: HostileAnswer) async throws { try await answer.check() }

    @Test(
        "a line that is no field is left out, with what continues it",
        arguments: [
            "X-Bad : space", "X-Bad\t: tab", ": no name", "X Bad: space", "X-Bäd: letter", "X-Bad\u{1}: control",
            "(X-Bad): brackets", "\u{FEFF}X-Bad: mark", "X-Bad : space\r\n and more", "(X-Bad): a\r\n\tand more",
        ])
    func lines(line: String) async throws {
        let response = try await HostileServer { _ in
            [.send(ok + "X-First: 1\r\nX-Folded: a\r\n b\r\n" + line + "\r\nX-Last: 2\r\n" + hello)]
        }.response()
        #expect(response.data == Data("hello".utf8))
        #expect(response.headers.fields.map(\.name) == ["X-First", "X-Folded", "X-Last", "Content-Length"])
        #expect(response.headers.fields.map(\.value) == ["1", "a b", "2", "5"])
    }

    @Test(
        "values of any bytes are taken as text; none that holds a NUL or a line break", .inCheck,
        arguments: [
            ([0xFF, 0xFE, 0x80], true), ([0x41, 0x01, 0x1B, 0x42], true), ([0x41, 0x0D, 0x42], false),
            ([0x41, 0x00, 0x42], false), ([], true), ([0x20, 0x09, 0x20], true), (Array("a\r\n b\r\n\tc".utf8), true),
        ] as [([UInt8], Bool)])
    func values(bytes: [UInt8], isTaken: Bool) async throws {
        let hostile = try await HostileServer { _ in
            [.send(ok + "X-Value: "), .bytes(bytes), .send("\r\n" + hello)]
        }
        let task = hostile.cache.getData(DataRequest(string: hostile.server.url("/")))
        switch await task.result {
        case .success:
            let response = try await task.response
            #expect(response.data == Data("hello".utf8))
            let value = response.headers["X-Value"]
            #expect((value != nil) == isTaken)
            #expect(value?.unicodeScalars.contains { ["\0", "\r", "\n"].contains($0) } != true)
        case .failure(let error): #expect(!isTaken && error == .malformedResponse)
        }
    }

    @Test("a validator cannot smuggle a field into the next request")
    func validators() async throws {
        for etag in ["\"a\rX-Smuggled: yes\"", "\"a\"\r\n X-Smuggled: yes", "\"a\u{1}\"", "\"\u{FFFD}\""] {
            let hostile = try await HostileServer { _ in
                [.send(ok + "Cache-Control: no-cache\r\nETag: \(etag)\r\n" + hello)]
            }
            _ = await hostile.outcome()
            _ = await hostile.outcome()
            #expect(hostile.server.requests.count == 2)
            for request in hostile.server.requests {
                #expect(request.header("X-Smuggled") == nil)
                #expect(!request.head.replacingOccurrences(of: "\r\n", with: "").contains("\r"), "\(etag)")
            }
            await hostile.stop()
        }
    }

    @Test("a thousand informational answers are passed over, and leave nothing", .inCheck)
    func informational() async throws {
        let response = try await HostileServer { _ in
            [
                .repeat("HTTP/1.1 103 Early Hints\r\nX-Hint: yes\r\n\r\n", count: 1_000),
                .send(ok + "X-Answer: yes\r\n" + hello),
            ]
        }.response()
        #expect(response.status == 200 && response.data == Data("hello".utf8))
        #expect(response.headers["X-Hint"] == nil && response.headers["X-Answer"] == "yes")
    }

    @Test(
        "trailers are not fields of the answer", .inCheck,
        arguments: [
            "ETag: \"forged\"\r\nSet-Cookie: a=b\r\n", "HTTP/1.1 200 OK: yes\r\nETag: \"forged\"\r\n",
            "HTTP/1.1: 200\r\nETag: \"forged\"\r\n", " folded\r\n",
        ], ["2\r\nhi\r\n", ""])
    func trailers(trailers: String, chunks: String) async throws {
        let response = try await HostileServer { _ in
            [.send(ok + "Transfer-Encoding: chunked\r\nX-Field: yes\r\n\r\n\(chunks)0\r\n\(trailers)\r\n")]
        }.response()
        #expect(response.status == 200 && response.data.count == (chunks.isEmpty ? 0 : 2))
        #expect(response.headers["ETag"] == nil && response.headers["X-Field"] == "yes")
    }

    @Test("cookies are not kept", .inCheck)
    func cookies() async throws {
        let hostile = try await HostileServer { request in
            let start = request.path == "/first" ? "HTTP/1.1 302 Found\r\nLocation: /next\r\n" : ok
            return [.send(start + "Set-Cookie: a=b; Path=/\r\nCache-Control: no-store\r\n" + hello)]
        }
        for path in ["/first", "/second"] { #expect(await hostile.outcome(path) == .body("hello")) }
        #expect(hostile.server.requests.count == 3)
        for request in hostile.server.requests { #expect(request.header("Cookie") == nil) }
    }

    @Test(
        "one long field among the allowed bytes does no harm", .inCheck,
        arguments: ["ETag", "Vary", "Cache-Control", "Last-Modified", "Expires", "Content-Type", "X-Any", "Link"])
    func long(name: String) async throws {
        // libcurl takes no line above 100 KiB.
        for (size, outcome) in [(90_000, HostileServer.Outcome.body("hello")), (110_000, .error(.tooLarge))] {
            let value = String(repeating: "a,", count: size / 2)
            let hostile = try await HostileServer({ $0.network.maximumHeaderSize = 120_000 }) { _ in
                [.send(ok + "\(name): \(value)\r\n" + hello)]
            }
            for _ in 0..<2 { #expect(await hostile.outcome() == outcome, "\(size)") }
            await hostile.stop()
        }
    }

    @Test("ten thousand fields among the allowed bytes do no harm", .inCheck)
    func many() async throws {
        let hostile = try await HostileServer({ $0.network.maximumHeaderSize = 300_000 }) { _ in
            [.send(ok), .repeat("X-Many: yes\r\n", count: 10_000), .send("ETag: \"a\"\r\n" + hello)]
        }
        let response = try await hostile.response()
        #expect(response.headers.fields.count == 10_002 && response.headers["ETag"] == "\"a\"")
        #expect(await hostile.outcome() == .body("hello"))
    }
}
