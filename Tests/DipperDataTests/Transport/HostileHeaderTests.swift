import FaultServer
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("Servers with odd heads", .timeLimit(.minutes(2)))
struct HostileHeaderTests {
    private static let ok = "HTTP/1.1 200 OK\r\n"
    private static let hello = "Content-Length: 5\r\n\r\nhello"

    private static let statusLines = [
        HostileAnswer("a field without a colon", "HTTP/1.1 200 OK\r\nno colon\r\n" + hello, .malformedResponse),
        HostileAnswer("HTTP/0.9", "hello", .malformedResponse),
        HostileAnswer("an unknown protocol", "SSH-2.0-OpenSSH_9.2\r\n\r\n", .malformedResponse),
        HostileAnswer("shoutcast", "ICY 200 OK\r\n" + hello, .malformedResponse),
        HostileAnswer("HTTP/2 in clear", "HTTP/2.0 200 OK\r\n" + hello, body: "hello"),
        HostileAnswer("HTTP/2 in clear, short", "HTTP/2 200\r\n" + hello, body: "hello"),
        HostileAnswer("HTTP/3 in clear", "HTTP/3 200\r\n" + hello, .malformedResponse),
        HostileAnswer("HTTP/9", "HTTP/9.9 200 OK\r\n" + hello, .malformedResponse),
        HostileAnswer("no status", "HTTP/1.1\r\n" + hello, .malformedResponse),
        HostileAnswer("an empty status", "HTTP/1.1 \r\n" + hello, .malformedResponse),
        HostileAnswer("no space", "HTTP/1.1200 OK\r\n" + hello, .malformedResponse),
        HostileAnswer("status 000", "HTTP/1.1 000 None\r\n" + hello, .malformedResponse),
        HostileAnswer("status 099", "HTTP/1.1 099 Few\r\n" + hello, .malformedResponse),
        HostileAnswer("status 20", "HTTP/1.1 20 OK\r\n" + hello, .malformedResponse),
        HostileAnswer("status 1000", "HTTP/1.1 1000 Many\r\n" + hello, .malformedResponse),
        HostileAnswer("status 2000", "HTTP/1.1 2000 OK\r\n" + hello, .malformedResponse),
        HostileAnswer("status abc", "HTTP/1.1 abc OK\r\n" + hello, .malformedResponse),
        HostileAnswer("status -200", "HTTP/1.1 -200 OK\r\n" + hello, .malformedResponse),
        HostileAnswer("status 999", "HTTP/1.1 999 Request Denied\r\n" + hello, .status(999)),
        HostileAnswer("status 600", "HTTP/1.1 600 Beyond\r\n" + hello, .status(600)),
        HostileAnswer("no reason", "HTTP/1.1 200\r\n" + hello, body: "hello"),
        HostileAnswer("line feeds alone", "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", body: "hello"),
        HostileAnswer("101 unasked", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nhello", .status(101)),
        HostileAnswer("304 unasked", "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n", .status(304)),
        HostileAnswer(
            "206 unasked", "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-4/10\r\n" + hello, .malformedResponse
        ),
        HostileAnswer("206 without a range", "HTTP/1.1 206 Partial Content\r\n" + hello, .malformedResponse),
        HostileAnswer("204 with a body", "HTTP/1.1 204 No Content\r\n" + hello, body: ""),
        HostileAnswer("401 unasked", "HTTP/1.1 401 No\r\nWWW-Authenticate: Basic, Digest, ,\r\n" + hello, .status(401)),
        HostileAnswer("407 unasked", "HTTP/1.1 407 No\r\nProxy-Authenticate: Basic\r\n" + hello, .status(407)),
        HostileAnswer("416 unasked", "HTTP/1.1 416 No\r\nContent-Range: bytes */0\r\n" + hello, .status(416)),
    ]

    @Test("status lines", arguments: statusLines)
    func status(answer: HostileAnswer) async throws { try await answer.check() }

    @Test("a thousand informational answers are passed over, and leave nothing")
    func informational() async throws {
        let hostile = try await HostileServer { _ in
            [
                .repeat("HTTP/1.1 103 Early Hints\r\nX-Hint: yes\r\n\r\n", count: 1_000),
                .send(Self.ok + "X-Answer: yes\r\n" + Self.hello),
            ]
        }
        let response = try await hostile.cache.getData(DataRequest(string: hostile.server.url("/"))).response
        #expect(response.status == 200)
        #expect(response.headers["X-Hint"] == nil)
        #expect(response.headers["X-Answer"] == "yes")
        #expect(response.data == Data("hello".utf8))
        await hostile.stop()
    }

    @Test(
        "a line that is no field is left out, with what continues it",
        arguments: [
            "X-Bad : space", "X-Bad\t: tab", ": no name", "X Bad: space", "X-Bäd: letter", "X-Bad\u{1}: control",
            "(X-Bad): brackets", "\u{FEFF}X-Bad: mark", "X-Bad : space\r\n and more", "(X-Bad): a\r\n\tand more",
        ])
    func lines(line: String) async throws {
        let hostile = try await HostileServer { _ in
            [.send(Self.ok + "X-First: 1\r\n" + line + "\r\nX-Last: 2\r\n" + Self.hello)]
        }
        let response = try await hostile.cache.getData(DataRequest(string: hostile.server.url("/"))).response
        #expect(response.data == Data("hello".utf8))
        #expect(response.headers.fields.map(\.name) == ["X-First", "X-Last", "Content-Length"])
        #expect(response.headers.fields.map(\.value) == ["1", "2", "5"])
        await hostile.stop()
    }

    @Test(
        "values of any bytes are taken as text; none that holds a NUL or a line break",
        arguments: [
            ([0xFF, 0xFE, 0x80], true), ([0x41, 0x01, 0x1B, 0x42], true), ([0x41, 0x0D, 0x42], false),
            ([0x41, 0x00, 0x42], false),
            ([], true), ([0x20, 0x09, 0x20], true), (Array("a\r\n b\r\n\tc".utf8), true),
        ] as [([UInt8], Bool)])
    func values(bytes: [UInt8], isTaken: Bool) async throws {
        let hostile = try await HostileServer { _ in
            [.send(Self.ok + "X-Value: "), .bytes(bytes), .send("\r\n" + Self.hello)]
        }
        let task = hostile.cache.getData(DataRequest(string: hostile.server.url("/")))
        if isTaken {
            let response = try await task.response
            #expect(response.headers.isWellFormed)
            #expect(response.headers["X-Value"] != nil)
            #expect(response.data == Data("hello".utf8))
        } else if let response = try? await task.response {
            #expect(response.headers["X-Value"] == nil)
            #expect(response.data == Data("hello".utf8))
        } else {
            #expect(await task.error == .malformedResponse)
        }
        await hostile.stop()
    }

    @Test("a validator cannot smuggle a field into the next request")
    func validators() async throws {
        for etag in ["\"a\rX-Smuggled: yes\"", "\"a\"\r\n X-Smuggled: yes", "\"a\u{1}\"", "\"\u{FFFD}\""] {
            let hostile = try await HostileServer { request in
                [.send(Self.ok + "Cache-Control: no-cache\r\nETag: \(etag)\r\n" + Self.hello)]
            }
            _ = await hostile.outcome()
            _ = await hostile.outcome()
            for request in hostile.server.requests {
                #expect(request.header("X-Smuggled") == nil)
                #expect(!request.head.replacingOccurrences(of: "\r\n", with: "").contains("\r"), "\(etag)")
            }
            await hostile.stop()
        }
    }

    @Test(
        "trailers are not fields of the answer",
        arguments: [
            "ETag: \"forged\"\r\nSet-Cookie: a=b\r\n", "HTTP/1.1 200 OK: yes\r\nETag: \"forged\"\r\n",
            "HTTP/1.1: 200\r\nETag: \"forged\"\r\n", " folded\r\n",
        ], ["2\r\nhi\r\n", ""])
    func trailers(trailers: String, chunks: String) async throws {
        let hostile = try await HostileServer { _ in
            [.send(Self.ok + "Transfer-Encoding: chunked\r\nX-Field: yes\r\n\r\n\(chunks)0\r\n\(trailers)\r\n")]
        }
        let response = try await hostile.cache.getData(DataRequest(string: hostile.server.url("/"))).response
        #expect(response.status == 200)
        #expect(response.data.count == (chunks.isEmpty ? 0 : 2))
        #expect(response.headers["ETag"] == nil)
        #expect(response.headers["X-Field"] == "yes")
        await hostile.stop()
    }

    @Test("cookies are not kept")
    func cookies() async throws {
        let hostile = try await HostileServer { request in
            let location = request.path == "/first" ? "HTTP/1.1 302 Found\r\nLocation: /next\r\n" : Self.ok
            return [.send(location + "Set-Cookie: a=b; Path=/\r\nCache-Control: no-store\r\n" + Self.hello)]
        }
        for path in ["/first", "/second"] { #expect(await hostile.outcome(path) == .body("hello")) }
        #expect(hostile.server.requests.count == 3)
        for request in hostile.server.requests { #expect(request.header("Cookie") == nil) }
        await hostile.stop()
    }

    @Test(
        "one long field among the allowed bytes does no harm",
        arguments: ["ETag", "Vary", "Cache-Control", "Last-Modified", "Expires", "Content-Type", "X-Any", "Link"])
    func long(name: String) async throws {
        for size in [90_000, 110_000] {
            let value = String(repeating: "a,", count: size / 2)
            let hostile = try await HostileServer({ $0.network.maximumHeaderSize = 120_000 }) { _ in
                [.send(Self.ok + "\(name): \(value)\r\n" + Self.hello)]
            }
            for _ in 0..<2 {
                let outcome = await hostile.outcome()
                // libcurl takes no line above 100 KiB.
                #expect(outcome == (size == 90_000 ? .body("hello") : .error(.tooLarge)), "\(outcome) \(size)")
            }
            await hostile.stop()
        }
    }

    @Test("ten thousand fields among the allowed bytes do no harm")
    func many() async throws {
        let hostile = try await HostileServer({ $0.network.maximumHeaderSize = 300_000 }) { _ in
            [.send(Self.ok), .repeat("X-Many: yes\r\n", count: 10_000), .send("ETag: \"a\"\r\n" + Self.hello)]
        }
        let response = try await hostile.cache.getData(DataRequest(string: hostile.server.url("/"))).response
        #expect(response.headers.fields.count == 10_002)
        #expect(response.headers["ETag"] == "\"a\"")
        #expect(await hostile.outcome() == .body("hello"))
        await hostile.stop()
    }
}
