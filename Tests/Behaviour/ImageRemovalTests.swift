import Dipper
import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Pictures are removed from memory, from disk, or from both, and do not come back", .timeLimit(.minutes(2)))
struct ImageRemovalTests {
    private let a = url("a.png"), b = url("b.png")
    private let picture = Image.sample()
    private let newer = Image.sample(seed: 9)

    private func processed(_ url: URL) -> ImageRequest { ImageRequest(url).processed(by: Inverting()) }

    /// A cache with a folder, whose data cache keeps bytes in memory as well.
    private func makeTest(
        isHeld: Bool = false, _ change: (inout ImageCache.Configuration) -> Void = { _ in }
    ) throws -> TestImageCache {
        let test = TestImageCache(folder: TemporaryFolder(), decoder: CountingDecoder(isHeld: isHeld)) {
            $0.data.memoryLimit = 1 << 20
            change(&$0)
        }
        for address in [a, b] { try test.script(address, picture) }
        return test
    }

    // MARK: Tiers

    @Test("one picture goes from the tier that is named, and stays in the other, as does the file it was made of")
    func one() async throws {
        let test = try makeTest()
        let request = processed(a)
        _ = try await test.cache.getImage(request).value
        await test.cache.idle()
        test.cache.removeImage(for: request, from: .memory)
        #expect(test.cache.cachedTier(for: request) == .disk && test.cache.memoryCount == 0)
        #expect(try await test.cache.getImage(request).response.source == .disk)
        #expect(test.cache.cachedTier(for: request) == .memory)
        test.cache.removeImage(for: request, from: .disk)
        #expect(test.cache.cachedTier(for: request) == .memory)
        await test.cache.idle()
        #expect(test.cache.data.diskCount == 1)
        test.cache.clearMemory()
        #expect(!test.cache.hasProcessedImage(for: request) && test.cache.hasImage(for: a))
        for tierless in [request, ImageRequest(a)] { test.cache.removeImage(for: tierless, from: []) }
        #expect(test.cache.hasImage(for: a))
        await test.cache.shutdown()
    }

