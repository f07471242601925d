import TestSupport
import Testing

@Suite(
    "Pictures are added, are the originals from then on, and do not come back when they are removed",
    .timeLimit(.minutes(2)))
struct ImageRemovalTests {
    private let a = url("a.png"), b = url("b.png")
    private let picture = Image.sample()
    private let newer = Image.sample(seed: 9)
    private let test = TestImageCache(folder: TemporaryFolder())
    private var processed: ImageRequest { ImageRequest(a).inverted }

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
        try await test.load(processed)
        test.cache.removeVariant(for: processed, from: .memory)
        #expect(test.cache.cachedSource(for: processed) == .disk && test.cache.memoryCount == 0)
        #expect(try await test.source(processed) == .disk)
        #expect(test.cache.cachedSource(for: processed) == .memory)
        test.cache.removeVariant(for: processed, from: .disk)
        #expect(test.cache.cachedSource(for: processed) == .memory)
        await test.cache.idle()
        #expect(test.cache.data.diskCount == 1)
        test.cache.clearMemory()
        #expect(!test.cache.hasProcessedImage(for: processed) && test.cache.hasImage(for: a))
        for tierless in [processed, ImageRequest(a)] { test.cache.removeVariant(for: tierless, from: []) }
        #expect(test.cache.hasImage(for: a))
    }

    @Test("one variant goes alone; with a URL, a request or a key, all go", arguments: 0..<3)
    func all(_ form: Int) async throws {
        let test = try makeTest()
        let cache = test.cache
        let other = ImageRequest(a).processed(by: Inverting("other"))
        let remove: (CacheTiers) -> Void = { [a] tiers in
            switch form {
            case 0: cache.removeImage(for: a, from: tiers)
            case 1: cache.removeImage(for: other, from: tiers)
            default: cache.removeImage(for: CacheKey(a), from: tiers)
            }
        }
        let variants = [ImageRequest(a), processed]
        for request in variants + [other, ImageRequest(b)] { try await test.load(request) }
        cache.removeVariant(for: other)
        #expect(!cache.hasProcessedImage(for: other) && cache.hasProcessedImage(for: processed))
        remove(.memory)
        #expect(cache.memoryCount == 1 && cache.cachedSource(for: b) == .memory)
        #expect(variants.map(cache.cachedSource) == [.disk, .disk])
        for request in variants { try await test.load(request) }
        remove(.disk)
        await cache.idle()
        #expect(cache.data.diskCount == 1)
        #expect(variants.map(cache.cachedSource) == [.memory, .memory])
        remove(.all)
        #expect(!cache.hasImage(for: a) && !cache.hasProcessedImage(for: processed) && cache.hasImage(for: b))
    }

    @Test("flush removes what was stored before, in both tiers, also what was decoded since")
    func flush() async throws {
        let test = try makeTest()
        try test.cache.addImage(picture, for: url("old"))
        try await test.load(a)
        test.cache.clearMemory()
        test.date.advance(by: 100)
        try test.cache.addImage(picture, for: url("new"))
        try await test.load(a)
        test.cache.flush(olderThan: .seconds(50))
        await test.cache.idle()
        #expect(!test.cache.hasImage(for: a) && !test.cache.hasImage(for: url("old")))
        #expect(test.cache.hasImage(for: url("new")) && test.cache.data.diskCount == 1)
    }

    // MARK: While a picture is fetched, read or made

    enum Removal: CaseIterable { case image, images, everything, bytes, flush }

    private func remove(_ removal: Removal, _ test: TestImageCache) {
        switch removal {
        case .image: test.cache.removeImage(for: a)
        case .images: test.cache.removeImage(for: processed)
        case .everything: test.cache.clear()
        case .bytes: test.cache.data.clear()
        case .flush: test.cache.flush(olderThan: .seconds(50))
        }
    }

    @Test(
        "a picture that is removed while it is decoded is handed out and not kept, nor what is made of it",
        arguments: Removal.allCases, [(false, false), (true, false), (true, true)])
    func whileDecoded(_ removal: Removal, made: (isProcessed: Bool, isOfFile: Bool)) async throws {
        let test = try makeTest(isHeld: true)
        if made.isOfFile { try await test.cache.data.addDataAndWait(try picture.png, for: DataRequest(a)) }
        let task = test.cache.getImage(made.isProcessed ? processed : ImageRequest(a))
        try await test.decoder.waitForDecodes(1)
        test.date.advance(by: 100)
        remove(removal, test)
        test.decoder.releaseAll()
        #expect(try await task.value.pixels == (made.isProcessed ? picture.inverted : picture.pixels))
        await test.expectEmpty()
        #expect(test.transport.transfers.isEmpty == made.isOfFile)
    }

    @Test("a picture that is cleared while it is fetched does not come back")
    func whileFetched() async throws {
        let (task, transfer) = try await test.begin(processed)
        test.cache.data.clear()
        transfer.finish(with: try picture.png)
        _ = try await task.value
        await test.expectEmpty()
    }

    @Test("removed from one tier while it is decoded, it goes to the other", arguments: [CacheTiers.memory, .disk])
    func oneTierWhileDecoded(_ tiers: CacheTiers) async throws {
        let test = try makeTest(isHeld: true)
        let task = test.cache.getImage(processed.with(\.waitsForDiskWrite, tiers == .disk))
        try await test.decoder.waitForDecodes(1)
        test.cache.removeImage(for: processed, from: tiers)
        test.decoder.releaseAll()
        _ = try await task.value
        await test.cache.idle()
        #expect(test.cache.cachedSource(for: processed) == (tiers == .memory ? .disk : .memory))
        #expect(test.cache.data.diskCount == (tiers == .memory ? 2 : 0))
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
        #expect(test.cache.readImage(for: a)?.pixels == newer.pixels)
    }

    @Test(
        "a picture that is read from disk on the caller's thread while it is removed, flushed or replaced is not kept",
        arguments: ["remove", "clear", "flush", "add", "add bytes"])
    func whileReadHere(_ change: String) async throws {
        let one = try makeTest()
        try await one.load(a)
        one.date.advance(by: 100)
        let test = await one.reopened(decoder: CountingDecoder(isHeld: true))
        let (cache, address) = (test.cache, a)
        let seen = Box(false)
        Thread.detachNewThread {
            _ = cache.readImage(for: address)
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
            #expect(cache.readImage(for: a)?.pixels == newer.pixels)
        } else {
            #expect(cache.memoryCount == 0)
        }
    }

    @Test("a picture that was being read from disk by a call when it was removed is not kept")
    func whileReadByCall() async throws {
        // Every order of the two comes up.
        for _ in 0..<40 {
            try test.cache.addImage(bytes: try picture.png, for: a)
            let task = test.cache.getImage(ImageRequest(a).with(\.cachePolicy, .cacheOnly))
            test.cache.removeImage(for: a)
            _ = await task.result
            #expect(test.cache.memoryCount == 0)
        }
    }

    // MARK: While a picture is written

    @Test(
        "removed from one tier while it is written, or waits to be, it comes to the other; cleared, to neither",
        arguments: [true, false], [.memory, .disk, .all, nil] as [CacheTiers?])
    func whileWritten(isWaiting: Bool, tiers: CacheTiers?) async throws {
        let held = Door()
        let test = try makeTest {
            // One of them writes at a time.
            $0.decodingThreads = 2
            $0.options.serializer = held.serializer
        }
        if isWaiting {
            _ = try await test.cache.getImage(ImageRequest(b).inverted).value
            try await held.waitForArrivals(1)
        }
        _ = try await test.cache.getImage(processed).value
        if !isWaiting { try await held.waitForArrivals(1) }
        if let tiers { test.cache.removeVariant(for: processed, from: tiers) } else { test.cache.clear() }
        held.stayOpen()
        await test.cache.idle()
        #expect(test.cache.data.diskCount == (tiers == nil ? 0 : (isWaiting ? 3 : 1) + (tiers == .memory ? 1 : 0)))
        let tier: ResponseSource? = tiers == .memory ? .disk : tiers == .disk ? .memory : nil
        #expect(test.cache.hasProcessedImage(for: processed) == (tier != nil))
        if let tier { #expect(test.cache.cachedSource(for: processed) == tier) }
    }

    @Test(
        "an added picture removed while it is encoded stays in the other tier",
        arguments: [CacheTiers.memory, .disk, .all])
    func addedWhileWritten(_ tiers: CacheTiers) async throws {
        let held = Door()
        let test = try makeTest { $0.options.serializer = held.serializer }
        try test.cache.addImage(picture, for: a)
        try await held.waitForArrivals(1)
        test.cache.removeImage(for: a, from: tiers)
        held.stayOpen()
        await test.cache.idle()
        #expect(test.cache.memoryCount == (tiers == .disk ? 1 : 0))
        #expect(test.cache.data.diskCount == (tiers == .memory ? 1 : 0))
        #expect(test.cache.readImage(for: a)?.pixels == (tiers == .all ? nil : picture.pixels))
    }

    // MARK: Added pictures

    private let never = ImageSerializer { _, _, _ throws(DipperError) in throw .unencodable }

    @Test(
        "an added picture is there at once, and on disk as the given file or an encoded one",
        arguments: [false, true])
    func kept(firstFrameOnly: Bool) async throws {
        let test = TestImageCache(folder: TemporaryFolder()) { $0.options.firstFrameOnly = firstFrameOnly }
        let file = try picture.png + Data("the program's own file".utf8)
        let processed = ImageRequest(url("c")).inverted
        try test.cache.addImage(newer, for: a)
        try test.cache.addImage(picture, bytes: file, for: b)
        try test.cache.addImage(newer, for: processed)
        #expect(test.cache.readImage(for: a)?.storage === newer.storage)
        let again = await test.reopened { $0.options.firstFrameOnly = firstFrameOnly }
        #expect(again.cache.hasImage(for: a) && again.cache.readImage(for: a) != nil)
        #expect(try await again.pixels(a) == newer.pixels)
        #expect(again.cache.data.readData(for: b) == file)
        #expect(again.cache.hasProcessedImage(for: processed) && !again.cache.hasImage(for: url("c")))
        #expect(again.transport.transfers.isEmpty)
    }

    @Test("processors are applied to a picture just added, not to the server's bytes, while it waits to be written")
    func beforeItIsWritten() async throws {
        let held = Door()
        let test = TestImageCache(folder: TemporaryFolder()) { $0.decodingThreads = 2 }
        try test.script(a, picture)
        _ = try await test.cache.getImage(a).value
        try test.cache.addImage(newer, for: ImageRequest(a).with(\.serializer, held.serializer))
        #expect(try await test.pixels(processed) == newer.inverted)
        #expect(try test.cache.readImage(for: processed)?.pixels == newer.inverted)
        test.cache.clearMemory()
        #expect(test.cache.readImage(for: a)?.pixels == newer.pixels && test.cache.cachedSource(for: a) != nil)
        #expect(try await test.pixels(a) == newer.pixels)
        held.stayOpen()
        await test.forgetMemory()
        #expect(try await test.pixels(a) == newer.pixels)
        #expect(try await test.pixels(processed) == newer.inverted)
        #expect(test.transport.transfers.count == 1)
    }

    @Test("processors are applied to a picture that was added to a cache without a folder")
    func inMemory() async throws {
        let test = TestImageCache()
        try test.cache.addImage(newer, for: a)
        #expect(try test.cache.readImage(for: processed)?.pixels == newer.inverted)
        #expect(try await test.pixels(processed.processed(by: Inverting("again"))) == newer.pixels)
        #expect(test.transport.transfers.isEmpty)
    }

    enum Addition: CaseIterable { case file, withFile, unwritable }

    @Test("whatever is added takes the place of what was made of the server's bytes", arguments: Addition.allCases)
    func replacing(_ addition: Addition) async throws {
        try test.script(a, picture)
        for request in [ImageRequest(a), processed] { try await test.load(request) }
        switch addition {
        case .file: try test.cache.addImage(bytes: newer.png, for: a)
        case .withFile:
            try test.cache.addImage(newer, bytes: newer.png, for: a)
            test.cache.clearMemory()
        case .unwritable:
            try test.cache.addImage(newer, for: ImageRequest(a).with(\.serializer, never))
            await test.cache.idle()
            #expect(!test.cache.data.hasData(for: a))
        }
        #expect(try await test.pixels(a) == newer.pixels)
        #expect(try await test.pixels(processed) == newer.inverted)
        #expect(test.transport.transfers.count == 1)
    }

    @Test("what was being fetched when a picture was added goes to who asked for it, and does not take its place")
    func addedWhileFetched() async throws {
        // It looks at the disk first, and then at the network: only now both wait for the same bytes.
        let (made, transfer) = try await test.begin(processed)
        let before = test.cache.getImage(a)
        try await before.hasLooked()
        try test.cache.addImage(newer, for: a)
        transfer.finish(with: try picture.png)
        #expect(try await before.value.pixels == picture.pixels)
        #expect(try await made.value.pixels == picture.inverted)
        for _ in 0..<2 {
            #expect(try await test.pixels(a) == newer.pixels)
            #expect(try await test.pixels(processed) == newer.inverted)
            await test.forgetMemory()
        }
    }

    @Test("a picture added while another is decoded for its key is the one that stays", arguments: [true, false])
    func addedWhileDecoded(isProcessed: Bool) async throws {
        let test = TestImageCache(folder: TemporaryFolder(), decoder: CountingDecoder(isHeld: true))
        try test.script(a, picture)
        let request = isProcessed ? processed : ImageRequest(a)
        let task = test.cache.getImage(request)
        try await test.decoder.waitForDecodes(1)
        try test.cache.addImage(newer, for: request)
        test.decoder.releaseAll()
        _ = try await task.value
        #expect(test.cache.readImage(for: request)?.pixels == newer.pixels)
        await test.forgetMemory()
        #expect(test.cache.readImage(for: request)?.pixels == newer.pixels)
    }

    @Test("of two pictures, or a picture and a file, the one added later is on disk", arguments: [false, true])
    func order(isFile: Bool) async throws {
        let held = Door()
        let test = TestImageCache(folder: TemporaryFolder()) { $0.decodingThreads = 4 }
        try test.cache.addImage(picture, for: ImageRequest(a).with(\.serializer, held.serializer))
        try await held.waitForArrivals(1)
        try isFile ? test.cache.addImage(bytes: newer.png, for: a) : test.cache.addImage(newer, for: a)
        held.stayOpen()
        await test.forgetMemory()
        #expect(test.cache.readImage(for: a)?.pixels == newer.pixels)
    }

    @Test("adding many pictures does not wait for the encoder; synchronize does")
    func many() async throws {
        let held = Door()
        let test = TestImageCache(folder: TemporaryFolder()) {
            $0.decodingThreads = 1
            $0.options.serializer = held.serializer
        }
        let (cache, picture) = (test.cache, newer)
        let count = Box(0)
        Thread.detachNewThread {
            for number in 1...12 {
                try? cache.addImage(picture, for: url("\(number)"))
                count.update { $0 = number }
            }
        }
        try await count.wait { $0 == 12 }
        let done = Task {
            await cache.synchronize()
            return cache.data.diskCount
        }
        try await held.waitForArrivals(1)
        held.stayOpen()
        #expect(await done.value == 12)
    }
}
