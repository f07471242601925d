import FaultServer
import TestSupport
import Testing

private let ok = "HTTP/1.1 200 OK\r\n"

@Suite("Servers that send too much, break off or contradict themselves", .timeLimit(.minutes(2)))
struct HostileAnswerTests {
    @Test("the largest number as the length of a part fits, without a limit to bodies")
    func largestLength() async throws {
        let hostile = try await HostileServer {
            $0.network.maximumBodySize = .max
            $0.retryPolicy = .fixed(.zero, retries: 1)
        } script: { request in
            guard request.header("Range") != nil else {
                return [.send("HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: 10\r\n\r\nabcd"), .close]
            }
            return [
                .send(
                    "HTTP/1.1 206 Partial Content\r\nETag: \"1\"\r\nContent-Range: bytes 4-9/10\r\n"
                        + "Content-Length: \(Int.max)\r\n\r\nef"), .close,
            ]
        }
        let outcome = await hostile.outcome()
        #expect(outcome != .body("abcdef"))
        #expect(hostile.server.requests.count >= 2)
        await hostile.stop()
    }

    private static let chunked = ok + "Transfer-Encoding: chunked\r\n\r\n"

    // MARK: Too much

    @Test(
        "what has no end is left as soon as it is too much",
        arguments: [
            HostileAnswer("a body", [.send(ok + "\r\n"), .repeat("x")], .tooLarge),
            HostileAnswer(
                "a body with a length", [.send(ok + "Content-Length: 10000000000\r\n\r\n"), .repeat("x")], .tooLarge),
            HostileAnswer("a body in chunks", [.send(chunked), .repeat("5\r\nhello\r\n")], .tooLarge),
            HostileAnswer("one chunk", [.send(chunked + "7FFFFFFFFFFFFFF\r\n"), .repeat("x")], .tooLarge),
            HostileAnswer("trailers", [.send(chunked + "2\r\nhi\r\n0\r\n"), .repeat("X-Trailer: yes\r\n")], .tooLarge),
            HostileAnswer(
                "a length too large, and no body", [.send(ok + "Content-Length: 200001\r\n\r\n"), .wait], .tooLarge),
            HostileAnswer(
                "the body of an error", [.send("HTTP/1.1 404 Not Found\r\n\r\n"), .repeat("x")], .status(404)),
            HostileAnswer("a status line", [.send("HTTP/1.1 200 "), .repeat("x")], .tooLarge),
            HostileAnswer("one field", [.send(ok + "X-Long: "), .repeat("x")], .tooLarge),
            HostileAnswer("fields", [.send(ok), .repeat("X-Many: yes\r\n")], .tooLarge),
            HostileAnswer("continuation lines", [.send(ok + "X-Folded: a\r\n"), .repeat(" b\r\n")], .tooLarge),
            HostileAnswer("informational answers", [.repeat("HTTP/1.1 103 Early Hints\r\n\r\n")], .tooLarge),
            HostileAnswer("bytes that are not HTTP", [.repeat("x")], .malformedResponse),
            HostileAnswer("nothing", [.flood([0], count: .max)], .malformedResponse),
            HostileAnswer("empty lines", [.repeat("\r\n")], .malformedResponse),
        ])
    func endless(answer: HostileAnswer) async throws { try await answer.check() }

    @Test("a body as large as allowed is taken, one byte more is not", .inCheck, arguments: [200_000, 200_001])
    func limit(size: Int) async throws {
        let text = String(repeating: "x", count: size)
        for answer in [
            Self.chunked + "\(String(size, radix: 16))\r\n\(text)\r\n0\r\n\r\n",
            ok + "Content-Length: \(size)\r\n\r\n\(text)", ok + "\r\n" + text,
        ] {
            let outcome: HostileServer.Outcome = size == 200_000 ? .body(text) : .error(.tooLarge)
            try await HostileAnswer("\(size)", [.send(answer), .close], outcome).check()
        }
    }

    private static func coded(_ coding: String, _ bytes: [UInt8], _ error: DipperError) -> HostileAnswer {
        let head = ok + "Content-Encoding: \(coding)\r\nContent-Length: \(bytes.count)\r\n\r\n"
        return HostileAnswer(coding, [.send(head), .bytes(bytes), .close], error)
    }

