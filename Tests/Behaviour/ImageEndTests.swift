import Dipper
import DipperData
import DipperTesting
import Dispatch
import Foundation
import TestSupport
import Testing

@Suite("The end of an image cache, and many calls at once", .timeLimit(.minutes(2)))
struct ImageEndTests {
    private let a = url("a.png"), b = url("b.png")
    private let picture = Image.sample()

    @Test("shutdown ends open calls as cancelled and waits for a picture that is being written")
    func waitsForWrite() async throws {
        let folder = TemporaryFolder()
        let held = HeldSerializer()
        let test = TestImageCache(folder: folder) { $0.options.serializer = held.serializer }
        try test.script(a, picture)
        let request = ImageRequest(a).processed(by: Inverting())
            .with(\.processingQueue, .dispatch(DispatchQueue(label: "own"))).with(\.waitsForDiskWrite, true)
        let task = test.cache.getImage(request)
        try await held.entered.wait { $0 == 1 }
        let cache = test.cache
        let end = Task { await cache.shutdown() }
        #expect(await task.error == .cancelled)
        held.open()
        await end.value
        let again = TestImageCache(folder: folder)
        #expect(again.cache.hasProcessedImage(for: request))
        await again.cache.shutdown()
    }

    @Test("a shared data cache outlives one of two image caches; shutting down twice at once is fine")
    func sharedOriginals() async throws {
        let data = TestCache(folder: TemporaryFolder())
        data.transport.script(a, [.body(try picture.png)])
        let one = TestImageCache { $0.originals = data.cache }, two = TestImageCache { $0.originals = data.cache }
        _ = try await one.cache.getImage(ImageRequest(a).processed(by: Inverting())).value
        let open = one.cache.getImage(b)
        let cache = one.cache
        async let first: Void = cache.shutdown()
        async let second: Void = cache.shutdown()
        _ = await (first, second)
        #expect(await open.error == .cancelled)
        #expect(await one.cache.getImage(a).error == .shutDown)
        #expect(try await two.cache.getImage(a).value.pixels == picture.pixels)
        await data.cache.idle()
        #expect(data.cache.diskCount == 2)
        await two.cache.shutdown()
        await data.cache.shutdown()
    }

