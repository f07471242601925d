import TestSupport
import Testing

@Suite("A server that cannot be reached leaves its stale answers usable", .timeLimit(.minutes(2)))
struct UnreachedServerTests {
    private let test = TestCache(folder: TemporaryFolder()) { $0.retryPolicy = .fixed(.seconds(1), retries: 3) }
    private let a = url("a")
    private let tagged: HTTPHeaders = ["ETag": "\"v\"", "Cache-Control": "max-age=1"]

    private static let unreached: [DipperError] = [
        .connectionFailed, .connectionLost, .timedOut, .hostNotFound, .status(502), .status(503), .status(504),
    ]

    @Test("a stale answer is used at once, without a second try", arguments: unreached)
    func stale(error: DipperError) async throws {
        try await test.keep("1", tagged, for: a, age: 1_000_000)
        test.transport.script(a, [.failing(error)])
        #expect(try await test.ask(a) == "1 from stale")
        let reopened = await test.reopened()
        reopened.transport.script(a, [.failing(error)])
        #expect(try await reopened.ask(a) == "1 from stale", "also from the disk alone")
    }

    @Test("a server that answers is believed", arguments: [400, 403, 404, 429, 500, 501])
    func answered(status: Int) async throws {
        try await test.keep("1", tagged, for: a, age: 10)
        test.transport.script(a, [.status(status)])
        let request = DataRequest(a).with(\.retryPolicy, .never)
        #expect(await test.cache.getData(request).error == .status(status))
    }

    @Test(
        "a stale answer is not used where the server or the call forbids it",
        arguments: ["no-cache", "max-age=1, must-revalidate"])
    func forbidden(control: String) async throws {
        try await test.keep("1", ["ETag": "\"v\"", "Cache-Control": control], for: a, age: 10)
        try await test.keep("1", tagged, for: url("b"), age: 10)
        test.transport.script(a, [.failure(.connectionFailed)])
        test.transport.script(url("b"), [.failure(.connectionFailed)])
        #expect(await test.cache.getData(DataRequest(a).with(\.retryPolicy, .never)).error == .connectionFailed)
        for request in [
            DataRequest(url("b")).with(\.cachePolicy, .ignoreCache), DataRequest(url("b")).with(\.staleIfError, .zero),
            DataRequest(url("b")).with(\.headers, ["Cache-Control": "no-cache"]),
        ] {
            #expect(await test.cache.getData(request.with(\.retryPolicy, .never)).error == .connectionFailed)
        }
    }

    @Test("a limit of the program decides alone, also about other failures that may pass")
    func limit() async throws {
        let test = TestCache {
            $0.retryPolicy = .never
            $0.staleIfError = .seconds(100)
        }
        try await test.keep("1", tagged, for: a, age: 101)
        for error in [DipperError.status(500), .connectionFailed] {
            test.transport.script(a, [.failing(error)])
            #expect(try await test.ask(a) == "1 from stale")
        }
        #expect(try await test.ask(DataRequest(a).with(\.staleIfError, .seconds(200))) == "1 from stale")
        test.date.advance(by: 1)
        #expect(await test.cache.getData(a).error == .connectionFailed)
        #expect(try await test.ask(DataRequest(a).with(\.staleIfError, .seconds(200))) == "1 from stale")
    }

    @Test("a transfer that was broken off is continued first, and the stale answer used when no try is left")
    func brokenOff() async throws {
        try await test.keep("1", ["Cache-Control": "max-age=1"], for: a, age: 10)
        let beginning = TransferResponse(headers: Parts.fields, body: Parts.whole.prefix(40))
        test.transport.script(a, [.interrupted(beginning, .connectionLost), .response(Parts.part(40..<100))])
        let task = test.cache.getData(a)
        await test.whileClockRuns { _ = await task.result }
        #expect(try await task.value == Parts.whole)
        try await test.keep("1", ["Cache-Control": "max-age=1"], for: url("b"), age: 10)
        test.transport.script(url("b"), [.interrupted(beginning, .connectionLost)])
        #expect(try await test.ask(DataRequest(url("b")).with(\.retryPolicy, .never)) == "1 from stale")
    }

    @Test("a call whose own time is over takes the stale answer")
    func ownTimeout() async throws {
        try await test.keep("1", tagged, for: a, age: 10)
        let (task, transfer) = try await test.begin(DataRequest(a).with(\.timeout, .seconds(5)))
        await test.whileClockRuns { _ = await task.result }
        #expect(try await task.response.told == "1 from stale")
        #expect(transfer.isCancelled)
        let (other, _) = try await test.begin(DataRequest(url("b")).with(\.timeout, .seconds(5)))
        await test.whileClockRuns { _ = await other.result }
        #expect(await other.error == .timedOut)
    }

    @Test("a stale answer comes before an alternative")
    func alternative() async throws {
        try await test.keep("1", tagged, for: a, age: 10)
        test.transport.script(a, [.failure(.connectionFailed)])
        test.transport.script(url("b"), [.text("other")])
        #expect(try await test.ask(DataRequest(a).with(\.alternatives, [.url(url("b"))])) == "1 from stale")
    }
}
