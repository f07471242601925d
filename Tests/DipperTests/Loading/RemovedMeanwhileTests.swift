import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import Dipper

@Suite("What is removed does not come back by way of what was under way", .timeLimit(.minutes(5)))
struct RemovedMeanwhileTests {
    private let a = url("a")
    private let picture = Image.sample()

    @Test("a picture that was being decoded when old ones were flushed is handed out and not kept")
    func flushedWhileDecoded() async throws {
        let date = ManualDate()
        let test = TestImageCache(
            folder: TemporaryFolder(), date: date, decoder: CountingDecoder(isHeld: true))
        test.transport.script(a, [.body(try picture.png)])
        let task = test.cache.getImage(a)
        #expect(await settle { test.decoder.decodes == 1 })
        date.advance(by: 100)
        test.cache.flush(olderThan: .seconds(50))
        test.decoder.release()
        #expect(try await task.value.pixels == picture.pixels)
        #expect(test.cache.memoryCount == 0)
        await test.cache.shutdown()
    }

    @Test("a processed picture that was being made when old ones were flushed is written nowhere")
    func flushedWhileProcessed() async throws {
        let date = ManualDate()
        let test = TestImageCache(
            folder: TemporaryFolder(), date: date, decoder: CountingDecoder(isHeld: true))
        test.transport.script(a, [.body(try picture.png)])
        let task = test.cache.getImage(ImageRequest(a).processed(by: Inverting()))
        #expect(await settle { test.decoder.decodes == 1 })
        date.advance(by: 100)
        test.cache.flush(olderThan: .seconds(50))
        test.decoder.release()
        _ = try await task.value
        await test.cache.synchronize()
        #expect(test.cache.memoryCount == 0)
        #expect(!test.cache.hasProcessedImage(for: ImageRequest(a).processed(by: Inverting())))
        await test.cache.shutdown()
    }

    @Test(
        "a picture that is read from disk on the caller's thread while it is removed, flushed or replaced is not kept",
        arguments: ["remove", "clear", "flush", "add", "add bytes"])
    func whileReadHere(_ change: String) async throws {
        let date = ManualDate()
        let folder = TemporaryFolder()
        let one = TestImageCache(folder: folder, date: date)
        one.transport.script(a, [.body(try picture.png)])
        _ = try await one.cache.getImage(a).value
        await one.cache.shutdown()
        date.advance(by: 100)
        let newer = Image.sample(seed: 200)
        let test = TestImageCache(folder: folder, date: date, decoder: CountingDecoder(isHeld: true))
        let seen = Box<[UInt8]?>(nil)
        let thread = Thread {
            let pixels = test.cache.image(for: self.a)?.pixels
            seen.update { $0 = pixels }
        }
        thread.start()
        #expect(await settle { test.decoder.decodes == 1 })
        switch change {
        case "remove": test.cache.removeImage(for: a)
        case "clear": test.cache.clear()
        case "flush": test.cache.flush(olderThan: .seconds(50))
        case "add": try test.cache.addImage(newer, for: a)
        default: try test.cache.addImage(bytes: try newer.png, for: a)
        }
        test.decoder.release()
        #expect(await settle { seen.value != nil })
        test.decoder.release()
        test.decoder.release()
        if change.hasPrefix("add") {
            #expect(test.cache.image(for: a)?.pixels == newer.pixels)
        } else {
            #expect(test.cache.memoryCount == 0)
        }
        await test.cache.shutdown()
    }

    @Test("a picture that was being read from disk by a call when it was removed is handed out and not kept")
    func whileReadByCall() async throws {
        let folder = TemporaryFolder()
        let one = TestImageCache(folder: folder)
        one.transport.script(a, [.body(try picture.png)])
        _ = try await one.cache.getImage(a).value
        await one.cache.shutdown()
        let test = TestImageCache(folder: folder)
        // Every order of the two comes up.
        for _ in 0..<100 {
            try test.cache.addImage(bytes: try picture.png, for: a)
            let task = test.cache.getImage(ImageRequest(a).with(\.cachePolicy, .cacheOnly))
            test.cache.removeImage(for: a)
            let isThere = (try? await task.value) != nil
            #expect(test.cache.memoryCount == 0, "\(isThere)")
        }
        await test.cache.shutdown()
    }
}
