import FaultServer
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("Servers that send too much", .timeLimit(.minutes(2)))
struct HostileBodyTests {
    private static let ok = "HTTP/1.1 200 OK\r\n"

    private static let tooMuch = [
        HostileAnswer("an endless body", [.send(ok + "\r\n"), .repeat("x")], .tooLarge),
        HostileAnswer(
            "an endless body with a length", [.send(ok + "Content-Length: 10000000000\r\n\r\n"), .repeat("x")],
            .tooLarge),
        HostileAnswer(
            "an endless body in chunks",
            [.send(ok + "Transfer-Encoding: chunked\r\n\r\n"), .repeat("5\r\nhello\r\n")], .tooLarge),
        HostileAnswer(
            "one endless chunk",
            [.send(ok + "Transfer-Encoding: chunked\r\n\r\n7FFFFFFFFFFFFFF\r\n"), .repeat("x")], .tooLarge),
        HostileAnswer(
            "endless trailers",
            [.send(ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n"), .repeat("X-Trailer: yes\r\n")], .tooLarge
        ),
        HostileAnswer(
            "a length too large, and no body", [.send(ok + "Content-Length: 200001\r\n\r\n"), .wait], .tooLarge),
        HostileAnswer(
            "the endless body of an error", [.send("HTTP/1.1 404 Not Found\r\n\r\n"), .repeat("x")], .status(404)),
        HostileAnswer("an endless status line", [.send("HTTP/1.1 200 "), .repeat("x")], .tooLarge),
        HostileAnswer("one endless field", [.send(ok + "X-Long: "), .repeat("x")], .tooLarge),
        HostileAnswer("endless fields", [.send(ok), .repeat("X-Many: yes\r\n")], .tooLarge),
        HostileAnswer("endless continuation lines", [.send(ok + "X-Folded: a\r\n"), .repeat(" b\r\n")], .tooLarge),
        HostileAnswer("endless informational answers", [.repeat("HTTP/1.1 103 Early Hints\r\n\r\n")], .tooLarge),
        HostileAnswer("endless bytes that are not HTTP", [.repeat("x")], .malformedResponse),
        HostileAnswer("endless nothing", [.flood([0], count: .max)], .malformedResponse),
        HostileAnswer("endless empty lines", [.repeat("\r\n")], .malformedResponse),
    ]

    @Test("what has no end is left as soon as it is too much", arguments: tooMuch)
    func endless(answer: HostileAnswer) async throws { try await answer.check() }

    @Test("a body as large as allowed is taken, one byte more is not", arguments: ["", "chunked", "length"])
    func limit(framing: String) async throws {
        for size in [200_000, 200_001] {
            let text = String(repeating: "x", count: size)
            let answer: String =
                switch framing {
                case "chunked": "Transfer-Encoding: chunked\r\n\r\n\(String(size, radix: 16))\r\n\(text)\r\n0\r\n\r\n"
                case "length": "Content-Length: \(size)\r\n\r\n\(text)"
                default: "\r\n" + text
                }
            let outcome: HostileServer.Outcome = size == 200_000 ? .body(text) : .error(.tooLarge)
            try await HostileAnswer(framing, [.send(Self.ok + answer), .close], outcome).check()
        }
    }

    private static func coded(_ coding: String, _ bytes: [UInt8], _ error: DipperError) -> HostileAnswer {
        let head = ok + "Content-Encoding: \(coding)\r\nContent-Length: \(bytes.count)\r\n\r\n"
        return HostileAnswer(coding, [.send(head), .bytes(bytes), .wait], error)
    }

    /// Ten megabytes of zeros.
    private static let brotli = [UInt8](Data(base64Encoded: "n///n/gnAOKxQCD3/hM=")!)

    private static let bombs = [
        coded("gzip", GzipBomb.zeros(8_000_000), .tooLarge),
        coded("x-gzip", GzipBomb.zeros(8_000_000), .tooLarge),
        coded("gzip, gzip", GzipBomb.nested(8_000_000), .tooLarge),
        coded("br", brotli, .tooLarge),
        coded(Array(repeating: "gzip", count: 50).joined(separator: ", "), GzipBomb.zeros(100), .malformedResponse),
        coded("gzip", Array("this is not gzip".utf8), .malformedResponse),
        coded("deflate", Array("this is not deflate".utf8), .malformedResponse),
        coded("br", Array("this is not brotli".utf8), .malformedResponse),
        coded("rot13", Array("guvf vf abg xabja".utf8), .malformedResponse),
    ]

    @Test("what is coded counts as decoded, and must be decodable", arguments: bombs)
    func codings(answer: HostileAnswer) async throws { try await answer.check() }

    @Test("what endless answers and announcements take in memory is bounded")
    func memory() async {
        await #expect(processExitsWith: .success) {
            let hostile = try await HostileServer({
                $0.network.maximumBodySize = 1 << 30
                $0.network.maximumDecodedSize = 4 << 20
            }) { request in
                let head = "HTTP/1.1 200 OK\r\n"
                return switch request.path {
                case "/length": [.send(head + "Content-Length: 10000000000\r\n\r\n"), .wait]
                case "/promise": [.send(head + "Content-Length: 1000000000\r\n\r\n123"), .close]
                case "/fields": [.send(head), .repeat("X-Many: yes\r\n")]
                case "/field": [.send(head + "X-Long: "), .repeat("x")]
                case "/error": [.send("HTTP/1.1 500 Oh\r\n\r\n"), .repeat("x")]
                default:
                    [.send(head + "Content-Encoding: gzip\r\n\r\n"), .flood(GzipBomb.zeros(30_000_000), count: .max)]
                }
            }
            let expected: [(String, DipperError)] = [
                ("/length", .tooLarge), ("/promise", .truncated), ("/fields", .tooLarge), ("/field", .tooLarge),
                ("/error", .status(500)), ("/bomb", .tooLarge),
            ]
            // What the libraries need for themselves.
            _ = await hostile.outcome("/error")
            _ = GzipBomb.zeros(30_000_000)
            let before = try #require(Self.peakMemory())
            for (path, error) in expected { #expect(await hostile.outcome(path) == .error(error), "\(path)") }
            let after = try #require(Self.peakMemory())
            #expect(after - before < 40 << 20)
            await hostile.stop()
        }
    }

    /// The peak memory of this process, in bytes.
    private static func peakMemory() -> Int? {
        let status = try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)
        let line = status?.split(separator: "\n").first { $0.hasPrefix("VmHWM:") }
        return line.flatMap { Int($0.filter(\.isNumber)) }.map { $0 << 10 }
    }
}
