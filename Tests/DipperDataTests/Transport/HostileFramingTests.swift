import FaultServer
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("Servers that break off or contradict themselves", .timeLimit(.minutes(3)))
struct HostileFramingTests {
    private static let ok = "HTTP/1.1 200 OK\r\n"

    private static let answers = [
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
        let answer = try #require(Self.answers[name])
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
        let whole = name == "informational" ? "hi" : "hello, world"
        #expect(await hostile.outcome("/\(name)/\(answer.utf8.count)/close") == .body(whole))
        await hostile.stop()
    }

    private static let chunked = ok + "Transfer-Encoding: chunked\r\n\r\n"

    private static let contradictions = [
        HostileAnswer("a length too long", ok + "Content-Length: 6\r\n\r\nhello", .truncated),
        HostileAnswer("a length too short", ok + "Content-Length: 4\r\n\r\nhello", body: "hell"),
        HostileAnswer("a negative length", ok + "Content-Length: -5\r\n\r\nhello", .malformedResponse),
        HostileAnswer("a length of no number", ok + "Content-Length: many\r\n\r\nhello", .malformedResponse),
        HostileAnswer("a hexadecimal length", ok + "Content-Length: 0x5\r\n\r\nhello", .malformedResponse),
        HostileAnswer("a length with a sign", ok + "Content-Length: +5\r\n\r\nhello", .malformedResponse),
        HostileAnswer("a list of lengths", ok + "Content-Length: 5, 4\r\n\r\nhello", .malformedResponse),
        HostileAnswer("a length past 64 bits", ok + "Content-Length: 99999999999999999999\r\n\r\nhello", .tooLarge),
        HostileAnswer("two lengths", ok + "Content-Length: 5\r\nContent-Length: 4\r\n\r\nhello", .malformedResponse),
        HostileAnswer("two lengths", ok + "Content-Length: 4\r\nContent-Length: 5\r\n\r\nhello", .malformedResponse),
        HostileAnswer("one length twice", ok + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", body: "hello"),
        // Chunks take precedence (RFC 9112, section 6.3).
        HostileAnswer(
            "a length before chunks",
            ok + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            body: "hello"),
        HostileAnswer(
            "a length behind chunks", chunked.dropLast() + "Content-Length: 2\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            body: "hello"),
        HostileAnswer("a chunk size of no number", chunked + "zwei\r\nhello\r\n0\r\n\r\n", .malformedResponse),
        HostileAnswer("a negative chunk size", chunked + "-5\r\nhello\r\n0\r\n\r\n", .malformedResponse),
        HostileAnswer("a hexadecimal prefix", chunked + "0x5\r\nhello\r\n0\r\n\r\n", .malformedResponse),
        HostileAnswer("an empty chunk size", chunked + "\r\nhello\r\n0\r\n\r\n", .malformedResponse),
        HostileAnswer(
            "a chunk size past 64 bits", chunked + "FFFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n", .malformedResponse),
        HostileAnswer("a chunk longer than its size", chunked + "4\r\nhello\r\n0\r\n\r\n", .malformedResponse),
        HostileAnswer("a chunk shorter than its size", chunked + "8\r\nhello\r\n0\r\n\r\n", .malformedResponse),
        HostileAnswer(
            "a trailer that is none", chunked + "5\r\nhello\r\n0\r\nHTTP/1.1 200 OK\r\n\r\n", .malformedResponse),
        HostileAnswer("no last chunk", chunked + "5\r\nhello\r\n", .truncated),
        HostileAnswer("an unknown transfer coding", ok + "Transfer-Encoding: rot13\r\n\r\nhello", .malformedResponse),
        HostileAnswer("nothing", "", .connectionLost),
        HostileAnswer("a status line alone", ok, .connectionLost),
        HostileAnswer("no empty line", ok + "Content-Length: 0\r\n", .connectionLost),
    ]

    @Test("lengths and chunks that contradict themselves", arguments: contradictions)
    func contradiction(answer: HostileAnswer) async throws { try await answer.check() }

    private static let poison = ok + "Content-Length: 6\r\n\r\npoison"

    @Test(
        "what follows an answer is not taken for the next one",
        arguments: [
            "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 304 Not Modified\r\n\r\n",
            "HTTP/1.1 204 No Content\r\nContent-Length: 6\r\n\r\n", ok + "Content-Length: 2\r\n\r\nhi",
            ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", ok + "Content-Length: 0\r\n\r\n",
            "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n",
        ], [true, false])
    func splitting(first: String, isLate: Bool) async throws {
        let hostile = try await HostileServer { request in
            guard request.path == "/first" else { return [.send(Self.ok + "Content-Length: 5\r\n\r\nright")] }
            return isLate ? [.send(first), .send(Self.poison)] : [.send(first + Self.poison)]
        }
        _ = await hostile.outcome("/first")
        // On a connection of its own: by then all of the first answer has arrived.
        let other = DataRequest(string: "http://localhost:\(hostile.server.port)/other")
        #expect(await hostile.outcome(other) == .body("right"))
        for path in ["/second", "/third"] {
            let outcome = await hostile.outcome(path)
            #expect(outcome == .body("right"), "\(path): \(outcome)")
        }
        await hostile.stop()
    }

    @Test("the body of an answer to HEAD is not taken for the next answer")
    func head() async throws {
        let hostile = try await HostileServer { request in
            request.head.hasPrefix("HEAD")
                ? [.send(Self.ok + "Content-Length: \(Self.poison.utf8.count)\r\n\r\n" + Self.poison)]
                : [.send(Self.ok + "Content-Length: 5\r\n\r\nright")]
        }
        var request = DataRequest(string: hostile.server.url("/head"))
        request.modifier = RequestModifier { request in
            var request = request
            request.method = "HEAD"
            return request
        }
        #expect(await hostile.outcome(request) == .body(""))
        for path in ["/second", "/third"] { #expect(await hostile.outcome(path) == .body("right")) }
        await hostile.stop()
    }
}
