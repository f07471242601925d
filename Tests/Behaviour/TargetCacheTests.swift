import Dipper
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("A request has its picture kept by another image cache", .timeLimit(.minutes(2)))
struct TargetCacheTests {
    private let a = url("a.png")
    private let picture = Image.sample()
    private let test = TestImageCache(folder: TemporaryFolder())
    private let target = TestImageCache(folder: TemporaryFolder())
    private var processed: ImageRequest { ImageRequest(a).inverted }
    private var request: ImageRequest { processed.with(\.targetCache, target.cache) }

    private func idle() async {
        await test.cache.idle()
        await target.cache.idle()
    }

    @Test("the original stays with the cache that is asked; the target has the picture in memory and on disk")
    func kept() async throws {
        try test.script(a, picture)
        #expect(try await test.source(request) == .network)
        await idle()
        #expect(test.cache.data.hasData(for: a) && !target.cache.data.hasData(for: a))
        #expect(test.cache.memoryCount == 0 && !test.cache.hasProcessedImage(for: processed))
        #expect(test.cache.data.diskCount == 1 && target.cache.data.diskCount == 1)
        #expect(try await test.source(request) == .memory)
        for _ in 0..<2 {
            #expect(try test.cache.image(for: request)?.pixels == picture.inverted)
            #expect(try target.cache.image(for: processed)?.pixels == picture.inverted)
            target.cache.clearMemory()
            #expect(test.cache.hasProcessedImage(for: request))
        }
        #expect(try await test.source(request) == .disk)
        #expect(test.transport.transfers.count == 1 && target.transport.transfers.isEmpty)
    }

    @Test("a picture that the target lacks is made of the original that is there, and goes when it is removed")
    func removed() async throws {
        try test.script(a, picture)
        try await test.load(a)
        #expect(try await test.pixels(request) == picture.inverted)
        await idle()
        test.cache.removeVariant(for: request)
        #expect(!target.cache.hasImage(for: processed) && test.cache.hasImage(for: request))
        test.cache.clearMemory()
        #expect(try await test.source(request) == .disk)
        await idle()
        #expect(target.cache.hasProcessedImage(for: processed) && test.transport.transfers.count == 1)
        test.cache.removeImage(for: request)
        await idle()
        #expect(test.cache.data.diskCount == 0 && target.cache.data.diskCount == 0 && target.cache.memoryCount == 0)
    }

    @Test("the target of a configuration holds for URLs, for pictures that are added, and for calls that are cancelled")
    func configured() async throws {
        let test = TestImageCache(folder: TemporaryFolder()) { [target] in $0.options.targetCache = target.cache }
        try test.script(a, picture)
        #expect(try await test.source(a) == .network)
        #expect(test.cache.image(for: a)?.pixels == picture.pixels && target.cache.image(for: a) != nil)
        #expect(test.cache.memoryCount == 0 && target.cache.memoryCount == 1)
        let other = Image.sample(seed: 60)
        try test.cache.addImage(other, for: processed)
        #expect(target.cache.image(for: processed)?.pixels == other.pixels)
        let task = test.cache.getImage(url("b.png"))
        try await test.transport.waitForTransfers(1, of: url("b.png"))
        test.cache.cancel(url("b.png"))
        #expect(await task.error == .cancelled)
    }

    @Test("a call that waits for the disk waits for that of the target, also if the asked cache has none")
    func waits() async throws {
        let test = TestImageCache()
        try test.script(a, picture)
        try await test.load(request)
        await target.cache.idle()
        target.cache.clearDisk()
        await target.cache.synchronize()
        #expect(target.cache.memoryCount == 1 && target.cache.data.diskCount == 0)
        #expect(try await test.pixels(request.with(\.waitsForDiskWrite, true)) == picture.inverted)
        #expect(target.cache.data.diskCount == 1)
    }

    @Test("the codecs of the target make the picture, of a request and of a configuration")
    func codecs() async throws {
        let configured = TestImageCache { [target] in $0.options.targetCache = target.cache }
        for (count, (test, request)) in [(test, request), (configured, ImageRequest(a))].enumerated() {
            try test.script(a, picture)
            try await test.load(request)
            #expect(test.decoder.decodes == 0 && target.decoder.decodes == count + 1)
        }
    }

    @Test("cancelling, synchronizing and waiting include the target of a configuration")
    func whole() async throws {
        let test = TestImageCache(folder: TemporaryFolder()) { [target] in $0.options.targetCache = target.cache }
        for way in 0..<2 {
            let address = url("\(way).png")
            let task = test.cache.getImage(address)
            try await test.transport.waitForTransfers(1, of: address)
            if way == 0 { test.cache.cancelAll() } else { test.cache.cancel(key: CacheKey(address)) }
            #expect(await task.error == .cancelled)
        }
        try test.cache.addImage(picture, for: processed)
        await test.cache.synchronize()
        #expect(target.cache.data.diskCount == 1)
        try test.script(url("b.png"), picture)
        test.cache.getImage(ImageRequest(url("b.png")).inverted)
        await test.cache.idle()
        #expect(target.cache.data.diskCount == 2 && test.cache.data.diskCount == 1)
    }
}
