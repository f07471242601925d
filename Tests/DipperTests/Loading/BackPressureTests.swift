import DipperTesting
import FaultServer
import Foundation
import TestSupport
import Testing

@testable import Dipper
@testable import DipperData

@Suite("What is fetched waits for the decoder", .timeLimit(.minutes(5)))
struct BackPressureTests {
    private let picture = Image.sample()

    /// A cache on a real network.
    private func cache(_ change: (inout ImageCache.Configuration) -> Void) -> ImageCache {
        var configuration = ImageCache.Configuration()
        configuration.data.logger.logLevel = .critical
        configuration.data.callbackQueue = .inPlace
        configuration.data.memoryPressure = nil
        change(&configuration)
        return ImageCache(configuration)
    }

    @Test("of a hundred urgent pictures no more wait for a slow decoder than the limit and what was on its way")
    func urgent() async throws {
        let png = try picture.png
        let names = (0..<100).map { "/\($0).png" }
        let server = try await FaultServer.start(files: Dictionary(uniqueKeysWithValues: names.map { ($0, png) }))
        let decoder = CountingDecoder(isHeld: true)
        let cache = cache {
            $0.codecs.register(decoder)
            $0.decodingThreads = 1
            $0.undecodedBytes = 10 * png.count
            $0.data.fastQueue.maxConcurrent = 4
        }
        cache.data.fastQueue.isSuspended = true
        let tasks = names.map { cache.getImage(server.url($0)) }
        cache.data.fastQueue.isSuspended = false
        var most = 0
        for decoded in names.indices {
            // The network has done all that it may, and the decoder has the next picture in hand.
            try #require(await settle { decoder.decodes == decoded + 1 && cache.data.queueCounts.fastRunning == 0 })
            most = max(most, server.requests.count - decoded)
            decoder.release()
        }
        // Four are on their way, and as many may have come while their word that the limit is reached was passed on.
        #expect(most >= 10 && most <= 10 + 2 * 4)
        for task in tasks { #expect(try await task.value.pixels == picture.pixels) }
        #expect(server.requests.count == 100 && cache.backlog.used == 0)
        await cache.shutdown()
        await server.stop()
    }

    @Test("prefetches leave half of the limit to urgent pictures")
    func prefetches() async throws {
        let png = try picture.png
        let decoder = CountingDecoder(isHeld: true)
        let test = TestImageCache(decoder: decoder) {
            $0.decodingThreads = 1
            $0.undecodedBytes = 8 * png.count
        }
        func script(_ names: [String]) -> [URL] {
            let urls = names.map { url($0) }
            for url in urls { test.transport.script(url, [.body(png)]) }
            return urls
        }
        let later = script((0..<20).map { "later\($0)" }).map { test.cache.slowGetImage($0) }
        #expect(test.transport.transfers.count == 4)
        let now = script((0..<3).map { "now\($0)" }).map { test.cache.getImage($0) }
        #expect(test.transport.transfers.count == 7)
        for _ in later.indices { decoder.release() }
        for _ in now.indices { decoder.release() }
        for task in later + now { _ = try await task.value }
        #expect(test.transport.transfers.count == 23 && test.cache.backlog.used == 0)
        await test.cache.shutdown()
    }

    @Test("files on disk wait for the decoder as well, and those of prefetches at half of the limit")
    func onDisk() async throws {
        let png = try picture.png
        let folder = TemporaryFolder()
        let names = (0..<40).map { url("\($0)") }
        let first = TestCache(folder: folder)
        for name in names { try await first.cache.addDataAndWait(png, for: DataRequest(name)) }
        await first.cache.shutdown()
        let decoder = CountingDecoder(isHeld: true)
        let test = TestImageCache(folder: folder, decoder: decoder) {
            $0.decodingThreads = 1
            $0.undecodedBytes = 8 * png.count
        }
        let cache = test.cache
        let later = names[20...].map { cache.slowGetImage($0) }
        // Each of the two threads that read may have begun before it was told.
        #expect(await settle { cache.backlog.used >= 4 * png.count })
        #expect(await stays { cache.backlog.used <= (4 + 2) * png.count })
        let now = names[..<20].map { cache.getImage($0) }
        #expect(await settle { cache.backlog.used >= 8 * png.count })
        #expect(await stays { cache.backlog.used <= (8 + 2) * png.count })
        for _ in names { decoder.release() }
        for task in later + now { #expect(try await task.value.pixels == picture.pixels) }
        #expect(cache.backlog.used == 0 && test.transport.transfers.isEmpty)
        await cache.shutdown()
    }

    @Test("a file that may be out of date does not hold back the fetch that it waits for")
    func outdated() async throws {
        let test = TestImageCache(folder: TemporaryFolder()) { $0.undecodedBytes = 1 }
        let response = TransferResponse(headers: ["Cache-Control": "max-age=60"], body: try picture.png)
        test.transport.script(url("a"), [.response(response), .response(response)])
        let request = ImageRequest(url("a")).processed(by: Inverting())
        _ = try await test.cache.getImage(request).value
        await test.cache.synchronize()
        test.cache.clearMemory()
        test.date.advance(by: 100)
        #expect(try await test.cache.getImage(request).response.source == .network)
        #expect(test.cache.backlog.used == 0)
        await test.cache.shutdown()
    }

    @Test("pictures larger than the whole limit are delivered, urgent ones and prefetches")
    func larger() async throws {
        let test = TestImageCache { $0.undecodedBytes = 1 }
        let urls = (0..<20).map { url("\($0)") }
        for url in urls { test.transport.script(url, [.body(try picture.png)]) }
        let tasks = urls.enumerated().map { number, url in
            number % 2 == 0 ? test.cache.getImage(url) : test.cache.slowGetImage(url)
        }
        for task in tasks { #expect(try await task.value.pixels == picture.pixels) }
        #expect(test.cache.backlog.used == 0)
        await test.cache.shutdown()
    }

    @Test("what waits in the decoder is given back once, however it ends")
    func givenBack() async throws {
        let png = try picture.png
        let decoder = CountingDecoder(isHeld: true)
        let parked = Box<[@Sendable () -> Void]>([])
        let test = TestImageCache(decoder: decoder) {
            $0.decodingThreads = 1
            $0.undecodedBytes = 2 * png.count
        }
        let own = CallbackQueue.custom { work in parked.update { $0.append(work) } }
        for name in ["held", "waits", "broken", "elsewhere", "given up", "after"] {
            test.transport.script(url(name), [.body(name == "broken" ? Data("no picture".utf8) : png)])
        }
        // In the decoder, and behind it.
        let held = test.cache.getImage(url("held"))
        #expect(await settle { decoder.decodes == 1 })
        let waits = test.cache.getImage(url("waits"))
        let after = test.cache.getImage(url("after"))
        #expect(test.transport.transfers(of: url("after")).isEmpty, "the limit is reached")
        waits.cancel()
        #expect(await settle { !test.transport.transfers(of: url("after")).isEmpty })
        for task in [held, after] { task.cancel() }
        #expect(test.cache.backlog.used == 0)
        for _ in 0..<8 { decoder.release() }
        // On a queue of the caller's, one of them cancelled before it runs.
        let elsewhere = test.cache.getImage(ImageRequest(url("elsewhere")).with(\.processingQueue, own))
        let givenUp = test.cache.getImage(ImageRequest(url("given up")).with(\.processingQueue, own))
        #expect(await settle { parked.value.count == 2 })
        #expect(test.cache.backlog.used == 2 * png.count)
        givenUp.cancel()
        #expect(test.cache.backlog.used == png.count)
        for work in parked.value { work() }
        _ = try await elsewhere.value
        #expect(test.cache.backlog.used == 0)
        // What is no picture.
        #expect(await test.cache.getImage(url("broken")).error != nil)
        #expect(test.cache.backlog.used == 0)
        await test.cache.shutdown()
    }

    @Test("nothing is stuck when what was on its way is parked, or cancelled, while the limit is reached")
    func parked() async throws {
        let png = try picture.png
        let decoder = CountingDecoder(isHeld: true)
        let test = TestImageCache(decoder: decoder) {
            $0.undecodedBytes = png.count
            $0.data.fastQueue.maxConcurrent = 3
            $0.data.retryPolicy = .fixed(.seconds(1), retries: 3)
        }
        let urls = ["first", "parked", "cancelled", "last"].map { url($0) }
        let tasks = urls.map { test.cache.getImage($0) }
        var transfers: [ScriptedTransfer] = []
        while transfers.count < 3 { transfers.append(try await test.transport.nextTransfer()) }
        transfers[0].finish(with: png)
        // As the first one ended, the last one began in its place, before anybody knew how much is held.
        transfers.append(try await test.transport.nextTransfer())
        #expect(await settle { decoder.decodes == 1 })
        transfers[1].fail(with: .connectionLost)
        tasks[2].cancel()
        transfers[3].fail(with: .connectionLost)
        try await test.clock.waitForSleepers(1)
        test.clock.advance(by: .seconds(2))
        #expect(await settle { tasks[1].state == .waiting && tasks[3].state == .waiting })
        #expect(test.transport.transfers.count == 4, "the limit is reached")
        for _ in 0..<3 { decoder.release() }
        for _ in 0..<2 { try await test.transport.nextTransfer().finish(with: png) }
        for index in [0, 1, 3] { _ = try await tasks[index].value }
        #expect(await tasks[2].error == .cancelled)
        await test.cache.shutdown()
    }

    @Test("fetches of every data cache that is used wait, and go on when the image cache has gone")
    func dataCaches() async throws {
        let png = try picture.png
        let (own, other) = (TestCache(), TestCache())
        for name in ["a", "b", "c"] {
            for test in [own, other] { test.transport.script(url(name), [.body(png)]) }
        }
        do {
            let decoder = CountingDecoder(isHeld: true)
            var configuration = ImageCache.Configuration()
            configuration.originals = own.cache
            configuration.codecs.register(decoder)
            configuration.undecodedBytes = 1
            configuration.data.logger.logLevel = .critical
            let cache = ImageCache(configuration)
            let elsewhere = ImageRequest(url("a")).with(\.originals, other.cache)
            let first = cache.getImage(elsewhere)
            #expect(await settle { decoder.decodes == 1 })
            #expect(cache.backlog.count == 2)
            let next = [
                cache.getImage(url("b")), cache.getImage(ImageRequest(url("b")).with(\.originals, other.cache)),
            ]
            #expect(own.transport.transfers.isEmpty && other.transport.transfers.count == 1)
            // One that is used for the first time while the limit is reached.
            let third = TestCache()
            third.transport.script(url("c"), [.body(png)])
            let late = cache.getImage(ImageRequest(url("c")).with(\.originals, third.cache))
            #expect(third.transport.transfers.isEmpty)
            for _ in 0..<4 { decoder.release() }
            for task in next + [first, late] { _ = try await task.value }
            // The last words of a cache that goes away let go.
            let held = cache.getImage(url("c"))
            #expect(await settle { decoder.decodes == 5 })
            held.cancel()
            decoder.release()
            await cache.shutdown()
        }
        #expect(await own.cache.getData(url("c")).error == nil)
        #expect(await settle { own.cache.engine.inspect { $0.intake.holders.isEmpty } })
        #expect(await settle { other.cache.engine.inspect { $0.intake.holders.isEmpty } })
        await own.cache.shutdown()
        await other.cache.shutdown()
    }

    @Test("a data cache that has gone is not remembered")
    func gone() async throws {
        let test = TestImageCache()
        for number in 0..<10 {
            let other = TestCache()
            other.transport.script(url("\(number)"), [.body(try picture.png)])
            _ = try await test.cache.getImage(ImageRequest(url("\(number)")).with(\.originals, other.cache)).value
            await other.cache.shutdown()
        }
        let last = TestCache()
        last.transport.script(url("last"), [.body(try picture.png)])
        #expect(
            await settle {
                test.cache.backlog.follow(TestCache().cache)
                return test.cache.backlog.count <= 3
            })
        await last.cache.shutdown()
        await test.cache.shutdown()
    }
}