    /// Ten megabytes of zeros.
    private static let brotli = [UInt8](Data(base64Encoded: "n///n/gnAOKxQCD3/hM=") ?? Data())

    @Test(
        "what is coded counts as decoded, and must be decodable",
        arguments: [
            coded("gzip", GzipBomb.zeros(8_000_000), .tooLarge), coded("x-gzip", GzipBomb.zeros(8_000_000), .tooLarge),
            coded("gzip, gzip", GzipBomb.nested(8_000_000), .tooLarge), coded("br", brotli, .tooLarge),
            coded(Array(repeating: "gzip", count: 50).joined(separator: ", "), GzipBomb.zeros(100), .malformedResponse),
            coded("gzip", Array("this is not gzip".utf8), .malformedResponse),
            coded("deflate", Array("this is not deflate".utf8), .malformedResponse),
            coded("br", Array("this is not brotli".utf8), .malformedResponse),
            coded("compress", Array("this is not known".utf8), .malformedResponse),
        ])
    func codings(answer: HostileAnswer) async throws { try await answer.check() }

    @Test("what endless answers and announcements take in memory is bounded", .inCheck)
    func memory() async {
        // In a process of its own, whose memory is its own as well.
        await #expect(processExitsWith: .success) {
            let hostile = try await HostileServer({
                $0.network.maximumBodySize = 1 << 30
                $0.network.maximumDecodedSize = 4 << 20
            }) { request in
                switch request.path {
                case "/length": [.send(ok + "Content-Length: 10000000000\r\n\r\n"), .wait]
                case "/promise": [.send(ok + "Content-Length: 1000000000\r\n\r\n123"), .close]
                case "/fields": [.send(ok), .repeat("X-Many: yes\r\n")]
                case "/field": [.send(ok + "X-Long: "), .repeat("x")]
                case "/error": [.send("HTTP/1.1 500 Oh\r\n\r\n"), .repeat("x")]
                default:
                    [.send(ok + "Content-Encoding: gzip\r\n\r\n"), .flood(GzipBomb.zeros(30_000_000), count: .max)]
                }
            }
            func peakMemory() throws -> Int {
                let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
                let line = status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") }
                return try #require(line.flatMap { Int($0.filter(\.isNumber)) }) << 10
            }
            let expected: [(String, DipperError)] = [
                ("/length", .tooLarge), ("/promise", .truncated), ("/fields", .tooLarge), ("/field", .tooLarge),
                ("/error", .status(500)), ("/bomb", .tooLarge),
            ]
            // What the libraries need for themselves.
            _ = await hostile.outcome("/error")
            _ = GzipBomb.zeros(30_000_000)
            let before = try peakMemory()
            for (path, error) in expected { #expect(await hostile.outcome(path) == .error(error), "\(path)") }
            #expect(try peakMemory() - before < 40 << 20)
            await hostile.stop()
        }
    }

    // MARK: Broken off

    private static let whole = [
        "length": ok + "Content-Length: 12\r\nX-Field: yes\r\n\r\nhello, world",
        "chunked": ok
            + "Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n7\r\n, world\r\n0\r\nX-Trailer: yes\r\n\r\n",
        "informational": "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok + "Content-Length: 2\r\n\r\nhi",
    ]

    /// "/length/17/reset" breaks the answer off after 17 bytes.
    @Test(
        "an answer that is broken off at any byte is a failure that may pass",
        arguments: ["length", "chunked", "informational"], ["reset", "close"])
    func everyByte(name: String, ending: String) async throws {
        let answer = try #require(Self.whole[name])
        let hostile = try await HostileServer { request in
            let parts = request.path.split(separator: "/")
            let bytes = Array(answer.utf8.prefix(Int(parts[1]) ?? 0))
            return [.bytes(bytes), parts[2] == "reset" ? .reset : .close]
        }
        // Behind the last chunk's empty line nothing can be missing any more but its line feed.
        for count in 0..<(answer.utf8.count - (name == "chunked" ? 1 : 0)) {
            let outcome = await hostile.outcome("/\(name)/\(count)/\(ending)")
            #expect(outcome == .error(.connectionLost) || outcome == .error(.truncated), "byte \(count): \(outcome)")
        }
        let body = name == "informational" ? "hi" : "hello, world"
        #expect(await hostile.outcome("/\(name)/\(answer.utf8.count)/close") == .body(body))
    }

