import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import Dipper

/// A source of serializers that block until the test opens it.
private final class HeldSerializer: Sendable {
    private let semaphore = DispatchSemaphore(value: 0)
    let entered = Box(0)

    func open(_ count: Int = 1) { for _ in 0..<count { semaphore.signal() } }

    var serializer: ImageSerializer {
        ImageSerializer { [self] image, _, codecs throws(DipperError) in
            entered.update { $0 += 1 }
            semaphore.wait()
            return try codecs.encode(image, as: .png)
        }
    }
}

@Suite("Pictures are removed from memory, from disk, or from both", .timeLimit(.minutes(5)))
struct ImageRemovalTests {
    private let a = url("a.png")
    private let b = url("b.png")
    private let picture = Image.sample()

    private func processed(_ url: URL) -> ImageRequest { ImageRequest(url).processed(by: Inverting()) }

    /// A cache with a folder, whose data cache keeps bytes in memory as well.
    private func makeTest(
        decoder: CountingDecoder = CountingDecoder(), _ change: (inout ImageCache.Configuration) -> Void = { _ in }
    ) throws -> TestImageCache {
        let test = TestImageCache(folder: TemporaryFolder(), decoder: decoder) {
            $0.data.memoryLimit = 1 << 20
            change(&$0)
        }
        for address in [a, b] { test.transport.script(address, [.body(try picture.png)]) }
        return test
    }

    // MARK: Single and derived pictures

    @Test("one picture goes from the tier that is named, and stays in the other, as does the file it was made of")
    func one() async throws {
        let test = try makeTest()
        let request = processed(a)
        _ = try await test.cache.getImage(request).value
        await test.cache.synchronize()
        let imageKey = test.cache.getImage(request).imageKey
        test.cache.removeImage(for: request, from: .memory)
        #expect(test.cache.cachedTier(for: request) == .disk && test.cache.memoryCount == 0)
        #expect(test.cache.data.cachedSource(for: imageKey) == .disk)
        // It comes back to memory from disk.
        _ = try await test.cache.getImage(request).value
        #expect(test.cache.cachedTier(for: request) == .memory)
        test.cache.removeImage(for: request, from: .disk)
        #expect(test.cache.cachedTier(for: request) == .memory)
        await test.cache.synchronize()
        #expect(test.cache.data.diskCount == 1)
        test.cache.clearMemory()
        #expect(!test.cache.hasProcessedImage(for: request) && test.cache.hasImage(for: a))
        test.cache.removeImage(for: request, from: [])
        test.cache.removeImage(for: ImageRequest(a), from: [])
        #expect(test.cache.hasImage(for: a))
        await test.cache.shutdown()
    }

    @Test("so do all pictures of a URL, of a request and of a key", arguments: 0..<3)
    func all(_ form: Int) async throws {
        let test = try makeTest()
        let cache = test.cache
        let remove: (CacheTiers) -> Void = { [a] tiers in
            switch form {
            case 0: cache.removeImage(for: a, from: tiers)
            case 1: cache.removeImages(for: ImageRequest(a).processed(by: Inverting("other")), from: tiers)
            default: cache.removeImage(for: CacheKey(a), from: tiers)
            }
        }
        for request in [ImageRequest(a), processed(a), ImageRequest(b)] { _ = try await cache.getImage(request).value }
        await cache.synchronize()
        remove(.memory)
        #expect(cache.memoryCount == 1 && cache.cachedTier(for: b) == .memory)
        #expect(cache.cachedTier(for: processed(a)) == .disk && cache.cachedTier(for: a) == .disk)
        for request in [ImageRequest(a), processed(a)] { _ = try await cache.getImage(request).value }
        remove(.disk)
        await cache.synchronize()
        #expect(cache.data.diskCount == 1)
        #expect(cache.cachedTier(for: processed(a)) == .memory && cache.cachedTier(for: a) == .memory)
        remove(.all)
        #expect(!cache.hasImage(for: a) && !cache.hasProcessedImage(for: processed(a)) && cache.hasImage(for: b))
        await cache.shutdown()
    }

    // MARK: Running work

    @Test("removed from memory while it is decoded: it goes to disk, and not to memory")
    func decodingMemory() async throws {
        let test = try makeTest(decoder: CountingDecoder(isHeld: true))
        let task = test.cache.getImage(processed(a))
        #expect(await settle { test.decoder.decodes == 1 })
        test.cache.removeImage(for: processed(a), from: .memory)
        test.decoder.release()
        _ = try await task.value
        await test.cache.synchronize()
        #expect(test.cache.memoryCount == 0 && test.cache.data.diskCount == 2)
        #expect(test.cache.data.cachedSource(for: task.imageKey) == .disk)
        await test.cache.shutdown()
    }

