import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import Dipper

@Suite("A prefetcher of pictures", .timeLimit(.minutes(1)))
struct ImagePrefetcherTests {
    private func script(_ test: TestImageCache, _ names: [String]) throws {
        for name in names { test.transport.script(url(name), [.body(try Image.sample(seed: UInt8(name.count)).png)]) }
    }

    @Test("it fetches what is not there, skips what is, and tells which is which, once")
    func outcomes() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        try script(test, ["a", "b", "c"])
        test.transport.script(url("gone"), [.status(404)])
        _ = try await test.cache.getImage(url("b")).value
        await test.cache.synchronize()
        let ends = Box(0)
        let prefetcher = ImagePrefetcher(test.cache, urls: ["a", "b", "gone", "c"].map(url), maxOutstanding: 1)
            .onEnd { _ in ends.update { $0 += 1 } }
        let result = await prefetcher.value
        #expect(result.completed.map(\.url) == [url("a"), url("c")])
        #expect(result.skipped.map(\.url) == [url("b")])
        #expect(result.failed.map(\.request.url) == [url("gone")] && result.failed.first?.error.status == 404)
        #expect(result.remaining.isEmpty)
        prefetcher.start()
        prefetcher.stop()
        #expect(await settle { ends.value == 1 })
        #expect(!prefetcher.add([ImageRequest(url("d"))]))
        #expect(test.transport.transfers.allSatisfy { $0.request.queue == .slow || $0.request.url == url("b") })
        await test.cache.shutdown()
    }

    @Test("pictures on disk are skipped without being decoded; those that are to be in memory are decoded")
    func memory() async throws {
        let folder = TemporaryFolder()
        let first = TestImageCache(folder: folder)
        try script(first, ["a"])
        let fetched = await ImagePrefetcher(first.cache, urls: [url("a")]).value
        #expect(fetched.completed.count == 1 && first.cache.memoryCount == 0, "on disk is enough")
        await first.cache.shutdown()
        let test = TestImageCache(folder: folder)
        #expect(await ImagePrefetcher(test.cache, urls: [url("a")]).value.skipped.count == 1)
        #expect(test.decoder.decodes == 0)
        let kept = await ImagePrefetcher(test.cache, urls: [url("a")], keepsInMemory: true).value
        #expect(kept.completed.count == 1 && test.cache.memoryCount == 1 && test.transport.transfers.isEmpty)
        #expect(await ImagePrefetcher(test.cache, urls: [url("a")], keepsInMemory: true).value.skipped.count == 1)
        await test.cache.shutdown()
    }

    @Test("a picture that is wanted processed is there when it is processed, not when its original is")
    func processed() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        try script(test, ["a"])
        let inverting = Inverting()
        let request = ImageRequest(url("a")).processed(by: inverting)
        _ = await ImagePrefetcher(test.cache, urls: [url("a")]).value
        await test.cache.synchronize()
        #expect(await ImagePrefetcher(test.cache, [request]).value.completed.count == 1)
        await test.cache.synchronize()
        #expect(await ImagePrefetcher(test.cache, [request]).value.skipped.count == 1)
        #expect(inverting.count.value == 1 && test.transport.transfers.count == 1)
        await test.cache.shutdown()
    }

    @Test("a picture in memory that the server chose for other requests is not an answer")
    func variant() async throws {
        let test = TestImageCache()
        let answer = ScriptedTransport.Step.response(
            .init(headers: ["Vary": "Accept-Language", "Cache-Control": "max-age=100"], body: try Image.sample().png))
        test.transport.script(url("a"), [answer, answer])
        func request(_ language: String) -> ImageRequest {
            ImageRequest(url("a")).with(\.headers, ["Accept-Language": language])
        }
        _ = try await test.cache.getImage(request("de")).value
        for (language, skipped) in [("de", 1), ("en", 0), ("en", 1)] {
            let result = await ImagePrefetcher(test.cache, [request(language)], keepsInMemory: true).value
            #expect(result.skipped.count == skipped, "\(language)")
        }
        #expect(test.transport.transfers.count == 2)
        await test.cache.shutdown()
    }

    @Test("what is asked for urgently meanwhile is fetched once, and promoted")
    func urgent() async throws {
        let test = TestImageCache()
        let prefetcher = ImagePrefetcher(test.cache, urls: [url("a")]).start()
        let transfer = try await test.transport.nextTransfer()
        #expect(transfer.queue == .slow)
        let image = test.cache.getImage(url("a"))
        #expect(await settle { transfer.queue == .fast })
        transfer.finish(with: try Image.sample().png)
        #expect(try await image.value.pixels == Image.sample().pixels)
        #expect(await prefetcher.value.completed.count == 1 && test.transport.transfers.count == 1)
        await test.cache.shutdown()
    }
}
