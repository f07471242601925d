import Dispatch
import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import Dipper
@testable import DipperData

@Suite("Pictures in constrained networks, and the disk", .timeLimit(.minutes(5)))
struct LowDataPictureTests {
    private let large = url("large")
    private let small = url("small")
    private let picture = Image.sample()
    private let little = Image.sample(4, 4)

    private func test() throws -> TestImageCache {
        let test = TestImageCache(folder: TemporaryFolder())
        test.network.setConditions(NetworkConditions(isConstrained: true))
        test.transport.script(large, [.body(try picture.png)])
        test.transport.script(small, [.body(try little.png)])
        return test
    }

    private var request: ImageRequest { ImageRequest(large).with(\.lowDataURL, small) }

    /// Blocks every look at the disk until the test opens it.
    private func block(_ cache: ImageCache) async -> DispatchSemaphore {
        let door = DispatchSemaphore(value: 0)
        for _ in 0..<2 {
            await withCheckedContinuation { continuation in
                _ = cache.data.store.read("held up", .init(.fast, .normal)) { _ in
                    continuation.resume()
                    door.wait()
                }
            }
        }
        return door
    }

    private func open(_ door: DispatchSemaphore) { for _ in 0..<2 { door.signal() } }

    @Test("a call returns while the disk is slow; if it has nothing, the small form is fetched under its own key")
    func missing() async throws {
        let test = try test()
        let door = await block(test.cache)
        let tasks = [request, request.processed(by: Inverting()), request].map { test.cache.getImage($0) }
        let later = test.cache.slowGetImage(request)
        for task in tasks + [later] { #expect(task.key == CacheKey(large) && task.state == .waiting) }
        #expect(test.cache.data.store.readers?.count == 2, "one question for each picture")
        open(door)
        for task in tasks + [later] {
            #expect(try await task.value.size == little.size)
            #expect(task.key == CacheKey(small) && task.request.data.url == small)
        }
        #expect(tasks[1].imageKey != tasks[1].key && tasks[0].imageKey == CacheKey(small))
        #expect(test.transport.transfers(of: large).isEmpty && test.transport.transfers(of: small).count == 1)
        #expect(test.cache.hasImage(for: small) && !test.cache.hasImage(for: large))
        // Memory has it now.
        #expect(try await test.cache.getImage(request).response.source == .memory)
        await test.cache.shutdown()
    }

    @Test("what the disk has of the picture is the answer")
    func there() async throws {
        let test = try test()
        try await test.cache.data.addDataAndWait(picture.png, for: CacheKey(large))
        test.cache.data.clearMemory()
        let task = test.cache.getImage(request)
        #expect(try await task.value.pixels == picture.pixels)
        #expect(task.key == CacheKey(large) && test.transport.transfers.isEmpty)
        await test.cache.shutdown()
    }

    @Test("a call that is not decided is cancelled and moved by the request it was made with, and so is one that is")
    func changes() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        test.network.setConditions(NetworkConditions(isConstrained: true))
        let door = await block(test.cache)
        let given = (0..<3).map { _ in test.cache.getImage(request) }
        let demoted = test.cache.getImage(ImageRequest(url("other")).with(\.lowDataURL, url("tiny")))
        #expect(test.cache.data.store.readers?.count == 2)
        test.cache.cancel(request)
        for task in given { #expect(task.state == .failed(.cancelled)) }
        #expect(test.cache.data.store.readers?.count == 1)
        test.cache.moveTaskToSlowQueue(url("other"))
        #expect(demoted.queue == .slow)
        open(door)
        let transfer = try await test.transport.nextTransfer()
        #expect(transfer.request.url == url("tiny") && transfer.queue == .slow)
        for key in [url("other"), url("tiny")] { #expect(test.cache.objects.requestCount(CacheKey(key)) == 1) }
        test.cache.cancel(url("other"))
        #expect(await demoted.error == .cancelled)
        #expect(await settle { transfer.isCancelled && test.cache.objects.requestCount() == 0 })
        await test.cache.shutdown()
    }

    @Test("an urgent call that is not decided holds prefetches up until it has begun its fetch")
    func reservation() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        test.network.setConditions(NetworkConditions(isConstrained: true))
        let door = await block(test.cache)
        let urgent = test.cache.getImage(request)
        let prefetch = test.cache.slowGetImage(ImageRequest(url("later")).with(\.cachePolicy, .memoryOnly))
        #expect(test.transport.transfers.isEmpty)
        open(door)
        let first = try await test.transport.nextTransfer()
        #expect(first.request.url == small)
        first.finish(with: try little.png)
        try await test.transport.nextTransfer().finish(with: try picture.png)
        _ = try await urgent.value
        _ = try await prefetch.value
        await test.cache.shutdown()
    }
}
