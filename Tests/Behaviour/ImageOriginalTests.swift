import Dipper
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Pictures of two data caches' bytes are kept apart", .timeLimit(.minutes(2)))
struct ImageOriginalTests {
    private let a = url("a.png")
    private let picture = Image.sample()
    private let other = Image.sample(seed: 60)
    private let test = TestImageCache(folder: TemporaryFolder())

    private func makeOther() throws -> TestCache {
        let data = TestCache(folder: TemporaryFolder())
        data.transport.script(a, [.body(try other.png)])
        return data
    }

    @Test("a prefetcher does not take the picture of one for that of the other; the cache's own is none other")
    func prefetched() async throws {
        let data = try makeOther()
        try test.script(a, picture)
        _ = try await test.cache.getImage(a).value
        #expect(try await test.source(ImageRequest(a).with(\.originals, test.cache.data)) == .memory)
        #expect(test.cache.memoryCount == 1)
        let elsewhere = ImageRequest(a).with(\.originals, data.cache)
        for isThere in [false, true] {
            let result = await ImagePrefetcher(test.cache, [elsewhere], keepsInMemory: true).value
            #expect(result.skipped.count == (isThere ? 1 : 0) && result.completed.count == (isThere ? 0 : 1))
        }
    }

    @Test("each request gets the picture of its own data cache, in memory, on disk, and while both are made")
    func apart() async throws {
        let data = try makeOther()
        let test = TestImageCache(folder: TemporaryFolder(), decoder: CountingDecoder(isHeld: true))
        try test.script(a, picture)
        let processed = ImageRequest(a).inverted
        for plain in [ImageRequest(a), processed] {
            let requests = [plain, plain.with(\.originals, data.cache)]
            // A processed picture would be made from the one in memory.
            test.cache.clearMemory()
            let count = test.decoder.decodes
            let tasks = requests.map { test.cache.getImage($0) }
            try await test.decoder.waitForDecodes(count + 1)
            test.decoder.release(2)
            let images = [try await tasks[0].value, try await tasks[1].value]
            #expect(images[0].pixels != images[1].pixels)
            for _ in 0..<2 {
                for (request, image) in zip(requests, images) {
                    #expect(test.cache.image(for: request)?.pixels == image.pixels)
                }
                await data.cache.idle()
                await test.forgetMemory()
                test.decoder.release(2)
            }
        }
        // Both have the file and what was processed: no write has taken the place of the other.
        #expect(test.cache.data.diskCount == 2 && data.cache.diskCount == 2)
        let elsewhere = ImageRequest(a).with(\.originals, data.cache)
        test.cache.removeImage(for: elsewhere)
        #expect(!test.cache.hasImage(for: elsewhere) && test.cache.hasProcessedImage(for: processed))
        #expect(!test.cache.hasProcessedImage(for: elsewhere.inverted))
        await data.cache.idle()
        #expect(test.cache.data.diskCount == 2 && data.cache.diskCount == 0)
        test.decoder.releaseAll()
    }

    @Test("bytes under a key that looks like that of a processed picture are no such picture, and stay when it goes")
    func lookalikeKey() async throws {
        try test.script(a, picture)
        let request = ImageRequest(a).inverted
        let task = test.cache.getImage(request)
        _ = try await task.value
        let lookalike = CacheKey(task.imageKey.string)
        try await test.cache.data.addDataAndWait(try other.png, for: lookalike)
        test.cache.clearMemory()
        #expect(try await test.pixels(request) == picture.inverted)
        test.cache.removeImage(for: a)
        #expect(try test.cache.data.data(for: lookalike) == other.png)
    }
}