    @Test("letting go of the last reference ends the cache: open calls are cancelled, and the folder is complete")
    func released() async throws {
        let folder = TemporaryFolder()
        let isReleased = Box(false)
        var held: [Image] = []
        var open: [ImageTask] = []
        do {
            let notice = ReleaseNotice(isReleased)
            let test = TestImageCache(folder: folder) {
                $0.data.observe { _ in withExtendedLifetime(notice) {} }
            }
            try test.script(a, picture)
            held.append(try await test.cache.getImage(a).value)
            held.append(try await test.cache.getImage(ImageRequest(a).processed(by: Inverting())).value)
            open = [test.cache.getImage(url("open")), test.cache.slowGetImage(url("later"))]
        }
        for task in open { #expect(await task.error == .cancelled) }
        try await isReleased.wait { $0 }
        let again = TestImageCache(folder: folder)
        #expect(again.cache.hasImage(for: a) && held[0].pixels == picture.pixels)
        await again.cache.shutdown()
    }

    @Test("many calls over few pictures, with everything that can happen to them: each ends once, the queues are free")
    func manyCalls() async throws {
        let test = TestImageCache(folder: TemporaryFolder()) { $0.decodingThreads = 3 }
        let (cache, clock, date) = (test.cache, test.clock, test.date)
        let headers: HTTPHeaders = ["Cache-Control": "max-age=60, stale-while-revalidate=600", "ETag": "\"1\""]
        func picture(_ index: Int) -> Image { .sample(20, 20, seed: UInt8(index + 1)) }
        for index in 0..<8 {
            let good = try ScriptedTransport.Step.image(picture(index), headers: headers)
            let rubbish = ScriptedTransport.Step.body(Data("rubbish".utf8))
            let steps: [ScriptedTransport.Step] =
                switch index {
                case 0: [.status(503), good, .status(503), good]
                case 1: [rubbish, good, rubbish, good]
                case 2: [.failure(.connectionLost), good]
                case 3: [.status(404), good]
                default: [good]
                }
            test.transport.script(url("s\(index)"), steps)
        }
        let ends = Box<[Int: Int]>([:])
        let all = Box<[ImageTask]>([])
        await withTaskGroup(of: Void.self) { group in
            for worker in 0..<4 {
                group.addTask {
                    var random = SeededNumbers(state: UInt64(worker))
                    for step in 0..<150 {
                        let address = url("s\(Int.random(in: 0..<8, using: &random))")
                        var request = ImageRequest(address)
                        if Bool.random(using: &random) { request = request.processed(by: Inverting("s")) }
                        if Int.random(in: 0..<4, using: &random) == 0 {
                            request = request.processed(by: .downsample(width: 10, height: 10))
                        }
                        if Int.random(in: 0..<6, using: &random) == 0 { request.waitsForDiskWrite = true }
                        if Int.random(in: 0..<8, using: &random) == 0 {
                            request.cachePolicy = DataRequest.CachePolicy.allCases.randomElement(using: &random)
                        }
                        switch Int.random(in: 0..<40, using: &random) {
                        case 0: cache.clear()
                        case 1: cache.clearMemory()
                        case 2: cache.removeImage(for: address)
                        case 3: cache.removeImage(for: request)
                        case 4: date.advance(by: 50)
                        case 5: _ = cache.image(for: request)
                        case 6: cache.moveTaskToSlowQueue(address)
                        case 7: cache.cancel(address)
                        case 8: all.value.randomElement(using: &random)?.priority = .high
                        default: break
                        }
                        let task =
                            switch Int.random(in: 0..<5, using: &random) {
                            case 0, 1: cache.slowGetImage(request)
                            case 2: cache.getRemoteImage(request)
                            default: cache.getImage(request)
                            }
                        task.onEnd { _ in ends.update { $0[worker * 1_000 + step, default: 0] += 1 } }
                        all.update { $0.append(task) }
                        switch Int.random(in: 0..<8, using: &random) {
                        case 0: task.cancel()
                        case 1: task.moveToSlowQueue()
                        case 2: all.value.randomElement(using: &random)?.cancel()
                        case 3: all.value.randomElement(using: &random)?.moveToSlowQueue()
                        default: break
                        }
                        if step % 20 == 0 { await Task.yield() }
                    }
                }
            }
        }
        let stepping = Task {
            while !Task.isCancelled {
                try await clock.waitForSleepers(1)
                clock.advanceToNextSleeper()
            }
        }
        try await cache.idle(within: .seconds(60))
        stepping.cancel()
        #expect(ends.value.count == 600 && ends.value.values.allSatisfy { $0 == 1 })
        #expect(cache.data.queueCounts == QueueCounts())
        for index in 4..<8 {
            let image = try await cache.getImage(url("s\(index)")).value
            #expect(image.pixels == picture(index).pixels)
        }
        try test.script(url("after"), picture(0))
        let after = cache.slowGetImage(ImageRequest(url("after")).processed(by: Inverting("after")))
        #expect(await after.error == nil)
        await cache.shutdown()
    }

    @Test("shutting down in the middle of everything: all tasks end")
    func shutdownAmidst() async throws {
        for round in 0..<4 {
            let test = TestImageCache(folder: TemporaryFolder()) { $0.decodingThreads = 1 + round % 4 }
            let cache = test.cache
            for index in 0..<6 { try test.script(url("s\(index)"), .sample(60, 60)) }
            let ends = Box(0)
            await withTaskGroup(of: Void.self) { group in
                for worker in 0..<3 {
                    group.addTask {
                        for step in 0..<60 {
                            var request = ImageRequest(url("s\((step + worker) % 6)"))
                            if step % 2 == 0 { request = request.processed(by: Inverting("\(step)")) }
                            if step % 5 == 0 { request.waitsForDiskWrite = true }
                            let task = step % 3 == 0 ? cache.slowGetImage(request) : cache.getImage(request)
                            task.onEnd { _ in ends.update { $0 += 1 } }
                            if step % 7 == 0 { await Task.yield() }
                        }
                    }
                }
                group.addTask {
                    for _ in 0..<round * 40 { await Task.yield() }
                    await cache.shutdown()
                }
            }
            try await ends.wait { $0 == 180 }
        }
    }
}
