import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("What servers say of freshness, validators and storing is obeyed", .timeLimit(.minutes(5)))
struct HTTPCachingTests {
    private let a = url("a")

    // MARK: Fresh

    enum Lifetime: String, CaseIterable {
        case maxAge, expires, age, maxAgeBeatsExpires, dateBehind

        func headers(at now: Date) -> HTTPHeaders {
            switch self {
            case .maxAge: ["Cache-Control": "max-age=100"]
            case .expires: ["Date": now.httpText, "Expires": (now + 100).httpText]
            case .age: ["Cache-Control": "max-age=150", "Age": "50"]
            case .maxAgeBeatsExpires: ["Cache-Control": "max-age=100", "Expires": (now - 100).httpText]
            case .dateBehind: ["Date": (now - 200).httpText, "Cache-Control": "max-age=300"]
            }
        }
    }

    @Test("as long as an answer is fresh no tier below is asked, and then the server", arguments: Lifetime.allCases)
    func fresh(lifetime: Lifetime) async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        let headers = lifetime.headers(at: test.date.now)
        test.transport.script(a, [.text("1", headers), .text("2", headers)])
        #expect(try await test.ask(a) == Told("1", .network))
        test.date.advance(by: 99)
        #expect(try await test.ask(a) == Told("1", .memory))
        test.cache.clearMemory()
        #expect(try await test.ask(a) == Told("1", .disk))
        #expect(try await test.ask(a) == Told("1", .memory), "what the disk had goes to memory with its freshness")
        let other = await test.reopened(folder)
        #expect(try await other.ask(a) == Told("1", .disk))
        other.transport.script(a, [.text("2", headers)])
        test.date.advance(by: 1)
        #expect(try await other.ask(a) == Told("2", .network), "from memory it is stale as well")
        #expect(other.requests(a).count == 1 && test.requests(a).count == 1)
        await other.cache.shutdown()
    }

    @Test("an answer that is stale on disk alone is asked for anew as well")
    func staleOnDisk() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        test.transport.script(a, [.text("1", ["Cache-Control": "max-age=10"])])
        _ = try await test.ask(a)
        let other = await test.reopened(folder)
        other.transport.script(a, [.text("2")])
        test.date.advance(by: 10)
        #expect(try await other.ask(a) == Told("2", .network))
        await other.cache.shutdown()
    }

    @Test("an answer that says nothing is fresh for seven days")
    func silence() async throws {
        let test = TestCache()
        test.transport.script(a, [.text("1"), .text("2")])
        _ = try await test.ask(a)
        test.date.advance(by: 7 * 86_400 - 1)
        #expect(try await test.ask(a) == Told("1", .memory))
        test.date.advance(by: 1)
        #expect(try await test.ask(a) == Told("2", .network))
        await test.cache.shutdown()
    }

    @Test("without a default a silent answer is fresh for a tenth of its age, or not at all")
    func heuristic() async throws {
        let test = TestCache { $0.freshness = .http(defaultFreshness: nil) }
        let now = test.date.now
        test.transport.script(
            a, [.text("1", ["Date": now.httpText, "Last-Modified": (now - 1_000).httpText]), .text("2")])
        _ = try await test.ask(a)
        test.date.advance(by: 99)
        #expect(try await test.ask(a) == Told("1", .memory))
        test.date.advance(by: 1)
        #expect(try await test.ask(a) == Told("2", .network))
        test.transport.script(a, [.text("3")])
        #expect(try await test.ask(a) == Told("3", .network), "it has said nothing")
        await test.cache.shutdown()
    }

    @Test("an expiration of the caller's own holds where the server is silent, and only there")
    func explicitExpiration() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder) { $0.diskExpiration = .days(30) }
        test.transport.script(a, [.text("1"), .text("2")])
        _ = try await test.ask(a)
        test.date.advance(by: 29 * 86_400)
        #expect(try await test.ask(a) == Told("1", .memory))
        test.cache.clearMemory()
        #expect(try await test.ask(a) == Told("1", .disk))
        test.date.advance(by: 86_400)
        #expect(try await test.ask(a) == Told("2", .network))
        test.transport.script(url("b"), [.text("1", ["Cache-Control": "max-age=10"]), .text("2")])
        _ = try await test.ask(url("b"))
        test.date.advance(by: 10)
        #expect(try await test.ask(url("b")) == Told("2", .network))
        await test.cache.shutdown()
    }

    @Test("the immutable policy takes no notice of the server")
    func immutablePolicy() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder) { $0.freshness = .immutable(for: .seconds(1_000)) }
        let refusals: [HTTPHeaders] = [
            ["Cache-Control": "no-store"], ["Cache-Control": "no-cache"], ["Cache-Control": "max-age=0"],
            ["Vary": "*"], ["Expires": "0"], ["Cache-Control": "max-age=1, must-revalidate"],
        ]
        for (number, headers) in refusals.enumerated() {
            let target = url("\(number)")
            test.transport.script(target, [.text("1", headers), .text("2", headers)])
            _ = try await test.ask(target)
        }
        test.date.advance(by: 999)
        for number in refusals.indices { #expect(try await test.ask(url("\(number)")) == Told("1", .memory)) }
        test.cache.clearMemory()
        for number in refusals.indices { #expect(try await test.ask(url("\(number)")) == Told("1", .disk)) }
        test.date.advance(by: 1)
        for number in refusals.indices { #expect(try await test.ask(url("\(number)")) == Told("2", .network)) }
        await test.cache.shutdown()
    }

    // MARK: Revalidation

    @Test("a stale answer is asked about by its validators, and a 304 makes it fresh again, on disk too")
    func notModified() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        let modified = (test.date.now - 10_000).httpText
        test.transport.script(
            a,
            [
                .text(
                    "1",
                    [
                        "ETag": "\"v\"", "Last-Modified": modified, "Cache-Control": "max-age=10", "X-Kept": "old",
                        "X-New": "old",
                    ]),
                .status(304, ["ETag": "\"v\"", "Cache-Control": "max-age=50", "X-New": "new"]),
            ])
        _ = try await test.ask(a)
        #expect(test.requests(a)[0]["If-None-Match"] == nil && test.requests(a)[0]["If-Modified-Since"] == nil)
        test.date.advance(by: 10)
        let response = try await test.cache.getData(a).response
        #expect(Told(response) == Told("1", .revalidated))
        #expect(test.requests(a)[1]["If-None-Match"] == "\"v\"")
        #expect(test.requests(a)[1]["If-Modified-Since"] == modified)
        #expect(response.status == 200 && response.attempts == 1)
        #expect(response.headers["X-Kept"] == "old" && response.headers["X-New"] == "new")
        #expect(response.freshUntil == test.date.now + 50)
        test.date.advance(by: 49)
        #expect(try await test.ask(a) == Told("1", .memory))
        let other = await test.reopened(folder)
        let kept = try await other.cache.getData(a).response
        #expect(Told(kept) == Told("1", .disk))
        #expect(kept.headers["X-New"] == "new" && kept.headers["ETag"] == "\"v\"")
        test.date.advance(by: 1)
        other.transport.script(a, [.status(304, [:])])
        #expect(try await other.ask(a) == Told("1", .revalidated), "and again, from what was kept")
        #expect(other.requests(a)[0]["If-None-Match"] == "\"v\"")
        #expect(test.cache.statistics.revalidatedAnswers == 1)
        await other.cache.shutdown()
    }

    @Test("an answer tells until when it is fresh, be it never or for ever")
    func freshUntil() async throws {
        let test = TestCache()
        test.transport.script(a, [.text("1", ["Cache-Control": "no-cache", "ETag": "\"1\""])])
        #expect(try await test.cache.getData(a).response.freshUntil == .distantPast)
        try test.cache.addData(Data("2".utf8), for: "added")
        #expect(test.cache.response(for: "added")?.freshUntil == nil)
        await test.cache.shutdown()
    }

    @Test("a 200 to a conditional request takes the place of what was kept")
    func replaced() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        let first: HTTPHeaders = ["ETag": "\"1\"", "Cache-Control": "max-age=10"]
        let second: HTTPHeaders = ["ETag": "\"2\"", "Cache-Control": "max-age=10"]
        test.transport.script(a, [.text("1", first), .text("2", second)])
        _ = try await test.ask(a)
        test.date.advance(by: 10)
        #expect(try await test.ask(a) == Told("2", .network))
        #expect(try await test.ask(a) == Told("2", .memory))
        let other = await test.reopened(folder)
        #expect(try await other.ask(a) == Told("2", .disk))
        await other.cache.shutdown()
    }

    @Test("a 304 about another version is not believed: the whole is asked for, once")
    func foreignNotModified() async throws {
        let test = TestCache()
        test.transport.script(
            a,
            [
                .text("1", ["ETag": "\"1\"", "Cache-Control": "max-age=10"]), .status(304, ["ETag": "\"2\""]),
                .text("2", ["ETag": "\"2\""]),
            ])
        _ = try await test.ask(a)
        test.date.advance(by: 10)
        #expect(try await test.ask(a) == Told("2", .network))
        #expect(test.requests(a).map { $0["If-None-Match"] } == [nil, "\"1\"", nil])
        await test.cache.shutdown()
    }

    @Test("behind a redirect the server there is asked, and one elsewhere is not asked about what it never sent")
    func notModifiedElsewhere() async throws {
        let test = TestCache(folder: TemporaryFolder())
        let x = url("x")
        let headers: HTTPHeaders = ["ETag": "\"1\"", "Cache-Control": "max-age=10"]
        test.transport.script(
            a, [.status(302, ["Location": "/x"]), .status(302, ["Location": "/x"]), .status(302, ["Location": "/y"])])
        test.transport.script(x, [.text("x", headers), .status(304)])
        test.transport.script(url("y"), [.text("y", headers)])
        #expect(try await test.ask(a) == Told("x", .network))
        test.date.advance(by: 10)
        #expect(try await test.ask(a) == Told("x", .revalidated))
        #expect(test.requests(x)[1]["If-None-Match"] == "\"1\"")
        test.date.advance(by: 10)
        #expect(try await test.ask(a) == Told("y", .network))
        #expect(test.requests(url("y"))[0]["If-None-Match"] == nil)
        #expect(test.requests(a).allSatisfy { $0["If-None-Match"] == nil })
        await test.cache.shutdown()
    }

    @Test("a 404 fails the call, and what was kept is not used in its place")
    func gone() async throws {
        let test = TestCache()
        test.transport.script(
            a, [.text("1", ["ETag": "\"1\"", "Cache-Control": "max-age=10, stale-if-error=1000"]), .status(404)])
        _ = try await test.ask(a)
        test.date.advance(by: 10)
        #expect(await test.cache.getData(a).error == .status(404))
        #expect(test.requests(a).count == 2)
        await test.cache.shutdown()
    }

    @Test("getRemoteData and ignoreCache ask without conditions, and keep what comes")
    func ignoreCache() async throws {
        let test = TestCache(folder: TemporaryFolder())
        let headers: HTTPHeaders = ["ETag": "\"1\"", "Cache-Control": "max-age=1000"]
        test.transport.script(a, [.text("1", headers), .text("2", headers), .text("3", headers)])
        _ = try await test.ask(a)
        #expect(try await Told(test.cache.getRemoteData(a).response) == Told("2", .network))
        #expect(try await test.ask(a) == Told("2", .memory))
        test.date.advance(by: 1_000)
        #expect(try await Told(test.cache.getRemoteData(a).response) == Told("3", .network))
        #expect(test.requests(a).allSatisfy { $0["If-None-Match"] == nil })
        await test.cache.shutdown()
    }

    // MARK: Storing

    @Test(
        "what must not be stored is handed out and not kept, in no tier",
        arguments: ["no-store", "max-age=99, NO-STORE"])
    func noStore(control: String) async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        test.transport.script(a, [.text("1", ["Cache-Control": control]), .text("2", ["Cache-Control": control])])
        #expect(try await test.ask(a) == Told("1", .network))
        #expect(!test.cache.hasData(for: a))
        #expect(try await test.ask(a) == Told("2", .network))
        let other = await test.reopened(folder)
        #expect(other.cache.diskCount == 0)
        #expect(await other.cache.getData(DataRequest(a).with(\.cachePolicy, .cacheOnly)).error == .notCached)
        await other.cache.shutdown()
    }

    @Test("an answer that must not be stored leaves nothing of the one before", arguments: [false, true])
    func noStoreReplaces(forced: Bool) async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        test.transport.script(
            a, [.text("1", ["Cache-Control": "max-age=10"]), .text("2", ["Cache-Control": "no-store"]), .text("3")])
        _ = try await test.ask(a)
        if forced {
            // The first is fresh, but the server has said since that there is another.
            #expect(try await Told(test.cache.getRemoteData(a).response) == Told("2", .network))
        } else {
            test.date.advance(by: 10)
            #expect(try await test.ask(a) == Told("2", .network))
        }
        #expect(!test.cache.hasData(for: a))
        #expect(try await test.ask(a) == Told("3", .network))
        await test.cache.shutdown()
    }

    @Test("no-cache is kept, and asked about each time")
    func noCache() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        let headers: HTTPHeaders = ["Cache-Control": "no-cache, max-age=1000", "ETag": "\"1\""]
        test.transport.script(a, [.text("1", headers), .status(304)])
        _ = try await test.ask(a)
        #expect(try await test.ask(a) == Told("1", .revalidated))
        #expect(try await test.ask(a) == Told("1", .revalidated))
        let other = await test.reopened(folder)
        other.transport.script(a, [.status(304)])
        #expect(try await other.ask(a) == Told("1", .revalidated))
        #expect(other.requests(a)[0]["If-None-Match"] == "\"1\"")
        await other.cache.shutdown()
    }

    @Test("a call that waits for the disk ends also where nothing may be written, and where the write is done")
    func waitsForDiskWrite() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        test.transport.script(a, [.text("1", ["Cache-Control": "no-store"])])
        test.transport.script(url("b"), [.text("1", ["ETag": "\"b\"", "Cache-Control": "max-age=1"]), .status(304)])
        #expect(try await test.cache.getData(DataRequest(a).with(\.waitsForDiskWrite, true)).value == Data("1".utf8))
        let b = DataRequest(url("b")).with(\.waitsForDiskWrite, true)
        _ = try await test.cache.getData(b).value
        #expect(test.cache.diskCount == 1)
        test.date.advance(by: 1)
        #expect(try await test.cache.getData(b).response.source == .revalidated)
        await test.cache.shutdown()
        let memoryOnly = TestCache()
        memoryOnly.transport.script(a, [.text("1")])
        _ = try await memoryOnly.cache.getData(DataRequest(a).with(\.waitsForDiskWrite, true)).value
        await memoryOnly.cache.shutdown()
    }

    @Test("an error that a call takes for an answer is kept if the server says so, and is no answer for other calls")
    func anyStatus() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        test.transport.script(
            a,
            [
                .text("none", ["Cache-Control": "max-age=100"], status: 404),
                .text("here", ["Cache-Control": "max-age=9"]),
            ])
        test.transport.script(url("b"), [.text("none", status: 404)])
        let lenient = DataRequest(a).with(\.validation, .anyStatus)
        let first = try await test.cache.getData(lenient).response
        #expect(first.status == 404 && Told(first) == Told("none", .network))
        let second = try await test.cache.getData(lenient).response
        #expect(second.status == 404 && Told(second) == Told("none", .memory))
        test.cache.clearMemory()
        #expect(try await Told(test.cache.getData(lenient).response) == Told("none", .disk))
        for _ in 0..<2 {
            let silent = try await test.cache.getData(DataRequest(url("b")).with(\.validation, .anyStatus)).response
            #expect(silent.status == 404 && silent.source == .network)
        }
        // Who wants a success does not get what is kept of a failure.
        #expect(try await test.ask(a) == Told("here", .network))
        await test.cache.shutdown()
    }

    @Test("an error that is kept is no answer for a call that wants a success, on disk either")
    func storedErrorOnDisk() async throws {
        let test = TestCache(folder: TemporaryFolder())
        test.transport.script(a, [.text("none", ["Cache-Control": "max-age=100"], status: 404), .status(404)])
        _ = try await test.cache.getData(DataRequest(a).with(\.validation, .anyStatus)).response
        test.cache.clearMemory()
        #expect(await test.cache.getData(a).error == .status(404))
        #expect(await test.cache.getData(DataRequest(a).with(\.cachePolicy, .cacheOnly)).error != nil)
        await test.cache.shutdown()
    }

    @Test("a change on the server makes the entry out of date, and those of its origin that the answer names")
    func invalidation() async throws {
        let test = TestCache(folder: TemporaryFolder())
        let targets = [a, url("list"), url("other")]
        let foreign = URL(string: "http://elsewhere.test/x")!
        for target in targets + [foreign] {
            test.transport.script(target, [.text("1", ["Cache-Control": "max-age=1000"]), .text("2")])
            _ = try await test.ask(target)
        }
        test.cache.invalidate(
            a, after: ["Location": "/list", "Content-Location": foreign.absoluteString])
        #expect(try await test.ask(a) == Told("2", .network))
        #expect(try await test.ask(url("list")) == Told("2", .network))
        #expect(try await test.ask(url("other")) == Told("1", .memory))
        #expect(try await test.ask(foreign) == Told("1", .memory))
        await test.cache.shutdown()
    }

    @Test("the counters tell what answered")
    func statistics() async throws {
        let test = TestCache(folder: TemporaryFolder())
        let headers: HTTPHeaders = ["ETag": "\"1\"", "Cache-Control": "max-age=10, stale-if-error=100"]
        test.transport.script(a, [.text("1", headers), .status(304), .status(503)])
        _ = try await test.ask(a)
        _ = try await test.ask(a)
        test.cache.clearMemory()
        _ = try await test.ask(a)
        test.date.advance(by: 10)
        _ = try await test.ask(a)
        test.date.advance(by: 10)
        #expect(try await test.ask(a) == Told("1", .stale))
        var expected = CacheStatistics()
        expected.memoryHits = 1
        expected.diskHits = 1
        expected.networkAnswers = 1
        expected.revalidatedAnswers = 1
        expected.staleAnswers = 1
        expected.networkRequests = 3
        expected.networkBytes = 1
        #expect(test.cache.statistics == expected)
        await test.cache.shutdown()
    }

    @Test("an answer has its age at a date, whatever time it is on the system's clock")
    func age() async throws {
        let test = TestCache()
        test.transport.script(a, [.text("1", ["Cache-Control": "max-age=100", "Age": "40"])])
        let response = try await test.cache.getData(a).response
        #expect(response.age(at: test.date.now) == .seconds(40))
        #expect(response.age(at: test.date.now + 10) == .seconds(50))
        #expect(response.age(at: response.generated - 1) == .zero)
        await test.cache.shutdown()
    }

    @Test("the bytes of a provider are not counted as bytes of the network")
    func bytesOfProviders() async throws {
        let test = TestCache()
        let provider = CustomProvider(key: "generated") { Data(count: 9) }
        #expect(try await test.cache.getData(DataRequest(provider)).value.count == 9)
        #expect(test.cache.statistics.networkRequests == 0 && test.cache.statistics.networkBytes == 0)
        await test.cache.shutdown()
    }
}
