import Dipper
import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Limits on the memory of decodes, and fetches that wait for the decoder", .timeLimit(.minutes(2)))
struct DecodeLimitTests {
    private let picture = Image.sample()

    // MARK: Decodes at a time

    /// A number of bytes for decodes, what is made of pictures of 40,000 bytes, and how many of them fit.
    enum Making: CaseIterable {
        case plain, inverted, small, tooLarge

        var budget: Int { self == .tooLarge ? 10_000 : 100_000 }

        var processors: [any ImageProcessor] {
            switch self {
            case .plain, .tooLarge: []
            case .inverted: [Inverting()]
            case .small: [.downsample(width: 60, height: 50, .stretch)]
            }
        }

        var fitting: Int {
            switch self {
            case .plain: 2
            // A processor makes a second picture beside the first.
            case .inverted: 1
            case .small: 4
            // A picture that is larger than the budget is made alone.
            case .tooLarge: 1
            }
        }
    }

    @Test("the cache makes as many pictures at a time as their pixels allow", arguments: Making.allCases)
    func atOnce(_ making: Making) async throws {
        let decoder = WatchedDecoder(isHeld: true)
        let test = TestImageCache {
            $0.codecs.register(decoder)
            $0.decodingThreads = 6
            $0.decodingMemory = making.budget
        }
        let tasks = try (0..<6).map { number in
            try test.script(url("\(number)"), .sample(100, 100))
            return test.cache.getImage(ImageRequest(url("\(number)")).with(\.processors, making.processors))
        }
        for made in 0..<6 {
            try await decoder.began.wait { $0.count >= min(6, made + making.fitting) }
            decoder.release()
        }
        for task in tasks { _ = try await task.value }
        #expect(decoder.most == making.fitting)
        await test.cache.shutdown()
    }

    @Test("a picture that is no longer wanted makes room for what waited behind it")
    func takenBack() async throws {
        let decoder = WatchedDecoder(isHeld: true)
        let test = TestImageCache {
            $0.codecs.register(decoder)
            $0.decodingThreads = 2
            $0.decodingMemory = 100_000
        }
        func get(_ name: String, _ height: Int, _ priority: Priority) async throws -> ImageTask {
            try test.script(url(name), .sample(100, height))
            let task = test.cache.getImage(ImageRequest(url(name)).with(\.priority, priority))
            try await test.passThrough()
            return task
        }
        let held = try await get("held", 150, .normal)
        try await decoder.began.wait { $0.count == 1 }
        let large = try await get("large", 250, .high), small = try await get("small", 100, .low)
        #expect(decoder.began.value.count == 1, "the large one is first, and does not fit")
        large.cancel()
        try await decoder.began.wait { $0.count == 2 }
        decoder.releaseAll()
        for task in [held, small] { _ = try await task.value }
        #expect(await large.error == .cancelled)
        await test.cache.shutdown()
    }

    @Test("what is to be written stays bounded, whatever is decoded meanwhile")
    func writes() async throws {
        let counts = Box((encoded: 0, ended: 0, most: 0))
        let test = TestImageCache(folder: TemporaryFolder()) {
            $0.decodingThreads = 1
            $0.options.serializer = ImageSerializer { image, _, codecs throws(DipperError) in
                counts.update { $0.encoded += 1 }
                return try codecs.encode(image, as: .png)
            }
        }
        let names = (0..<40).map { url("\($0)") }
        for name in names { try test.script(name, picture) }
        test.cache.data.fastQueue.isSuspended = true
        for name in names {
            test.cache.getImage(ImageRequest(name).processed(by: Inverting())).onEnd { _ in
                counts.update { $0 = ($0.encoded, $0.ended + 1, max($0.most, $0.ended + 1 - $0.encoded)) }
            }
        }
        test.cache.data.fastQueue.isSuspended = false
        await test.cache.idle()
        #expect(counts.value.most < 20, "\(counts.value)")
        #expect(test.cache.data.diskCount == 80)
        await test.cache.shutdown()
    }

    // MARK: Fetches that wait

