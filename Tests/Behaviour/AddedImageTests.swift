import Dipper
import DipperData
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
    private var thumbnail: ImageRequest { ImageRequest(a).processed(by: Inverting()) }

    @Test("an added picture is there at once, and on disk with the file that was given or an encoded one")
    func kept() async throws {
        let folder = TemporaryFolder()
        let test = TestImageCache(folder: folder)
        let file = try old.png + Data("the program's own file".utf8)
        let processed = ImageRequest(url("c")).processed(by: Inverting())
        try test.cache.addImage(added, for: a)
        try test.cache.addImage(old, bytes: file, for: b)
        try test.cache.addImage(added, for: processed)
        #expect(test.cache.image(for: a)?.storage === added.storage)
        await test.cache.shutdown()
        let again = TestImageCache(folder: folder)
        #expect(try await again.cache.getImage(a).value.pixels == added.pixels)
        #expect(again.cache.data.data(for: b) == file)
        #expect(again.cache.hasProcessedImage(for: processed) && !again.cache.hasImage(for: url("c")))
        #expect(again.transport.transfers.isEmpty)
        await again.cache.shutdown()
    }

    @Test("it is found after a restart also where the cache decodes first frames alone")
    func firstFrames() async throws {
        let folder = TemporaryFolder()
        let one = TestImageCache(folder: folder) { $0.options.firstFrameOnly = true }
        try one.cache.addImage(added, for: a)
        await one.cache.shutdown()
        let two = TestImageCache(folder: folder) { $0.options.firstFrameOnly = true }
        #expect(two.cache.hasImage(for: a) && two.cache.image(for: a) != nil)
        #expect(try await two.cache.getImage(a).value.pixels == added.pixels)
        await two.cache.shutdown()
    }

    @Test("processors are applied to a picture just added, not to the server's bytes, while it waits to be written")
    func beforeItIsWritten() async throws {
        let held = HeldSerializer()
        let test = TestImageCache(folder: TemporaryFolder()) { $0.decodingThreads = 2 }
        try test.script(a, old)
        _ = try await test.cache.getImage(a).value
        try test.cache.addImage(added, for: ImageRequest(a).with(\.serializer, held.serializer))
        #expect(try await test.cache.getImage(thumbnail).value.pixels == added.inverted)
        #expect(try test.cache.image(for: thumbnail)?.pixels == added.inverted)
        test.cache.clearMemory()
        #expect(test.cache.image(for: a)?.pixels == added.pixels && test.cache.cachedTier(for: a) != nil)
        #expect(try await test.cache.getImage(a).value.pixels == added.pixels)
        held.stayOpen()
        await test.cache.idle()
        test.cache.clearMemory()
        #expect(try await test.cache.getImage(a).value.pixels == added.pixels)
        #expect(try await test.cache.getImage(thumbnail).value.pixels == added.inverted)
        #expect(test.transport.transfers.count == 1)
        await test.cache.shutdown()
    }

    @Test("processors are applied to a picture that was added to a cache without a folder")
    func inMemory() async throws {
        let test = TestImageCache()
        try test.cache.addImage(added, for: a)
        #expect(try test.cache.image(for: thumbnail)?.pixels == added.inverted)
        let twice = thumbnail.processed(by: Inverting("again"))
        #expect(try await test.cache.getImage(twice).value.pixels == added.pixels)
        #expect(test.transport.transfers.isEmpty)
        await test.cache.shutdown()
    }

    @Test(
        "a file, or a picture with its file, takes the place of what was made of the old one", arguments: [true, false])
    func withBytes(isDecoded: Bool) async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        try test.script(a, old)
        _ = try await test.cache.getImage(a).value
        _ = try await test.cache.getImage(thumbnail).value
        await test.cache.idle()
        if isDecoded {
            try test.cache.addImage(added, bytes: added.png, for: a)
            test.cache.clearMemory()
        } else {
            try test.cache.addImage(bytes: added.png, for: a)
        }
        #expect(try await test.cache.getImage(a).value.pixels == added.pixels)
        #expect(try await test.cache.getImage(thumbnail).value.pixels == added.inverted)
        #expect(test.transport.transfers.count == 1)
        await test.cache.shutdown()
    }

    @Test("what was being fetched when a picture was added goes to who asked for it, and does not take its place")
    func whileFetched() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        // It looks at the disk first, and then at the network: only now both wait for the same bytes.
        let made = test.cache.getImage(thumbnail)
        let transfer = try await test.transport.nextTransfer()
        let before = test.cache.getImage(a)
        try await test.passThrough()
        try test.cache.addImage(added, for: a)
        transfer.finish(with: try old.png)
        #expect(try await before.value.pixels == old.pixels)
        #expect(try await made.value.pixels == old.inverted)
        for _ in 0..<2 {
            #expect(try await test.cache.getImage(a).value.pixels == added.pixels)
            #expect(try await test.cache.getImage(thumbnail).value.pixels == added.inverted)
            await test.cache.idle()
            test.cache.clearMemory()
        }
        await test.cache.shutdown()
    }

    @Test(
        "a picture that is added while another is decoded for its key is the one that stays", arguments: [true, false])
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
        await test.cache.idle()
        test.cache.clearMemory()
        #expect(test.cache.image(for: request)?.pixels == added.pixels)
        await test.cache.shutdown()
    }

    @Test("of two pictures added one after the other, or a picture and a file, the later one is on disk")
    func order() async throws {
        for isFile in [false, true] {
            let held = HeldSerializer()
            let test = TestImageCache(folder: TemporaryFolder()) { $0.decodingThreads = 4 }
            try test.cache.addImage(old, for: ImageRequest(a).with(\.serializer, held.serializer))
            try await held.entered.wait { $0 == 1 }
            if isFile {
                try test.cache.addImage(bytes: added.png, for: a)
            } else {
                try test.cache.addImage(added, for: a)
            }
            held.stayOpen()
            await test.cache.idle()
            test.cache.clearMemory()
            #expect(test.cache.image(for: a)?.pixels == added.pixels, "\(isFile)")
            await test.cache.shutdown()
        }
    }

    @Test("a picture that cannot be written takes the place of the server's bytes all the same")
    func unwritable() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        try test.script(a, old)
        _ = try await test.cache.getImage(a).value
        try test.cache.addImage(added, for: ImageRequest(a).with(\.serializer, never))
        await test.cache.idle()
        #expect(test.cache.image(for: a)?.pixels == added.pixels && !test.cache.data.hasData(for: a))
        await test.cache.shutdown()
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
            for number in 0..<12 {
                try? cache.addImage(picture, for: url("\(number)"))
                count.update { $0 += 1 }
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
        await test.cache.shutdown()
    }
}