    @Test("one variant goes alone; with a URL, a request or a key, all go", arguments: 0..<3)
    func all(_ form: Int) async throws {
        let test = try makeTest()
        let cache = test.cache
        let other = ImageRequest(a).processed(by: Inverting("other"))
        let remove: (CacheTiers) -> Void = { [a] tiers in
            switch form {
            case 0: cache.removeImage(for: a, from: tiers)
            case 1: cache.removeImages(for: other, from: tiers)
            default: cache.removeImage(for: CacheKey(a), from: tiers)
            }
        }
        let variants = [ImageRequest(a), processed(a)]
        for request in variants + [other, ImageRequest(b)] { _ = try await cache.getImage(request).value }
        await cache.idle()
        cache.removeImage(for: other)
        #expect(!cache.hasProcessedImage(for: other) && cache.hasProcessedImage(for: processed(a)))
        remove(.memory)
        #expect(cache.memoryCount == 1 && cache.cachedTier(for: b) == .memory)
        for request in variants { #expect(cache.cachedTier(for: request) == .disk) }
        for request in variants { _ = try await cache.getImage(request).value }
        remove(.disk)
        await cache.idle()
        #expect(cache.data.diskCount == 1)
        for request in variants { #expect(cache.cachedTier(for: request) == .memory) }
        remove(.all)
        #expect(!cache.hasImage(for: a) && !cache.hasProcessedImage(for: processed(a)) && cache.hasImage(for: b))
        await cache.shutdown()
    }

    @Test("flush removes what was stored before, in both tiers, also what was decoded since")
    func flush() async throws {
        let test = try makeTest()
        _ = try await test.cache.getImage(a).value
        try test.cache.addImage(picture, for: url("old"))
        await test.cache.idle()
        test.cache.clearMemory()
        test.date.advance(by: 100)
        _ = try await test.cache.getImage(a).value
        try test.cache.addImage(picture, for: url("new"))
        await test.cache.idle()
        test.cache.flush(olderThan: .seconds(50))
        await test.cache.idle()
        #expect(!test.cache.hasImage(for: a) && !test.cache.hasImage(for: url("old")))
        #expect(test.cache.hasImage(for: url("new")) && test.cache.data.diskCount == 1)
        await test.cache.shutdown()
    }

    // MARK: While a picture is fetched, read or made

    enum Removal: CaseIterable { case image, images, everything, bytes, flush }

    private func remove(_ removal: Removal, _ test: TestImageCache) {
        switch removal {
        case .image: test.cache.removeImage(for: a)
        case .images: test.cache.removeImages(for: processed(a))
        case .everything: test.cache.clear()
        case .bytes: test.cache.data.clear()
        case .flush: test.cache.flush(olderThan: .seconds(50))
        }
    }

    @Test(
        "a picture that is removed while it is decoded is handed out and not kept, nor what is made of it",
        arguments: Removal.allCases, [false, true])
    func whileDecoded(_ removal: Removal, isProcessed: Bool) async throws {
        let test = try makeTest(isHeld: true)
        let task = test.cache.getImage(isProcessed ? processed(a) : ImageRequest(a))
        try await test.decoder.waitForDecodes(1)
        test.date.advance(by: 100)
        remove(removal, test)
        test.decoder.releaseAll()
        #expect(try await task.value.pixels == (isProcessed ? picture.inverted : picture.pixels))
        await test.cache.idle()
        #expect(test.cache.memoryCount == 0 && test.cache.data.memoryCount == 0 && test.cache.data.diskCount == 0)
        await test.cache.shutdown()
    }

    @Test("a picture made of a file that was removed meanwhile is not kept", arguments: [Removal.bytes, .flush])
    func whileMadeOfFile(_ removal: Removal) async throws {
        let test = try makeTest(isHeld: true)
        try await test.cache.data.addDataAndWait(try picture.png, for: DataRequest(a))
        test.date.advance(by: 100)
        let task = test.cache.getImage(processed(a))
        try await test.decoder.waitForDecodes(1)
        remove(removal, test)
        test.decoder.releaseAll()
        _ = try await task.value
        await test.cache.idle()
        #expect(test.cache.memoryCount == 0 && test.cache.data.memoryCount == 0 && test.cache.data.diskCount == 0)
        #expect(test.transport.transfers.isEmpty)
        await test.cache.shutdown()
    }

    @Test("a picture that is cleared while it is fetched does not come back")
    func whileFetched() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        let task = test.cache.getImage(processed(a))
        let transfer = try await test.transport.nextTransfer()
        test.cache.data.clear()
        transfer.finish(with: try picture.png)
        _ = try await task.value
        await test.cache.idle()
        #expect(test.cache.memoryCount == 0 && test.cache.data.memoryCount == 0 && test.cache.data.diskCount == 0)
        await test.cache.shutdown()
    }

    @Test("removed from one tier while it is decoded, it goes to the other", arguments: [CacheTiers.memory, .disk])
    func oneTierWhileDecoded(_ tiers: CacheTiers) async throws {
        let test = try makeTest(isHeld: true)
        let task = test.cache.getImage(processed(a).with(\.waitsForDiskWrite, tiers == .disk))
        try await test.decoder.waitForDecodes(1)
        test.cache.removeImages(for: processed(a), from: tiers)
        test.decoder.releaseAll()
        _ = try await task.value
        await test.cache.idle()
        #expect(test.cache.cachedTier(for: processed(a)) == (tiers == .memory ? .disk : .memory))
        #expect(test.cache.data.diskCount == (tiers == .memory ? 2 : 0))
        await test.cache.shutdown()
    }

    @Test("who asks after a removal is not answered with what was being decoded before")
    func askedAfterwards() async throws {
        let test = try makeTest(isHeld: true)
        try test.script(a, picture, newer)
        let first = test.cache.getImage(a)
        try await test.decoder.waitForDecodes(1)
        test.cache.removeImage(for: a)
        let second = test.cache.getImage(a)
        try await test.transport.waitForTransfers(2)
        test.decoder.releaseAll()
        #expect(try await first.value.pixels == picture.pixels)
        #expect(try await second.value.pixels == newer.pixels)
        #expect(test.cache.image(for: a)?.pixels == newer.pixels)
        await test.cache.shutdown()
    }

    @Test(
        "a picture that is read from disk on the caller's thread while it is removed, flushed or replaced is not kept",
        arguments: ["remove", "clear", "flush", "add", "add bytes"])
    func whileReadHere(_ change: String) async throws {
        let folder = TemporaryFolder()
        let date = ManualDate()
        let one = TestImageCache(folder: folder, date: date)
        try one.script(a, picture)
        _ = try await one.cache.getImage(a).value
        await one.cache.shutdown()
        date.advance(by: 100)
        let test = TestImageCache(folder: folder, date: date, decoder: CountingDecoder(isHeld: true))
        let (cache, address) = (test.cache, a)
        let seen = Box(false)
        Thread.detachNewThread {
            _ = cache.image(for: address)
            seen.update { $0 = true }
        }
        try await test.decoder.waitForDecodes(1)
        switch change {
        case "remove": cache.removeImage(for: a)
        case "clear": cache.clear()
        case "flush": cache.flush(olderThan: .seconds(50))
        case "add": try cache.addImage(newer, for: a)
        default:
            test.decoder.release()
            try cache.addImage(bytes: try newer.png, for: a)
        }
        test.decoder.releaseAll()
        try await seen.wait { $0 }
        if change.hasPrefix("add") {
            #expect(cache.image(for: a)?.pixels == newer.pixels)
        } else {
            #expect(cache.memoryCount == 0)
        }
        await cache.shutdown()
    }

    @Test("a picture that was being read from disk by a call when it was removed is not kept")
    func whileReadByCall() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        // Every order of the two comes up.
        for _ in 0..<40 {
            try test.cache.addImage(bytes: try picture.png, for: a)
            let task = test.cache.getImage(ImageRequest(a).with(\.cachePolicy, .cacheOnly))
            test.cache.removeImage(for: a)
            _ = await task.result
            #expect(test.cache.memoryCount == 0)
        }
        await test.cache.shutdown()
    }