    // MARK: Contradictions

    @Test(
        "lengths and chunks that contradict themselves",
        arguments: [
            HostileAnswer("a length too long", ok + "Content-Length: 6\r\n\r\nhello", .truncated),
            HostileAnswer("a length too short", ok + "Content-Length: 4\r\n\r\nhello", body: "hell"),
            HostileAnswer("a length past 64 bits", ok + "Content-Length: 99999999999999999999\r\n\r\nhello", .tooLarge),
            HostileAnswer("one twice", ok + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", body: "hello"),
            // Chunks take precedence (RFC 9112, section 6.3).
            HostileAnswer(
                "a length before chunks",
                ok + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", body: "hello"),
            HostileAnswer(
                "a length behind chunks", chunked.dropLast() + "Content-Length: 2\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
                body: "hello"),
            HostileAnswer("no trailer", chunked + "5\r\nhello\r\n0\r\nHTTP/1.1 200 OK\r\n\r\n", .malformedResponse),
            HostileAnswer("no last chunk", chunked + "5\r\nhello\r\n", .truncated),
            HostileAnswer("an unknown coding", ok + "Transfer-Encoding: rot13\r\n\r\nhello", .malformedResponse),
            HostileAnswer("nothing", "", .connectionLost),
            HostileAnswer("a status line alone", ok, .connectionLost),
            HostileAnswer("no empty line", ok + "Content-Length: 0\r\n", .connectionLost),
        ]
            + ["-5", "many", "0x5", "+5", "5, 4", "5\r\nContent-Length: 4", "4\r\nContent-Length: 5"].map { length in
                HostileAnswer(length, ok + "Content-Length: \(length)\r\n\r\nhello", .malformedResponse)
            }
            + ["zwei", "-5", "0x5", "", "FFFFFFFFFFFFFFFFF", "4", "8"].map { size in
                HostileAnswer("chunk \(size)", chunked + "\(size)\r\nhello\r\n0\r\n\r\n", .malformedResponse)
            })
    func contradiction(answer: HostileAnswer) async throws { try await answer.check() }

    private static let poison = ok + "Content-Length: 6\r\n\r\npoison"
    private static let right = ok + "Content-Length: 5\r\n\r\nright"

    @Test(
        "what follows an answer is not taken for the next one",
        arguments: [
            "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 304 Not Modified\r\n\r\n",
            "HTTP/1.1 204 No Content\r\nContent-Length: 6\r\n\r\n", ok + "Content-Length: 2\r\n\r\nhi",
            chunked + "2\r\nhi\r\n0\r\n\r\n", ok + "Content-Length: 0\r\n\r\n",
            "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n",
        ], [true, false])
    func splitting(first: String, isLate: Bool) async throws {
        let hostile = try await HostileServer { request in
            guard request.path == "/first" else { return [.send(Self.right)] }
            return isLate ? [.send(first), .send(Self.poison)] : [.send(first + Self.poison)]
        }
        _ = await hostile.outcome("/first")
        // On a connection of its own: by then all of the first answer has arrived.
        let other = DataRequest(string: "http://localhost:\(hostile.server.port)/other")
        #expect(await hostile.outcome(other) == .body("right"))
        for path in ["/second", "/third"] { #expect(await hostile.outcome(path) == .body("right")) }
    }

    @Test("the body of an answer to HEAD is not taken for the next answer", .inCheck)
    func head() async throws {
        let hostile = try await HostileServer { request in
            request.head.hasPrefix("HEAD")
                ? [.send(ok + "Content-Length: \(Self.poison.utf8.count)\r\n\r\n" + Self.poison)] : [.send(Self.right)]
        }
        var request = DataRequest(string: hostile.server.url("/head"))
        request.modifier = RequestModifier { request in
            var request = request
            request.method = "HEAD"
            return request
        }
        #expect(await hostile.outcome(request) == .body(""))
        for path in ["/second", "/third"] { #expect(await hostile.outcome(path) == .body("right")) }
    }
}
