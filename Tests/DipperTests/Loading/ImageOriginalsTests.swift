import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import Dipper

@Suite("Pictures of two data caches' bytes are kept apart", .timeLimit(.minutes(5)))
struct ImageOriginalsTests {
    private let a = url("a.png")
    private let picture = Image.sample()
    private let other = Image.sample(seed: 60)

    /// A data cache with other bytes under the same URL.
    private func makeOther(_ folder: TemporaryFolder) throws -> DataCache {
        let transport = ScriptedTransport()
        transport.script(a, [.body(try other.png)])
        var configuration = DataCache.Configuration(directory: folder.url)
        configuration.transport = transport
        configuration.callbackQueue = .inPlace
        configuration.logger.logLevel = .critical
        return DataCache(configuration)
    }

    @Test("a prefetcher does not take the picture of one for that of the other")
    func prefetched() async throws {
        let folder = TemporaryFolder()
        let data = try makeOther(folder)
        let test = TestImageCache()
        test.transport.script(a, [.body(try picture.png)])
        _ = try await test.cache.getImage(a).value
        let elsewhere = ImageRequest(a).with(\.originals, data)
        for isThere in [false, true] {
            let result = await ImagePrefetcher(test.cache, [elsewhere], keepsInMemory: true).value
            #expect(result.skipped.count == (isThere ? 1 : 0) && result.completed.count == (isThere ? 0 : 1))
        }
        await test.cache.shutdown()
        await data.shutdown()
    }

    @Test("each request gets the picture of its own data cache, in memory, on disk, and while both are made")
    func apart() async throws {
        let folder = TemporaryFolder()
        let data = try makeOther(folder)
        let test = TestImageCache(folder: TemporaryFolder(), decoder: CountingDecoder(isHeld: true))
        test.transport.script(a, [.body(try picture.png)])
        for plain in [ImageRequest(a), ImageRequest(a).processed(by: Inverting())] {
            let elsewhere = plain.with(\.originals, data)
            // A processed picture would be made from the one in memory.
            test.cache.clearMemory()
            let count = test.decoder.decodes
            let tasks = [test.cache.getImage(plain), test.cache.getImage(elsewhere)]
            #expect(await settle { test.decoder.decodes > count })
            for _ in 0..<2 { test.decoder.release() }
            let images = [try await tasks[0].value, try await tasks[1].value]
            #expect(images[0].pixels != images[1].pixels)
            #expect(test.cache.image(for: plain)?.pixels == images[0].pixels)
            #expect(test.cache.image(for: elsewhere)?.pixels == images[1].pixels)
            await test.cache.synchronize()
            await data.synchronize()
            test.cache.clearMemory()
            for _ in 0..<2 { test.decoder.release() }
            #expect(test.cache.image(for: plain)?.pixels == images[0].pixels)
            #expect(test.cache.image(for: elsewhere)?.pixels == images[1].pixels)
        }
        // Both have the file and what was processed: no write has taken the place of the other.
        #expect(test.cache.data.diskCount == 2 && data.diskCount == 2)
        // Removal is from one of them.
        let elsewhere = ImageRequest(a).with(\.originals, data)
        test.cache.removeImages(for: elsewhere)
        let processed = ImageRequest(a).processed(by: Inverting())
        #expect(!test.cache.hasImage(for: elsewhere) && test.cache.cachedTier(for: processed) == .memory)
        #expect(!test.cache.hasProcessedImage(for: elsewhere.processed(by: Inverting())))
        await data.synchronize()
        #expect(test.cache.data.diskCount == 2 && data.diskCount == 0)
        await test.cache.shutdown()
        await data.shutdown()
    }

    @Test("to name the image cache's own data cache is to name none")
    func own() async throws {
        let test = TestImageCache()
        test.transport.script(a, [.body(try picture.png)])
        _ = try await test.cache.getImage(a).value
        let request = ImageRequest(a).with(\.originals, test.cache.data)
        #expect(try await test.cache.getImage(request).response.source == .memory)
        #expect(test.cache.memoryCount == 1)
        await test.cache.shutdown()
    }

    @Test("bytes under a key that looks like that of a processed picture are no such picture, and stay when it goes")
    func lookalikeKey() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        test.transport.script(a, [.body(try picture.png)])
        let request = ImageRequest(a).processed(by: Inverting())
        let task = test.cache.getImage(request)
        let inverted = try await task.value
        let lookalike = CacheKey(task.imageKey.string)
        try await test.cache.data.addDataAndWait(try other.png, for: lookalike)
        test.cache.clearMemory()
        #expect(try await test.cache.getImage(request).value.pixels == inverted.pixels)
        test.cache.removeImage(for: a)
        #expect(test.cache.data.data(for: lookalike) == (try other.png))
        await test.cache.shutdown()
    }
}
