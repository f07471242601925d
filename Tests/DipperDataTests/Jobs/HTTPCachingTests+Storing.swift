import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

extension HTTPCachingTests {
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
