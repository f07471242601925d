import FaultServer
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("Servers that take their time", .timeLimit(.minutes(2)))
struct HostileTimingTests {
    private static let ok = "HTTP/1.1 200 OK\r\n"

    private static let slow = [
        HostileAnswer("silence", [.wait], .timedOut),
        HostileAnswer("a head that stops", [.send(ok + "Content-"), .wait], .timedOut),
        HostileAnswer("a body that stops", [.send(ok + "Content-Length: 10\r\n\r\n12345"), .wait], .timedOut),
        HostileAnswer(
            "a body by the byte",
            [.send(ok + "Content-Length: 10000\r\n\r\n"), .drip([0x78], every: 50, count: .max)], .timedOut),
        HostileAnswer(
            "chunks by the byte",
            [
                .send(ok + "Transfer-Encoding: chunked\r\n\r\n"),
                .drip(Array("1\r\nx\r\n".utf8), every: 50, count: .max),
            ],
            .timedOut),
        HostileAnswer(
            "a field by the byte", [.send(ok + "X-Slow: "), .drip([0x78], every: 20, count: .max)], .timedOut),
        HostileAnswer(
            "fields one by one", [.send(ok), .drip(Array("X-Slow: yes\r\n".utf8), every: 20, count: .max)], .timedOut),
        HostileAnswer(
            "informational answers one by one",
            [.drip(Array("HTTP/1.1 103 Early Hints\r\n\r\n".utf8), every: 20, count: .max)], .timedOut),
        HostileAnswer(
            "a status line by the byte", [.send("HTTP/1.1 200 "), .drip([0x78], every: 20, count: .max)], .timedOut),
        HostileAnswer(
            "the body of an error by the byte",
            [.send("HTTP/1.1 503 Busy\r\nContent-Length: 10000\r\n\r\n"), .drip([0x78], every: 50, count: .max)],
            .status(503)),
    ]

    @Test("less than the low-speed limit is not waited for", arguments: slow)
    func drip(answer: HostileAnswer) async throws {
        try await answer.check { $0.network.lowSpeedTime = .seconds(1) }
    }

    @Test("a server above the low-speed limit is bounded by the call's time limit")
    func total() async throws {
        let answer = HostileAnswer(
            "a quick drip",
            [.send(Self.ok + "\r\n"), .drip(Array(repeating: 0x78, count: 40), every: 20, count: .max)],
            .timedOut)
        try await answer.check {
            $0.network.lowSpeedTime = .seconds(1)
            $0.timeout = .seconds(3)
        }
    }

    @Test("what brings no byte of the body counts as nothing, however much it is")
    func extensions() async throws {
        let hostile = try await HostileServer({ $0.network.lowSpeedTime = .seconds(1) }) { _ in
            [.send(Self.ok + "Transfer-Encoding: chunked\r\n\r\n2;"), .repeat("extension")]
        }
        #expect(await hostile.outcome() == .error(.timedOut))
        await hostile.server.waitUntilLeft(1)
        await hostile.stop()
    }

    @Test("a TLS handshake that is not answered is given up")
    func stalledHandshake() async throws {
        let hostile = try await HostileServer({ $0.network.connectTimeout = .seconds(1) }) { _ in [] }
        #expect(
            await hostile.outcome(DataRequest(string: hostile.server.url("/", scheme: "https"))) == .error(.timedOut))
        await hostile.expectLeft()
        await hostile.stop()
    }

    @Test(
        "what is not TLS is rejected",
        arguments: ["HTTP/1.1 400 Bad Request\r\n\r\n", "garbage", "\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}"])
    func plainText(greeting: String) async throws {
        let hostile = try await HostileServer(greeting: [.send(greeting)]) { _ in [] }
        #expect(
            await hostile.outcome(DataRequest(string: hostile.server.url("/", scheme: "https"))) == .error(.tlsRejected)
        )
        await hostile.expectLeft()
        await hostile.stop()
    }

    @Test(
        "an absurd Retry-After ends the call no later than its time limit",
        arguments: [
            "99999999999999999999999999", "-1", "1e9", "0x10", "Fri, 31 Dec 9999 23:59:59 GMT", "", ",", "NaN",
        ])
    func retryAfter(value: String) async throws {
        let hostile = try await HostileServer({
            $0.retryPolicy = .exponential(base: .milliseconds(1))
            $0.timeout = .seconds(60)
        }) { _ in
            [.send("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nRetry-After: \(value)\r\n\r\n")]
        }
        #expect(await hostile.outcome() == .error(.status(503)))
        await hostile.stop()
    }
}
