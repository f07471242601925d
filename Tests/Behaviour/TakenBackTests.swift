import FaultServer
import TestSupport
import Testing

/// A range or a condition that the cache adds to a request is its own business: a server that refuses one must not make
/// the call fail.
@Suite("What the cache adds to a request is taken back if the server refuses it", .timeLimit(.minutes(2)))
struct TakenBackTests {
    private let test = TestCache(folder: TemporaryFolder()) { $0.retryPolicy = .never }
    private let a = url("a")
    private let whole = Parts.whole

    /// Leaves a beginning of the body of `a` behind.
    private func interrupt() async throws {
        test.transport.script(a, [.interrupted(Parts.beginning(40), .connectionLost)])
        await #expect(throws: DipperError.connectionLost) { try await test.cache.getData(a).value }
    }

    private func ranges() -> [String?] { test.requests(a).map { $0["Range"] } }

    @Test(
        "a range that is refused is taken back, and the whole is asked for",
        arguments: [304, 400, 401, 403, 405, 406, 412, 413, 500, 501, 502, 503])
    func range(status: Int) async throws {
        try await interrupt()
        test.transport.script(a, [.status(status), .body(whole)])
        #expect(try await test.cache.getData(a).value == whole)
        #expect(ranges() == [nil, "bytes=40-", nil])
        #expect(test.requests(a)[2]["If-Range"] == nil && test.requests(a)[2]["Accept-Encoding"] == nil)
    }

    @Test(
        "a connection that ends in place of an answer counts as a refusal",
        arguments: [DipperError.connectionLost, .malformedResponse, .truncated])
    func rangeWithoutAnswer(error: DipperError) async throws {
        try await interrupt()
        test.transport.script(a, [.failure(error), .body(whole)])
        #expect(try await test.cache.getData(a).value == whole)
        #expect(ranges() == [nil, "bytes=40-", nil])
        try await test.keep("1", ["ETag": "\"v\"", "Cache-Control": "max-age=1"], for: url("b"), age: 10)
        test.transport.script(url("b"), [.failure(error), .text("2")])
        #expect(try await test.ask(url("b")) == "2 from network")
    }

    @Test("a redirect to the same URL is followed without the range", arguments: ["http://host.test/a", "/a#part"])
    func redirectToItself(location: String) async throws {
        try await interrupt()
        test.transport.script(a, [.redirect(location), .body(whole)])
        #expect(try await test.cache.getData(a).value == whole)
        #expect(ranges() == [nil, "bytes=40-", nil])
    }

    @Test("a plain request that is refused as well ends the call, and the beginning is there for the next one")
    func refusedAltogether() async throws {
        try await interrupt()
        test.transport.script(a, [.status(503)])
        await #expect(throws: DipperError.status(503)) { try await test.cache.getData(a).value }
        #expect(ranges() == [nil, "bytes=40-", nil], "asked once without the range, and no more")
        test.transport.script(a, [.response(Parts.part(40..<100))])
        #expect(try await test.cache.getData(a).value == whole)
        #expect(ranges().last == "bytes=40-")
    }

    @Test(
        "a busy server, or one that has no such file any more, is not asked again at once", arguments: [404, 410, 429])
    func clear(status: Int) async throws {
        try await interrupt()
        test.transport.script(a, [.status(status), .body(whole)])
        await #expect(throws: DipperError.status(status)) { try await test.cache.getData(a).value }
        #expect(ranges() == [nil, "bytes=40-"])
    }

    @Test("a range that the caller has asked for is the caller's")
    func ownRange() async throws {
        try await interrupt()
        test.transport.script(a, [.status(403), .body(whole)])
        let request = DataRequest(a).with(\.headers, ["Range": "bytes=0-9"])
        await #expect(throws: DipperError.status(403)) { try await test.cache.getData(request).value }
    }

    @Test(
        "a condition that is refused is taken back, and the answer taken anew",
        arguments: [400, 403, 405, 412, 428, 500, 501, 503])
    func condition(status: Int) async throws {
        try await test.keep("1", ["ETag": "\"v\"", "Cache-Control": "max-age=1"], for: a, age: 10)
        for text in ["2", "3"] {
            test.transport.script(a, [.status(status), .text(text, ["ETag": "\"v\"", "Cache-Control": "max-age=1"])])
            #expect(try await test.ask(a) == "\(text) from network")
            test.date.advance(by: 10)
        }
        #expect(test.requests(a).map { $0["If-None-Match"] } == [nil, "\"v\"", nil, "\"v\"", nil])
    }

    @Test("a server that fails with and without the condition is asked twice, and its stale answer used where it may")
    func staleAfterAll() async throws {
        try await test.keep(
            "1", ["ETag": "\"v\"", "Cache-Control": "max-age=1, stale-if-error=100"], for: a, age: 10)
        test.transport.script(a, [.status(500)])
        #expect(try await test.ask(a) == "1 from stale")
        #expect(test.requests(a).map { $0["If-None-Match"] } == [nil, "\"v\"", nil])
    }

    // MARK: Parts

    @Test(
        "a part that is the whole is a 200, asked for or not",
        arguments: ["bytes 0-99/100", "Bytes 0-99/100"], [false, true])
    func whole(contentRange: String, isContinued: Bool) async throws {
        if isContinued { try await interrupt() }
        test.transport.script(a, [.response(Parts.part(0..<100, contentRange))])
        let response = try await test.cache.getData(a).response
        #expect(response.data == whole && response.status == 200 && response.headers["Content-Range"] == nil)
        #expect(test.cache.readData(for: a) == whole)
    }

    @Test(
        "another part that nobody has asked for is refused",
        arguments: ["bytes 0-98/100", "bytes 1-99/100", "bytes 0-99/*"])
    func part(contentRange: String) async throws {
        test.transport.script(a, [.response(Parts.part(0..<100, contentRange))])
        await #expect(throws: DipperError.malformedResponse) { try await test.cache.getData(a).value }
    }

    @Test("a server that sends the rest byte by byte fails, and keeps what it has sent")
    func byteByByte() async throws {
        let size = 100_000
        let fields: HTTPHeaders = ["ETag": "\"v\"", "Content-Length": "\(size)"]
        let body = Data(repeating: 7, count: size)
        test.transport.script(
            a,
            [
                .interrupted(TransferResponse(headers: fields, body: body.prefix(10)), .connectionLost)
            ])
        await #expect(throws: DipperError.connectionLost) { try await test.cache.getData(a).value }
        let next = TransferResponse(
            status: 206, headers: ["ETag": "\"v\"", "Content-Range": "bytes 10-\(size - 1)/\(size)"],
            body: body.prefix(1))
        test.transport.script(a, [.response(next)])
        await #expect(throws: DipperError.truncated) { try await test.cache.getData(a).value }
        #expect(test.requests(a).count == 2)
        // What came counts all the same.
        let rest = TransferResponse(
            status: 206, headers: ["ETag": "\"v\"", "Content-Range": "bytes 11-\(size - 1)/\(size)"],
            body: body.dropFirst(11))
        test.transport.script(a, [.response(rest)])
        #expect(try await test.cache.getData(a).value == body)
    }
}
