import FaultServer
import TestSupport
import Testing

private let ok = "HTTP/1.1 200 OK\r\n"

@Suite("Servers that take their time", .timeLimit(.minutes(2)))
struct TimeLimitTests {
    private static func dripping(_ name: String, _ start: String, _ drop: String, every interval: Int) -> HostileAnswer
    {
        HostileAnswer(name, [.send(start), .drip(Array(drop.utf8), every: interval, count: .max)], .timedOut)
    }

    @Test(
        "less than the low-speed limit is not waited for", .inCheck,
        arguments: [
            HostileAnswer("silence", [.wait], .timedOut),
            HostileAnswer("a head that stops", [.send(ok + "Content-"), .wait], .timedOut),
            HostileAnswer("a body that stops", [.send(ok + "Content-Length: 10\r\n\r\n12345"), .wait], .timedOut),
            dripping("a body by the byte", ok + "Content-Length: 10000\r\n\r\n", "x", every: 50),
            dripping("chunks by the byte", ok + "Transfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n", every: 50),
            dripping("a field by the byte", ok + "X-Slow: ", "x", every: 20),
            dripping("fields one by one", ok, "X-Slow: yes\r\n", every: 20),
            dripping("informational answers", "HTTP/1.1 103 Early Hints\r\n\r\n", "HTTP/1.1 103 X\r\n\r\n", every: 20),
            dripping("a status line by the byte", "HTTP/1.1 200 ", "x", every: 20),
            HostileAnswer(
                "the body of an error by the byte",
                [.send("HTTP/1.1 503 Busy\r\nContent-Length: 10000\r\n\r\n"), .drip([0x78], every: 50, count: .max)],
                .status(503)),
            // What brings no byte of the body counts as nothing, however much it is.
            HostileAnswer(
                "the extensions of a chunk",
                [
                    .send(ok + "Transfer-Encoding: chunked\r\n\r\n2;"),
                    .drip(Array("extension".utf8), every: 1, count: .max),
                ],
                .timedOut),
        ])
    func lowSpeed(answer: HostileAnswer) async throws {
        try await answer.check { $0.network.lowSpeedTime = .seconds(3) }
    }

    @Test("a server above the low-speed limit is bounded by the call's time limit", .inCheck)
    func total() async throws {
        let drop = String(repeating: "x", count: 40)
        try await Self.dripping("a quick drip", ok + "\r\n", drop, every: 20).check {
            $0.network.lowSpeedTime = .seconds(1)
            $0.timeout = .seconds(3)
        }
    }

    @Test("the average over the window counts: a drip is given up, and what has come is kept")
    func minimumRate() async throws {
        try await withFaultServer {
            $0.retryPolicy = .fixed(.zero, retries: 1)
            $0.network.minimumRate = 50_000
            // On a busy machine it takes a while until something has come.
            $0.network.minimumRateWindow = .seconds(3)
        } _: { server, cache async throws in
            let task = cache.getData(server.url("/bytes/1000000/a?drip=1000,100&etag=v"))
            #expect(await task.error == .timedOut)
            #expect(DipperError.timedOut.mayPass)
            #expect(server.requests.count == 2)
            #expect(server.requests.last?.header("Range")?.hasPrefix("bytes=") == true)
        }
    }

    @Test("a good beginning buys no time for a drip", .inCheck)
    func goodBeginning() async throws {
        let answer = HostileAnswer(
            "a good beginning",
            [.send(ok + "\r\n" + String(repeating: "x", count: 190_000)), .drip([0x78], every: 50, count: .max)],
            .timedOut)
        try await answer.check {
            $0.network.minimumRate = 1_000
            $0.network.minimumRateWindow = .seconds(1)
            $0.timeout = .seconds(60)
        }
    }

    @Test("no transfer takes longer than the limit")
    func timeLimit() async throws {
        try await withFaultServer {
            $0.network.transferTimeLimit = .milliseconds(300)
        } _: { server, cache async throws in
            #expect(await cache.getData(server.url("/bytes/100000000/a?drip=60000,50")).error == .timedOut)
        }
    }

    @Test("time in which a prefetch is held back does not count", .inCheck)
    func heldBack() async throws {
        try await withFaultServer {
            $0.network.minimumRate = 10_000
            $0.network.minimumRateWindow = .seconds(2)
            $0.network.transferTimeLimit = .seconds(2)
            $0.progressInterval = .zero
        } _: { server, cache async throws in
            let prefetch = cache.slowGetData(server.url("/bytes/200000/slow?drip=20000,50"))
            let hasBegun = Box(false)
            prefetch.onProgress { _ in hasBegun.update { $0 = true } }
            try await hasBegun.wait { $0 }
            // There is always one, and none of them lasts as long as the limits.
            var last = cache.getData(server.url("/bytes/10/0?delay=1000"))
            for number in 1...4 {
                let next = cache.getData(server.url("/bytes/10/\(number)?delay=\(number % 2 == 0 ? 1000 : 1500)"))
                #expect(await last.error == nil)
                last = next
            }
            #expect(await last.error == nil)
            #expect(try await prefetch.value.count == 200_000)
            #expect(server.requests(to: "/bytes/200000/slow").count == 1)
        }
    }

    // MARK: Handshakes

    @Test(
        "a TLS handshake that is not answered is given up, and what is not TLS is rejected", .inCheck,
        arguments: [
            ("", DipperError.timedOut), ("HTTP/1.1 400 Bad Request\r\n\r\n", .tlsRejected), ("garbage", .tlsRejected),
            ("\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}", .tlsRejected),
        ])
    func handshake(greeting: String, error: DipperError) async throws {
        let hostile = try await HostileServer(
            greeting: [.send(greeting)], { if greeting.isEmpty { $0.network.connectTimeout = .seconds(1) } }
        ) { _ in [] }
        let request = DataRequest(string: hostile.server.url("/", scheme: "https"))
        #expect(await hostile.outcome(request) == .error(error))
        await hostile.expectLeft()
    }
}