    @Test("removed from disk while it is decoded: it goes to memory, and not to disk")
    func decodingDisk() async throws {
        let test = try makeTest(decoder: CountingDecoder(isHeld: true))
        let task = test.cache.getImage(processed(a).with(\.waitsForDiskWrite, true))
        #expect(await settle { test.decoder.decodes == 1 })
        test.cache.removeImages(for: processed(a), from: .disk)
        test.decoder.release()
        _ = try await task.value
        await test.cache.synchronize()
        #expect(test.cache.cachedTier(for: processed(a)) == .memory && test.cache.data.diskCount == 0)
        await test.cache.shutdown()
    }

    @Test("who asks after a removal is not answered with what was being decoded before")
    func askedAfterwards() async throws {
        let test = try makeTest(decoder: CountingDecoder(isHeld: true))
        let newer = Image.sample(seed: 9)
        test.transport.script(a, [.body(try picture.png), .body(try newer.png)])
        let first = test.cache.getImage(a)
        #expect(await settle { test.decoder.decodes == 1 })
        test.cache.removeImage(for: a)
        let second = test.cache.getImage(a)
        #expect(await settle { test.transport.transfers.count == 2 })
        for _ in 0..<2 { test.decoder.release() }
        #expect(try await first.value.pixels == picture.pixels)
        #expect(try await second.value.pixels == newer.pixels)
        #expect(test.cache.image(for: a)?.pixels == newer.pixels)
        await test.cache.shutdown()
    }

    @Test("a picture that is added while another is decoded for its key is the one that stays")
    func addedMeanwhile() async throws {
        let test = try makeTest(decoder: CountingDecoder(isHeld: true))
        let newer = Image.sample(seed: 9)
        for request in [ImageRequest(a), processed(b)] {
            let count = test.decoder.decodes
            let task = test.cache.getImage(request)
            #expect(await settle { test.decoder.decodes == count + 1 })
            try test.cache.addImage(newer, for: request)
            test.decoder.release()
            _ = try await task.value
            #expect(test.cache.image(for: request)?.pixels == newer.pixels)
            await test.cache.synchronize()
            test.cache.clearMemory()
            test.decoder.release()
            #expect(test.cache.image(for: request)?.pixels == newer.pixels)
        }
        await test.cache.shutdown()
    }

    // MARK: Running writes

    @Test("removed from one tier while it is written, or waits to be: it comes to the other", arguments: [true, false])
    func writing(_ isWaiting: Bool) async throws {
        for (tiers, source) in [(CacheTiers.memory, ResponseSource.disk), (.disk, .memory), (.all, nil)] {
            let held = HeldSerializer()
            let test = try makeTest {
                // One of them writes at a time.
                $0.decodingThreads = 2
                $0.options.serializer = held.serializer
            }
            if isWaiting {
                _ = try await test.cache.getImage(processed(b)).value
                #expect(await settle { held.entered.value == 1 })
            }
            _ = try await test.cache.getImage(processed(a)).value
            if !isWaiting { #expect(await settle { held.entered.value == 1 }) }
            test.cache.removeImage(for: processed(a), from: tiers)
            held.open(2)
            await test.cache.synchronize()
            let imageKey = processed(a).resolved(test.cache.defaults).key(CacheKey(a))
            #expect(test.cache.memory.contains(imageKey) == (tiers == .disk), "\(tiers)")
            #expect(test.cache.data.diskCount == (isWaiting ? 3 : 1) + (tiers == .memory ? 1 : 0), "\(tiers)")
            #expect(test.cache.hasProcessedImage(for: processed(a)) == (source != nil), "\(tiers)")
            if let source { #expect(test.cache.cachedTier(for: processed(a)) == source) }
            await test.cache.shutdown()
        }
    }

    @Test(
        "an added picture that is removed from memory is still written, from disk it is not", arguments: [true, false])
    func added(_ fromMemory: Bool) async throws {
        let held = HeldSerializer()
        let test = try makeTest { $0.options.serializer = held.serializer }
        try test.cache.addImage(picture, for: a)
        #expect(await settle { held.entered.value == 1 })
        test.cache.removeImage(for: a, from: fromMemory ? .memory : .disk)
        held.open()
        await test.cache.synchronize()
        #expect(test.cache.memoryCount == (fromMemory ? 0 : 1) && test.cache.data.diskCount == (fromMemory ? 1 : 0))
        #expect(test.cache.image(for: a)?.pixels == picture.pixels)
        await test.cache.shutdown()
    }

    @Test("a file that is added while the picture before is being encoded stays")
    func fileAddedMeanwhile() async throws {
        let held = HeldSerializer()
        let test = try makeTest { $0.options.serializer = held.serializer }
        try test.cache.addImage(Image.sample(4, 4), for: a)
        #expect(await settle { held.entered.value == 1 })
        try test.cache.addImage(bytes: try picture.png, for: a)
        held.open()
        await test.cache.synchronize()
        test.cache.clearMemory()
        #expect(test.cache.image(for: a)?.pixels == picture.pixels)
        await test.cache.shutdown()
    }
}
