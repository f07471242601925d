import Dipper
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Equal pictures are fetched and made once", .timeLimit(.minutes(2)))
struct SharedMakingOfImagesTests {
    private let a = url("a.png")
    private let picture = Image.sample()
    private let test = TestImageCache(folder: TemporaryFolder())
    private var processed: ImageRequest { ImageRequest(a).inverted }

    @Test("requests with different processors share the download and the decode; equal ones share the picture")
    func oneFetch() async throws {
        let test = TestImageCache()
        let invert = Inverting()
        let plain = (0..<6).map { $0.isMultiple(of: 2) ? test.cache.slowGetImage(a) : test.cache.getImage(a) }
        let made = (0..<2).map { _ in test.cache.getImage(ImageRequest(a).processed(by: invert)) }
        let circle = test.cache.getImage(ImageRequest(a).processed(by: .circle))
        try await test.transport.nextTransfer().finish(with: try picture.png)
        for tasks in [plain, made, [circle]] {
            let first = try await tasks[0].value
            for task in tasks { #expect(try await task.value.storage === first.storage) }
        }
        #expect(try await plain[0].value.pixels == picture.pixels)
        #expect(try await made[0].value.pixels == picture.inverted)
        #expect(invert.count.value == 1 && test.decoder.decodes == 1 && test.transport.transfers.count == 1)
    }

    @Test("a picture on disk is decoded once, whichever threads ask for it at any moment", arguments: [false, true])
    func onDisk(isProcessed: Bool) async throws {
        let request = isProcessed ? processed : ImageRequest(a)
        var test = self.test
        try test.script(a, picture)
        _ = try await test.cache.getImage(request).value
        for round in 0..<6 {
            test = await test.reopened()
            let (tasks, cache) = (Box<[ImageTask]>([]), test.cache)
            await withTaskGroup { group in
                for _ in 0..<8 {
                    group.addTask {
                        for _ in 0..<25 {
                            let task = cache.getImage(request)
                            tasks.update { $0.append(task) }
                        }
                    }
                }
            }
            var images: [Image] = []
            for task in tasks.value { images.append(try await task.value) }
            #expect(images.allSatisfy { $0.storage === images[0].storage }, "round \(round)")
            #expect(test.decoder.decodes == 1 && test.transport.transfers.isEmpty, "round \(round)")
        }
    }

    // MARK: Calls that want different things kept

    @Test("what one of those who share a fetch wants on disk is there, whoever came first", arguments: [false, true])
    func fetchJoined(isPlain: Bool) async throws {
        let first = isPlain ? processed.with(\.keepsOriginal, false) : processed.with(\.cachePolicy, .memoryOnly)
        let second = isPlain ? ImageRequest(a) : processed.with(\.waitsForDiskWrite, true)
        let one = test.cache.getImage(first)
        let transfer = try await test.transport.nextTransfer()
        let two = test.cache.getImage(second)
        try await two.hasLooked()
        transfer.finish(with: try picture.png)
        for task in [one, two] { _ = try await task.value }
        await test.cache.idle()
        #expect(test.cache.data.hasData(for: a) && test.cache.hasProcessedImage(for: processed))
        #expect(test.transport.transfers(of: a).count == 1)
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
    }

    @Test(
        "who joins a call that keeps nothing has the picture kept, and on disk when it waits for that",
        arguments: [DataRequest.CachePolicy.bypass, .memoryOnly], [false, true])
    func decodeJoined(policy: DataRequest.CachePolicy, isDurable: Bool) async throws {
        let test = TestImageCache(folder: TemporaryFolder(), decoder: CountingDecoder(isHeld: true))
        try test.script(a, picture)
        let one = test.cache.getImage(ImageRequest(a).with(\.cachePolicy, policy))
        try await test.decoder.waitForDecodes(1)
        var request = ImageRequest(a).with(\.waitsForDiskWrite, isDurable)
        if isDurable { request.durability = .durable }
        let two = test.cache.getImage(request)
        try await two.hasLooked()
        test.decoder.releaseAll()
        for task in [one, two] { _ = try await task.value }
        if isDurable { #expect(test.cache.data.entry(for: CacheKey(a)) != nil) }
        await test.cache.idle()
        #expect(test.cache.hasImage(for: a))
    }

    @Test("of two sizes of one picture that is not kept itself, both are kept")
    func twoSizes() async throws {
        try test.script(a, picture)
        let requests = [2, 3].map { size in
            ImageRequest(a).processed(by: .downsample(width: size, height: size)).with(\.keepsOriginal, false)
                .with(\.waitsForDiskWrite, true).with(\.durability, .durable)
        }
        for task in requests.map({ test.cache.getImage($0) }) { _ = try await task.value }
        await test.cache.idle()
        for request in requests { #expect(test.cache.hasProcessedImage(for: request)) }
        #expect(test.cache.data.diskCount == 2 && !test.cache.data.hasData(for: a))
    }
}
