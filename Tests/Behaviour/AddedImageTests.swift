import Dipper
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Pictures that were added are the originals from then on", .timeLimit(.minutes(2)))
struct AddedImageTests {
    private let a = url("a"), b = url("b")
    private let old = Image.sample(seed: 3)
    private let added = Image.sample(seed: 90)
    private let never = ImageSerializer { _, _, _ throws(DipperError) in throw .unencodable }
    private let test = TestImageCache(folder: TemporaryFolder())
    private var thumbnail: ImageRequest { ImageRequest(a).inverted }

    @Test(
        "an added picture is there at once, and on disk as the given file or an encoded one",
        arguments: [false, true])
    func kept(firstFrameOnly: Bool) async throws {
        let test = TestImageCache(folder: TemporaryFolder()) { $0.options.firstFrameOnly = firstFrameOnly }
        let file = try old.png + Data("the program's own file".utf8)
        let processed = ImageRequest(url("c")).inverted
        try test.cache.addImage(added, for: a)
        try test.cache.addImage(old, bytes: file, for: b)
        try test.cache.addImage(added, for: processed)
        #expect(test.cache.image(for: a)?.storage === added.storage)
        let again = await test.reopened { $0.options.firstFrameOnly = firstFrameOnly }
        #expect(again.cache.hasImage(for: a) && again.cache.image(for: a) != nil)
        #expect(try await again.pixels(a) == added.pixels)
        #expect(again.cache.data.data(for: b) == file)
        #expect(again.cache.hasProcessedImage(for: processed) && !again.cache.hasImage(for: url("c")))
        #expect(again.transport.transfers.isEmpty)
    }

    @Test("processors are applied to a picture just added, not to the server's bytes, while it waits to be written")
    func beforeItIsWritten() async throws {
        let held = HeldSerializer()
        let test = TestImageCache(folder: TemporaryFolder()) { $0.decodingThreads = 2 }
        try test.script(a, old)
        _ = try await test.cache.getImage(a).value
        try test.cache.addImage(added, for: ImageRequest(a).with(\.serializer, held.serializer))
        #expect(try await test.pixels(thumbnail) == added.inverted)
        #expect(try test.cache.image(for: thumbnail)?.pixels == added.inverted)
        test.cache.clearMemory()
        #expect(test.cache.image(for: a)?.pixels == added.pixels && test.cache.cachedTier(for: a) != nil)
        #expect(try await test.pixels(a) == added.pixels)
        held.stayOpen()
        await test.forgetMemory()
        #expect(try await test.pixels(a) == added.pixels)
        #expect(try await test.pixels(thumbnail) == added.inverted)
        #expect(test.transport.transfers.count == 1)
    }

    @Test("processors are applied to a picture that was added to a cache without a folder")
    func inMemory() async throws {
        let test = TestImageCache()
        try test.cache.addImage(added, for: a)
        #expect(try test.cache.image(for: thumbnail)?.pixels == added.inverted)
        #expect(try await test.pixels(thumbnail.processed(by: Inverting("again"))) == added.pixels)
        #expect(test.transport.transfers.isEmpty)
    }

    enum Addition: CaseIterable { case file, withFile, unwritable }

    @Test("whatever is added takes the place of what was made of the server's bytes", arguments: Addition.allCases)
    func replacing(_ addition: Addition) async throws {
        try test.script(a, old)
        for request in [ImageRequest(a), thumbnail] { try await test.load(request) }
        switch addition {
        case .file: try test.cache.addImage(bytes: added.png, for: a)
        case .withFile:
            try test.cache.addImage(added, bytes: added.png, for: a)
            test.cache.clearMemory()
        case .unwritable:
            try test.cache.addImage(added, for: ImageRequest(a).with(\.serializer, never))
            await test.cache.idle()
            #expect(!test.cache.data.hasData(for: a))
        }
        #expect(try await test.pixels(a) == added.pixels)
        #expect(try await test.pixels(thumbnail) == added.inverted)
        #expect(test.transport.transfers.count == 1)
    }

    @Test("what was being fetched when a picture was added goes to who asked for it, and does not take its place")
    func whileFetched() async throws {
        // It looks at the disk first, and then at the network: only now both wait for the same bytes.
        let made = test.cache.getImage(thumbnail)
        let transfer = try await test.transport.nextTransfer()
        let before = test.cache.getImage(a)
        try await before.hasLooked()
        try test.cache.addImage(added, for: a)
        transfer.finish(with: try old.png)
        #expect(try await before.value.pixels == old.pixels)
        #expect(try await made.value.pixels == old.inverted)
        for _ in 0..<2 {
            #expect(try await test.pixels(a) == added.pixels)
            #expect(try await test.pixels(thumbnail) == added.inverted)
            await test.forgetMemory()
        }
    }

    @Test("a picture added while another is decoded for its key is the one that stays", arguments: [true, false])
    func whileDecoded(isProcessed: Bool) async throws {
        let test = TestImageCache(folder: TemporaryFolder(), decoder: CountingDecoder(isHeld: true))
        try test.script(a, old)
        let request = isProcessed ? thumbnail : ImageRequest(a)
        let task = test.cache.getImage(request)
        try await test.decoder.waitForDecodes(1)
        try test.cache.addImage(added, for: request)
        test.decoder.releaseAll()
        _ = try await task.value
        #expect(test.cache.image(for: request)?.pixels == added.pixels)
        await test.forgetMemory()
        #expect(test.cache.image(for: request)?.pixels == added.pixels)
    }

    @Test("of two pictures, or a picture and a file, the one added later is on disk", arguments: [false, true])
    func order(isFile: Bool) async throws {
        let held = HeldSerializer()
        let test = TestImageCache(folder: TemporaryFolder()) { $0.decodingThreads = 4 }
        try test.cache.addImage(old, for: ImageRequest(a).with(\.serializer, held.serializer))
        try await held.entered.wait { $0 == 1 }
        try isFile ? test.cache.addImage(bytes: added.png, for: a) : test.cache.addImage(added, for: a)
        held.stayOpen()
        await test.forgetMemory()
        #expect(test.cache.image(for: a)?.pixels == added.pixels)
    }

    @Test("adding many pictures does not wait for the encoder; synchronize does")
    func many() async throws {
        let held = HeldSerializer()
        let test = TestImageCache(folder: TemporaryFolder()) {
            $0.decodingThreads = 1
            $0.options.serializer = held.serializer
        }
        let (cache, picture) = (test.cache, added)
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
        try await held.entered.wait { $0 == 1 }
        held.stayOpen()
        #expect(await done.value == 12)
    }
}
