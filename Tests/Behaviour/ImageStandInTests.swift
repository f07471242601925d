import Dipper
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Pictures that stand in for others", .timeLimit(.minutes(2)))
struct ImageStandInTests {
    private let a = url("a.png"), small = url("small.png")
    private let picture = Image.sample()
    private let little = Image.sample(8, 8, seed: 5)
    private let test = TestImageCache(folder: TemporaryFolder())
    private var processed: ImageRequest { ImageRequest(a).inverted }

    private func request(_ bytes: Data) -> ImageRequest {
        ImageRequest(a).with(\.alternatives, [.provider(MemoryProvider(bytes, key: "bundled"))])
    }

    // MARK: Alternatives

    @Test("an alternative is handed out, processed like the other, and not kept: the next call asks the URL again")
    func alternative() async throws {
        test.transport.script(a, [.status(404), .status(404), try .image(picture)])
        let plain = request(try little.png)
        #expect(try await test.pixels(plain) == little.pixels)
        #expect(try await test.pixels(plain.processed(by: Inverting())) == little.inverted)
        await test.expectEmpty()
        #expect(try await test.pixels(plain) == picture.pixels)
        #expect(try await test.source(plain) == .memory)
    }

    @Test(
        "what the cache has for the URL stays, also if it is asked for anew, or the alternative is broken",
        arguments: [nil, .ignoreCache] as [DataRequest.CachePolicy?])
    func keptStays(policy: DataRequest.CachePolicy?) async throws {
        let headers: HTTPHeaders = ["Cache-Control": "max-age=10, must-revalidate"]
        test.transport.script(a, [try .image(picture, headers: headers), .status(404)])
        for request in [processed, ImageRequest(a)] { try await test.load(request) }
        test.date.advance(by: policy == nil ? 20 : 0)
        #expect(try await test.pixels(request(try little.png).with(\.cachePolicy, policy)) == little.pixels)
        #expect(test.cache.image(for: a)?.pixels == picture.pixels)
        await test.forgetMemory()
        #expect(await test.error(request(Data("rubbish".utf8)).with(\.cachePolicy, policy)) == .unsupportedFormat)
        await test.cache.idle()
        #expect(test.cache.image(for: a)?.pixels == picture.pixels && test.cache.hasProcessedImage(for: processed))
    }

    @Test("alternatives can be given as URLs")
    func urls() {
        let request = ImageRequest(a).with(\.alternatives, [url("b"), url("c")])
        #expect(request.alternatives.map(\.url) == [url("b"), url("c")])
        #expect(request.data.with(\.alternatives, []).alternatives.isEmpty)
    }

    // MARK: Constrained networks

    private var frugal: ImageRequest { ImageRequest(a).with(\.lowDataURL, small) }

    private func constrained(folder: TemporaryFolder? = TemporaryFolder()) throws -> TestImageCache {
        let test = TestImageCache(folder: folder)
        test.network.setConditions(NetworkConditions(isConstrained: true))
        try test.script(a, picture)
        try test.script(small, little)
        return test
    }

    @Test("the small form is fetched once for all that is made of it, under its own key")
    func smallForm() async throws {
        let test = try constrained()
        let tasks = [frugal, frugal.processed(by: Inverting()), frugal].map { test.cache.getImage($0) }
        let later = test.cache.slowGetImage(frugal)
        for task in tasks + [later] {
            #expect(try await task.value.size == little.size)
            #expect(task.key == CacheKey(small) && task.request.data.url == small)
        }
        #expect(tasks[1].imageKey != tasks[1].key && tasks[0].imageKey == CacheKey(small))
        #expect(test.transport.transfers(of: a).isEmpty && test.transport.transfers(of: small).count == 1)
        #expect(test.cache.hasImage(for: small) && !test.cache.hasImage(for: a))
        let again = try await test.cache.getImage(frugal).response
        #expect(again.source == .memory)
        test.network.setConditions(NetworkConditions())
        #expect(try await test.cache.getImage(frugal).value.size == picture.size, "never kept as the picture itself")
    }

    @Test("what memory or the disk has of the picture is the answer; a broken file is not")
    func cached() async throws {
        let test = try constrained()
        try await test.cache.data.addDataAndWait(Data("rubbish".utf8), for: CacheKey(a))
        _ = try await test.cache.getImage(frugal).value
        test.network.setConditions(NetworkConditions())
        #expect(try await test.cache.getImage(frugal).value.size == picture.size)
        test.network.setConditions(NetworkConditions(isConstrained: true))
        let requests = test.transport.transfers.count
        #expect(try await test.source(frugal) == .memory)
        await test.forgetMemory()
        let task = test.cache.getImage(frugal)
        #expect(try await task.response.source == .disk && task.key == CacheKey(a))
        #expect(test.transport.transfers.count == requests)
    }

    @Test("a call for the small form is cancelled and moved by the request it was made with", arguments: [false, true])
    func moved(isOnDisk: Bool) async throws {
        let test = TestImageCache(folder: isOnDisk ? TemporaryFolder() : nil)
        test.network.setConditions(NetworkConditions(isConstrained: true))
        let task = test.cache.getImage(frugal)
        let transfer = try await test.transport.nextTransfer()
        #expect(transfer.request.url == small)
        test.cache.moveTaskToSlowQueue(frugal)
        try await transfer.wait { $0.queue == .slow }
        #expect(task.queue == .slow)
        test.cache.cancel(frugal)
        #expect(await task.error == .cancelled)
        try await transfer.wait { $0.isCancelled }
        await test.cache.idle()
    }
}