    // MARK: While a picture is written

    @Test("removed from one tier while it is written, or waits to be: it comes to the other", arguments: [true, false])
    func whileWritten(isWaiting: Bool) async throws {
        for (tiers, tier) in [(CacheTiers.memory, ResponseSource.disk), (.disk, .memory), (.all, nil)] {
            let held = HeldSerializer()
            let test = try makeTest {
                // One of them writes at a time.
                $0.decodingThreads = 2
                $0.options.serializer = held.serializer
            }
            if isWaiting {
                _ = try await test.cache.getImage(processed(b)).value
                try await held.entered.wait { $0 == 1 }
            }
            _ = try await test.cache.getImage(processed(a)).value
            if !isWaiting { try await held.entered.wait { $0 == 1 } }
            test.cache.removeImage(for: processed(a), from: tiers)
            held.stayOpen()
            await test.cache.idle()
            #expect(test.cache.data.diskCount == (isWaiting ? 3 : 1) + (tiers == .memory ? 1 : 0), "\(tiers)")
            #expect(test.cache.hasProcessedImage(for: processed(a)) == (tier != nil), "\(tiers)")
            if let tier { #expect(test.cache.cachedTier(for: processed(a)) == tier) }
            await test.cache.shutdown()
        }
    }

    @Test("clear also clears what was processed before and is still being written")
    func clearWhileWritten() async throws {
        let held = HeldSerializer()
        let test = try makeTest { $0.options.serializer = held.serializer }
        _ = try await test.cache.getImage(processed(a)).value
        try await held.entered.wait { $0 == 1 }
        test.cache.clear()
        held.stayOpen()
        await test.cache.idle()
        #expect(!test.cache.hasProcessedImage(for: processed(a)) && test.cache.data.diskCount == 0)
        await test.cache.shutdown()
    }

    @Test(
        "an added picture that is removed while it is encoded stays in the other tier alone",
        arguments: [CacheTiers.memory, .disk, .all])
    func addedWhileWritten(_ tiers: CacheTiers) async throws {
        let held = HeldSerializer()
        let test = try makeTest { $0.options.serializer = held.serializer }
        try test.cache.addImage(picture, for: a)
        try await held.entered.wait { $0 == 1 }
        test.cache.removeImage(for: a, from: tiers)
        held.stayOpen()
        await test.cache.idle()
        #expect(test.cache.memoryCount == (tiers == .disk ? 1 : 0))
        #expect(test.cache.data.diskCount == (tiers == .memory ? 1 : 0))
        #expect(test.cache.image(for: a)?.pixels == (tiers == .all ? nil : picture.pixels))
        await test.cache.shutdown()
    }
}
