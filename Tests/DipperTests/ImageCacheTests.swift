@testable import Dipper
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Pictures by URL, from memory, disk and network", .timeLimit(.minutes(5)))
struct ImageCacheTests {
    private let a = url("a.png")
    private let picture = Image.sample()

    @Test("a picture is fetched and decoded once, then memory answers at once with the same pixels")
    func memory() async throws {
        let test = TestImageCache()
        test.transport.script(a, [.body(try picture.png)])
        let first = try await test.cache.getImage(a).response
        #expect(first.source == .network && first.attempts == 1 && first.status == 200)
        #expect(first.image.pixels == picture.pixels)
        let second = test.cache.getImage(a)
        #expect(second.state == .finished)
        let response = try await second.response
        #expect(response.source == .memory && response.image.storage === first.image.storage)
        #expect(test.decoder.decodes == 1 && test.transport.transfers.count == 1)
        #expect(test.cache.image(for: a)?.storage === first.image.storage)
        #expect(test.cache.cachedTier(for: a) == .memory && test.cache.hasImage(for: a))
        #expect(test.cache.memoryCount == 1 && test.cache.memorySize >= picture.byteCount)
        await test.cache.shutdown()
    }

    @Test("the disk keeps the file byte for byte, and a new cache on the folder decodes it without the network")
    func disk() async throws {
        let folder = TemporaryFolder()
        let file = try picture.png
        let one = TestImageCache(folder: folder)
        one.transport.script(a, [.body(file)])
        _ = try await one.cache.getImage(a).value
        #expect(one.cache.data.data(for: a) == file)
        await one.cache.shutdown()

        let two = TestImageCache(folder: folder)
        #expect(two.cache.cachedTier(for: a) == .disk)
        let response = try await two.cache.getImage(a).response
        #expect(response.source == .disk && response.image.pixels == picture.pixels)
        #expect(two.transport.transfers.isEmpty)
        two.cache.clearMemory()
        #expect(two.cache.image(for: a)?.pixels == picture.pixels)
        #expect(two.cache.cachedTier(for: a) == .memory)
        await two.cache.shutdown()
    }

    @Test("whoever asks, in whichever queue: one request and one decode")
    func dedup() async throws {
        let test = TestImageCache()
        let tasks = (0..<6).map { $0.isMultiple(of: 2) ? test.cache.slowGetImage(a) : test.cache.getImage(a) }
        let transfer = try await test.transport.nextTransfer()
        transfer.finish(with: try picture.png)
        var storages: Set<ObjectIdentifier> = []
        for task in tasks { storages.insert(ObjectIdentifier(try await task.value.storage)) }
        #expect(storages.count == 1 && test.decoder.decodes == 1 && test.transport.transfers.count == 1)
        await test.cache.shutdown()
    }

    @Test("two requests with different processors share the download; equal ones share the processing")
    func sharedDownload() async throws {
        let test = TestImageCache()
        let invert = Inverting()
        let plain = test.cache.getImage(a)
        let one = test.cache.getImage(ImageRequest(a).processed(by: invert))
        let two = test.cache.getImage(ImageRequest(a).processed(by: invert))
        let transfer = try await test.transport.nextTransfer()
        transfer.finish(with: try picture.png)
        let (image, inverted, same) = (try await plain.value, try await one.value, try await two.value)
        #expect(image.pixels == picture.pixels)
        #expect(inverted.storage === same.storage && inverted.pixels != image.pixels)
        #expect(invert.count.value == 1 && test.transport.transfers.count == 1)
        await test.cache.shutdown()
    }

    @Test("a task that joins while the picture is being decoded waits for that decode")
    func joinsDecode() async throws {
        let test = TestImageCache(decoder: CountingDecoder(isHeld: true))
        test.transport.script(a, [.body(try picture.png)])
        let one = test.cache.slowGetImage(a)
        #expect(await settle { test.decoder.decodes == 1 })
        let two = test.cache.getImage(a)
        #expect(one.state == .decoding && two.state == .decoding)
        test.decoder.release()
        #expect(try await one.value.storage === two.value.storage)
        #expect(test.decoder.decodes == 1 && test.transport.transfers.count == 1)
        await test.cache.shutdown()
    }

    @Test("failures that may pass are told and retried, fatal ones end the task; hooks set late hear all")
    func hooks() async throws {
        let test = TestImageCache()
        test.transport.script(a, [.status(503), .body(try picture.png)])
        let told = Box<[String]>([])
        let task = test.cache.getImage(a)
        #expect(await settle { test.clock.sleeperCount > 0 })
        #expect(task.state == .parked)
        while test.clock.advanceToNextSleeper() {}
        _ = try await task.value
        task.onFail { error, isFatal in told.update { $0.append("fail \(error) \(isFatal)") } }
            .onRetry { told.update { $0.append("retry") } }
            .then { _ in told.update { $0.append("then") } }
        #expect(await settle { told.value == ["fail status 503 false", "retry", "then"] }, "\(told.value)")
        #expect(task.attempts == 2)

        test.transport.script(url("b"), [.status(404)])
        let failing = test.cache.getImage(url("b"))
        let fatal = Box<[Bool]>([])
        failing.onFail { error, isFatal in fatal.update { $0.append(isFatal && error == .status(404)) } }
        #expect(await failing.error == .status(404))
        #expect(await settle { fatal.value == [true] })
        #expect(test.transport.transfers(of: url("b")).count == 1)
        await test.cache.shutdown()
    }

