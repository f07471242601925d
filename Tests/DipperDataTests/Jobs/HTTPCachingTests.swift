import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("What servers say of freshness, validators and storing is obeyed", .timeLimit(.minutes(5)))
struct HTTPCachingTests {
    let a = url("a")

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
}