    @Test("of a hundred urgent pictures no more wait for a slow decoder than the limit and what was on its way")
    func urgent() async throws {
        let size = try picture.png.count
        let test = TestImageCache(decoder: CountingDecoder(isHeld: true)) {
            $0.decodingThreads = 1
            $0.undecodedBytes = 10 * size
            $0.data.fastQueue.maxConcurrent = 4
        }
        let names = (0..<100).map { url("\($0)") }
        let tasks = names.map { test.cache.getImage($0) }
        let answering = Task { [transport = test.transport, png = try picture.png] in
            while true { try await transport.nextTransfer().finish(with: png) }
        }
        defer { answering.cancel() }
        var most = 0
        for decoded in names.indices {
            try await test.decoder.waitForDecodes(decoded + 1)
            most = max(most, test.transport.transfers.count - decoded)
            test.decoder.release()
        }
        // Some are on their way, and others may come while the word that the limit is reached is passed on.
        #expect(most < 50)
        for task in tasks { #expect(try await task.value.pixels == picture.pixels) }
        #expect(test.transport.transfers.count == 100)
        await test.cache.shutdown()
    }

    @Test("prefetches leave half of the limit to urgent pictures")
    func prefetches() async throws {
        let size = try picture.png.count
        let test = TestImageCache(decoder: CountingDecoder(isHeld: true)) {
            $0.decodingThreads = 1
            $0.undecodedBytes = 8 * size
        }
        func get(_ count: Int, _ name: String, _ get: (URL) -> ImageTask) throws -> [ImageTask] {
            try (0..<count).map { number in
                try test.script(url("\(name)\(number)"), picture)
                return get(url("\(name)\(number)"))
            }
        }
        let later = try get(20, "later") { test.cache.slowGetImage($0) }
        try await test.transport.waitForTransfers(4)
        let now = try get(3, "now") { test.cache.getImage($0) }
        try await test.transport.waitForTransfers(7)
        let first = test.transport.transfers.map { $0.request.url.path.hasPrefix("/now") }
        #expect(first == Array(repeating: false, count: 4) + Array(repeating: true, count: 3))
        test.decoder.releaseAll()
        for task in later + now { _ = try await task.value }
        #expect(test.transport.transfers.count == 23)
        await test.cache.shutdown()
    }

    @Test("files on disk wait for the decoder as well")
    func onDisk() async throws {
        let file = try picture.png
        let folder = TemporaryFolder()
        let names = (0..<40).map { url("\($0)") }
        let first = TestCache(folder: folder)
        for name in names { try first.cache.addData(file, for: name) }
        await first.cache.shutdown()
        let read = Box(0)
        let test = TestImageCache(folder: folder, decoder: CountingDecoder(isHeld: true)) {
            $0.decodingThreads = 1
            $0.undecodedBytes = 8 * file.count
            $0.data.observe { if $0.kind == .lookUpEnded(.disk) { read.update { $0 += 1 } } }
        }
        let tasks = names.map { test.cache.getImage($0) }
        var most = 0
        for decoded in names.indices {
            try await test.decoder.waitForDecodes(decoded + 1)
            most = max(most, read.value - decoded)
            test.decoder.release()
        }
        // Some reading threads may have begun before they were told.
        #expect(most <= 8 + 8)
        for task in tasks { #expect(try await task.value.pixels == picture.pixels) }
        #expect(read.value == 40 && test.transport.transfers.isEmpty)
        await test.cache.shutdown()
    }

    @Test("pictures larger than the whole limit are delivered: urgent ones, prefetches, and those that are out of date")
    func larger() async throws {
        let test = TestImageCache(folder: TemporaryFolder()) { $0.undecodedBytes = 1 }
        let urls = (0..<20).map { url("\($0)") }
        for url in urls { try test.script(url, picture, headers: ["Cache-Control": "max-age=60"]) }
        let tasks = urls.enumerated().map { number, url in
            number % 2 == 0 ? test.cache.getImage(url) : test.cache.slowGetImage(url)
        }
        for task in tasks { #expect(try await task.value.pixels == picture.pixels) }
        await test.cache.idle()
        test.cache.clearMemory()
        test.date.advance(by: 100)
        let outdated = ImageRequest(urls[0]).processed(by: Inverting())
        #expect(try await test.cache.getImage(outdated).response.source == .network)
        await test.cache.shutdown()
    }

    @Test("however a picture that waits for the decoder ends, the fetch that waits for it goes on")
    func givenBack() async throws {
        let parked = Box<[@Sendable () -> Void]>([])
        let own = CallbackQueue.custom { work in parked.update { $0.append(work) } }
        let test = TestImageCache(decoder: CountingDecoder(isHeld: true)) {
            $0.decodingThreads = 1
            $0.undecodedBytes = 1
        }
        func get(_ name: String, _ body: Data? = nil) throws -> ImageRequest {
            test.transport.script(url(name), [.body(try body ?? picture.png)])
            return ImageRequest(url(name))
        }
        // In the decoder, and cancelled there.
        let held = test.cache.getImage(try get("held"))
        try await test.decoder.waitForDecodes(1)
        let elsewhere = test.cache.getImage(try get("elsewhere").with(\.processingQueue, own))
        held.cancel()
        // On a queue of the program's own; the second is cancelled before it runs.
        try await parked.wait { $0.count == 1 }
        let givenUp = test.cache.getImage(try get("given up").with(\.processingQueue, own))
        test.decoder.releaseAll()
        parked.value[0]()
        #expect(await elsewhere.error == nil)
        try await parked.wait { $0.count == 2 }
        let broken = test.cache.getImage(try get("broken", Data("no picture".utf8)))
        givenUp.cancel()
        #expect(await broken.error == .unsupportedFormat)
        #expect(await test.cache.getImage(try get("last")).error == nil)
        for work in parked.value.dropFirst() { work() }
        for task in [held, givenUp] { #expect(await task.error == .cancelled) }
        await test.cache.shutdown()
    }

    @Test("nothing is stuck when what was on its way is parked, or cancelled, while the limit is reached")
    func parked() async throws {
        let png = try picture.png
        let test = TestImageCache(decoder: CountingDecoder(isHeld: true)) {
            $0.undecodedBytes = png.count
            $0.data.fastQueue.maxConcurrent = 3
            $0.data.retryPolicy = .fixed(.seconds(1), retries: 3)
        }
        let tasks = ["first", "parked", "cancelled"].map { test.cache.getImage(url($0)) }
        var transfers: [ScriptedTransfer] = []
        while transfers.count < 3 { transfers.append(try await test.transport.nextTransfer()) }
        transfers[0].finish(with: png)
        try await test.decoder.waitForDecodes(1)
        transfers[1].fail(with: .connectionLost)
        tasks[2].cancel()
        try await test.clock.waitForSleepers(1)
        test.clock.advance(by: .seconds(2))
        test.decoder.releaseAll()
        try await test.transport.nextTransfer().finish(with: png)
        for task in tasks.prefix(2) { _ = try await task.value }
        #expect(await tasks[2].error == .cancelled)
        #expect(test.transport.transfers(of: url("parked")).count == 2)
        await test.cache.shutdown()
    }

    @Test("fetches of every data cache that is used wait, and go on when the image cache has gone")
    func dataCaches() async throws {
        let order = Box<[String]>([])
        func note(_ configuration: inout DataCache.Configuration) {
            configuration.observe { event in
                if case .attemptBegan = event.kind { order.update { $0.append("\(event.key)") } }
            }
        }
        let own = TestCache(note), other = TestCache(note)
        for name in ["a", "b", "c"] {
            for test in [own, other] { test.transport.script(url(name), [.body(try picture.png)]) }
        }
        let decoder = CountingDecoder(isHeld: true)
        var configuration = ImageCache.Configuration()
        configuration.originals = own.cache
        configuration.codecs.register(decoder)
        configuration.undecodedBytes = 1
        configuration.data.logger.logLevel = .critical
        let cache = ImageCache(configuration)
        let first = cache.getImage(ImageRequest(url("a")).with(\.originals, other.cache))
        try await decoder.waitForDecodes(1)
        let next = [cache.getImage(url("b")), cache.getImage(ImageRequest(url("b")).with(\.originals, other.cache))]
        order.update { $0.append("released") }
        decoder.release(3)
        for task in [first] + next { _ = try await task.value }
        let (a, b) = ("\(CacheKey(url("a")))", "\(CacheKey(url("b")))")
        #expect(order.value == [a, "released", b, b])
        // A cache that goes while the limit is reached holds nothing up.
        let held = cache.getImage(url("c"))
        try await decoder.waitForDecodes(4)
        held.cancel()
        decoder.releaseAll()
        await cache.shutdown()
        for test in [own, other] {
            #expect(await test.cache.getRemoteData(url("c")).error == nil)
            await test.cache.shutdown()
        }
    }
}