    @Test("a fatal failure says so on its hooks, also if the bytes came well: they are no picture")
    func undecodable() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        test.transport.script(a, [.body(Data("<html>not here</html>".utf8))])
        #expect(await test.cache.getImage(a).error == .unsupportedFormat)
        // What is no picture is not kept as one.
        #expect(!test.cache.hasImage(for: a) && test.transport.transfers.count == 1)
        let broken = url("broken.png")
        test.transport.script(broken, [.body(try picture.png.prefix(60))])
        #expect(await test.cache.getImage(broken).error == .undecodable)
        await test.cache.shutdown()
    }

    @Test("a kept file that does not decode is removed and fetched again, once")
    func refetch() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        test.transport.script(a, [.body(try picture.png)])
        try await test.cache.data.addDataAndWait(try picture.png.prefix(70), for: CacheKey(a))
        test.cache.data.clearMemory()
        let response = try await test.cache.getImage(a).response
        #expect(response.source == .network && response.image.pixels == picture.pixels)
        #expect(test.transport.transfers.count == 1)

        let b = url("b.png")
        test.transport.script(b, [.body(Data("bad".utf8))])
        try await test.cache.data.addDataAndWait(Data("bad as well".utf8), for: CacheKey(b))
        #expect(await test.cache.getImage(b).error == .unsupportedFormat)
        #expect(test.transport.transfers(of: b).count == 1)

        let c = url("c.png")
        try await test.cache.data.addDataAndWait(Data("bad".utf8), for: CacheKey(c))
        let cacheOnly = ImageRequest(c).with(\.cachePolicy, .cacheOnly)
        #expect(await test.cache.getImage(cacheOnly).error == .unsupportedFormat)
        #expect(test.transport.transfers(of: c).isEmpty)
        await test.cache.shutdown()
    }

    @Test("policies: remote asks the network, cache only never does, memory only writes no disk")
    func policies() async throws {
        let folder = TemporaryFolder()
        let test = TestImageCache(folder: folder)
        test.transport.script(a, [.body(try picture.png), .body(try Image.sample(seed: 9).png)])
        #expect(await test.cache.getImage(ImageRequest(a).with(\.cachePolicy, .cacheOnly)).error == .notCached)
        _ = try await test.cache.getImage(ImageRequest(a).with(\.cachePolicy, .memoryOnly)).value
        await test.cache.synchronize()
        #expect(test.cache.data.diskCount == 0 && test.cache.cachedTier(for: a) == .memory)
        #expect(
            try await test.cache.getImage(ImageRequest(a).with(\.cachePolicy, .cacheOnly)).response.source == .memory)
        let newer = try await test.cache.getRemoteImage(a).response
        #expect(newer.source == .network && newer.image.pixels == Image.sample(seed: 9).pixels)
        // The newer one has taken the place of the older in memory.
        #expect(test.cache.image(for: a)?.pixels == newer.image.pixels)
        await test.cache.shutdown()
    }

    @Test("what is asked for past the cache is not kept")
    func bypass() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        test.transport.script(a, [.body(try picture.png)])
        let request = ImageRequest(a).with(\.cachePolicy, .bypass)
        #expect(try await test.cache.getImage(request).value.pixels == picture.pixels)
        await test.cache.synchronize()
        #expect(!test.cache.hasImage(for: a) && test.cache.memoryCount == 0)
        _ = try await test.cache.getImage(request).value
        #expect(test.transport.transfers.count == 2)
        await test.cache.shutdown()
    }

    @Test("bad requests end with a typed error: no URL, empty key, a cache that was shut down")
    func badRequests() async throws {
        let test = TestImageCache()
        #expect(await test.cache.getImage(ImageRequest(string: "")).error == .invalidURL)
        #expect(await test.cache.getImage(ImageRequest(string: "file:///etc/passwd")).error == .unsupportedScheme)
        #expect(await test.cache.getImage(ImageRequest(a).with(\.key, "")).error == .emptyKey)
        try test.cache.addImage(picture, for: CacheKey("by key"))
        #expect(test.cache.image(for: CacheKey("by key"))?.pixels == picture.pixels)
        #expect(test.cache.hasImage(for: ImageRequest(a).with(\.key, "by key")))
        test.cache.removeImage(for: CacheKey("by key"))
        #expect(!test.cache.hasImage(for: CacheKey("by key")))
        #expect(throws: DipperError.emptyKey) { try test.cache.addImage(picture, for: CacheKey("")) }
        #expect(throws: DipperError.emptyKey) { try test.cache.addImage(picture, for: ImageRequest(a).with(\.key, "")) }
        let open = test.cache.getImage(a)
        await test.cache.shutdown()
        #expect(await open.error == .cancelled)
        #expect(await test.cache.getImage(a).error == .shutDown)
    }
}
