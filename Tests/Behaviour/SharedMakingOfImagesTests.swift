import Dipper
import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Equal pictures are fetched and made once", .timeLimit(.minutes(2)))
struct SharedMakingOfImagesTests {
    private let a = url("a.png")
    private let picture = Image.sample()
    private var processed: ImageRequest { ImageRequest(a).processed(by: Inverting()) }

    @Test("whoever asks, in whichever queue: one request and one decode")
    func oneFetch() async throws {
        let test = TestImageCache()
        let tasks = (0..<6).map { $0.isMultiple(of: 2) ? test.cache.slowGetImage(a) : test.cache.getImage(a) }
        try await test.transport.nextTransfer().finish(with: try picture.png)
        var images: [Image] = []
        for task in tasks { images.append(try await task.value) }
        #expect(images.allSatisfy { $0.storage === images[0].storage })
        #expect(test.decoder.decodes == 1 && test.transport.transfers.count == 1)
        await test.cache.shutdown()
    }

    @Test("requests with different processors share the download and the decode; equal ones share the processing")
    func sharedDownload() async throws {
        let test = TestImageCache()
        let invert = Inverting()
        let plain = test.cache.getImage(a)
        let one = test.cache.getImage(ImageRequest(a).processed(by: invert))
        let two = test.cache.getImage(ImageRequest(a).processed(by: invert))
        let circle = test.cache.getImage(ImageRequest(a).processed(by: .circle))
        try await test.transport.nextTransfer().finish(with: try picture.png)
        let (image, inverted, same) = (try await plain.value, try await one.value, try await two.value)
        _ = try await circle.value
        #expect(image.pixels == picture.pixels && inverted.storage === same.storage)
        #expect(try inverted.pixels == picture.inverted)
        #expect(invert.count.value == 1 && test.decoder.decodes == 1 && test.transport.transfers.count == 1)
        await test.cache.shutdown()
    }

    @Test("a task that joins while the picture is being decoded waits for that decode, and hears of the attempts")
    func joinsDecode() async throws {
        let test = TestImageCache(decoder: CountingDecoder(isHeld: true))
        try test.script(a, picture)
        let one = test.cache.slowGetImage(a)
        try await test.decoder.waitForDecodes(1)
        let two = test.cache.getImage(a)
        try await test.passThrough()
        test.decoder.releaseAll()
        let (first, second) = (try await one.response, try await two.response)
        #expect(first.image.storage === second.image.storage)
        #expect(first.attempts == 1 && second.source == .network && second.attempts == 1)
        #expect(test.decoder.decodes == 1 && test.transport.transfers(of: a).count == 1)
        await test.cache.shutdown()
    }

    @Test(
        "a picture on disk is decoded once, plain or processed, whichever threads ask for it at whatever moment",
        arguments: [false, true])
    func onDisk(isProcessed: Bool) async throws {
        let request = isProcessed ? processed : ImageRequest(a)
        let folder = TemporaryFolder()
        let first = TestImageCache(folder: folder)
        try first.script(a, picture)
        _ = try await first.cache.getImage(request).value
        await first.cache.shutdown()
        for round in 0..<6 {
            let test = TestImageCache(folder: folder)
            let tasks = Box<[ImageTask]>([])
            await withTaskGroup { group in
                for _ in 0..<8 {
                    group.addTask {
                        for _ in 0..<25 {
                            let task = test.cache.getImage(request)
                            tasks.update { $0.append(task) }
                        }
                    }
                }
            }
            var images: [Image] = []
            for task in tasks.value { images.append(try await task.value) }
            #expect(images.allSatisfy { $0.storage === images[0].storage }, "round \(round)")
            #expect(test.decoder.decodes == 1 && test.transport.transfers.isEmpty, "round \(round)")
            await test.cache.shutdown()
        }
    }

    // MARK: Calls that want different things kept

    @Test("one who does not want the original beside the processed picture does not take it from one who does")
    func keepsOriginal() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        let made = test.cache.getImage(processed.with(\.keepsOriginal, false))
        let plain = test.cache.getImage(a)
        try await test.transport.nextTransfer().finish(with: try picture.png)
        for task in [plain, made] { _ = try await task.value }
        await test.cache.idle()
        #expect(test.transport.transfers.count == 1 && test.cache.data.hasData(for: a))
        await test.cache.shutdown()
    }

    @Test("who joins the decode of a bypass has the picture kept")
    func bypassJoined() async throws {
        let test = TestImageCache(folder: TemporaryFolder(), decoder: CountingDecoder(isHeld: true))
        try test.script(a, picture)
        let one = test.cache.getImage(ImageRequest(a).with(\.cachePolicy, .bypass))
        try await test.decoder.waitForDecodes(1)
        let two = test.cache.getImage(a)
        try await test.passThrough()
        test.decoder.releaseAll()
        for task in [one, two] { _ = try await task.value }
        await test.cache.idle()
        #expect(test.cache.hasImage(for: a))
        await test.cache.shutdown()
    }

    @Test("what a shared fetch of processed pictures wants on disk is there, whoever came first")
    func memoryOnlyJoined() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        let one = test.cache.getImage(processed.with(\.cachePolicy, .memoryOnly))
        let transfer = try await test.transport.nextTransfer()
        let two = test.cache.getImage(processed.with(\.waitsForDiskWrite, true))
        try await test.passThrough()
        transfer.finish(with: try picture.png)
        for task in [one, two] { _ = try await task.value }
        await test.cache.idle()
        #expect(test.cache.data.hasData(for: a) && test.cache.hasProcessedImage(for: processed))
        await test.cache.shutdown()
        #expect(test.transport.transfers(of: a).count == 1)
    }

    @Test("a call that waits for the disk has its bytes there, though others are making the picture already")
    func durableJoined() async throws {
        let test = TestImageCache(folder: TemporaryFolder(), decoder: CountingDecoder(isHeld: true))
        let request = ImageRequest(a)
        try test.script(a, picture)
        let passing = test.cache.getImage(request.with(\.cachePolicy, .memoryOnly))
        try await test.decoder.waitForDecodes(1)
        let kept = test.cache.getImage(request.with(\.waitsForDiskWrite, true).with(\.durability, .durable))
        try await test.passThrough()
        test.decoder.releaseAll()
        for task in [passing, kept] { _ = try await task.value }
        #expect(test.cache.data.entry(for: CacheKey(a)) != nil)
        await test.cache.shutdown()
    }

    @Test("of two sizes of one picture that is not kept itself, both are kept")
    func twoSizes() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        try test.script(a, picture)
        let requests = [2, 3].map { size in
            ImageRequest(a).processed(by: .downsample(width: size, height: size)).with(\.keepsOriginal, false)
                .with(\.waitsForDiskWrite, true).with(\.durability, .durable)
        }
        for task in requests.map({ test.cache.getImage($0) }) { _ = try await task.value }
        await test.cache.idle()
        for request in requests { #expect(test.cache.hasProcessedImage(for: request)) }
        #expect(test.cache.data.diskCount == 2)
        await test.cache.shutdown()
    }
}
