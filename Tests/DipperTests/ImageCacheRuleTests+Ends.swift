import DipperTesting
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import Dipper

extension ImageCacheRuleTests {
    // MARK: Shutdown

    @Test("shutdown waits for a picture that a queue of the program's own is writing")
    func waitsForWrite() async throws {
        let folder = TemporaryFolder()
        let gate = EncodingGate()
        let test = TestImageCache(folder: folder) { $0.options.serializer = gate.serializer }
        test.transport.script(a, [.body(try picture.png)])
        let request = ImageRequest(a).processed(by: Inverting())
            .with(\.processingQueue, .dispatch(DispatchQueue(label: "own"))).with(\.waitsForDiskWrite, true)
        let task = test.cache.getImage(request)
        try #require(await settle { gate.entered.value == 1 })
        let hasEnded = Box(false)
        let cache = test.cache
        let end = Task {
            await cache.shutdown()
            hasEnded.update { $0 = true }
        }
        #expect(await task.error == .cancelled)
        #expect(await stays { !hasEnded.value })
        gate.open()
        await end.value
        let again = TestImageCache(folder: folder)
        #expect(again.cache.hasProcessedImage(for: request))
        await again.cache.shutdown()
    }

    @Test("a shared data cache outlives one of two image caches; shutting down twice at once is fine")
    func sharedOriginals() async throws {
        let transport = ScriptedTransport()
        let folder = TemporaryFolder()
        var configuration = DataCache.Configuration(directory: folder.url)
        configuration.transport = transport
        configuration.callbackQueue = .inPlace
        let data = DataCache(configuration)
        transport.script(a, [.body(try picture.png)])
        let one = TestImageCache { $0.originals = data }, two = TestImageCache { $0.originals = data }
        _ = try await one.cache.getImage(ImageRequest(a).processed(by: Inverting())).value
        let open = one.cache.getImage(b)
        let cache = one.cache
        async let first: Void = cache.shutdown()
        async let second: Void = cache.shutdown()
        _ = await (first, second)
        #expect(await open.error == .cancelled)
        #expect(await one.cache.getImage(a).error == .shutDown)
        #expect(try await two.cache.getImage(a).value.pixels == picture.pixels)
        await data.synchronize()
        #expect(data.diskCount == 2)
        await two.cache.shutdown()
        await data.shutdown()
    }

    @Test("everything goes with the last reference to the cache, also with tasks and pictures held")
    func freed() async throws {
        // A picture that moves holds its decoder.
        let hasGIF = CodecRegistry.standard.readable.contains(.gif)
        let moving = try Pictures.data(hasGIF ? "gif/keep.gif" : "jpeg/420.jpg")
        weak var objects: ImageObjects?
        weak var weakTask: ImageTask?
        var held: [Image] = []
        var tasks: [ImageTask] = []
        do {
            let test = TestImageCache(folder: TemporaryFolder())
            objects = test.cache.objects
            test.transport.script(a, [.body(try picture.png)])
            test.transport.script(b, [.body(moving)])
            for address in [a, b] {
                let task = test.cache.getImage(ImageRequest(address).with(\.showsPreviews, true))
                held.append(try await task.value)
                tasks.append(task)
                let other = test.cache.getImage(ImageRequest(address).processed(by: Inverting()))
                _ = try await other.value
                weakTask = other
            }
            tasks.append(test.cache.getImage(url("open")))
            tasks.append(test.cache.slowGetImage(url("later")))
        }
        #expect(await settle { objects == nil && weakTask == nil })
        #expect(await tasks[2].error == .cancelled)
        #expect(await tasks[3].error == .cancelled)
        #expect(!held.isEmpty)
    }

    // MARK: Stress

    @Test("many tasks over few pictures, with everything that can happen to them: each ends once, and queues are free")
    func stress() async throws {
        let date = ManualDate()
        let test = TestImageCache(folder: TemporaryFolder(), date: date) { $0.decodingThreads = 3 }
        let (cache, clock) = (test.cache, test.clock)
        let headers: HTTPHeaders = ["Cache-Control": "max-age=60, stale-while-revalidate=600", "ETag": "\"1\""]
        let files = try (0..<8).map { try Image.sample(20, 20, seed: UInt8($0 + 1)).png }
        for index in 0..<8 {
            let good = ScriptedTransport.Step.response(TransferResponse(headers: headers, body: files[index]))
            let steps: [ScriptedTransport.Step] =
                switch index {
                case 0: [.status(503), good, .status(503), good]
                case 1: [.body(Data("rubbish".utf8)), good, .body(Data("rubbish".utf8)), good]
                case 2: [.failure(.connectionLost), good]
                case 3: [.status(404), good]
                default: [good]
                }
            test.transport.script(url("s\(index)"), steps)
        }
        let running = Box(true)
        let ticker = Task {
            while running.value {
                _ = clock.advanceToNextSleeper()
                await Task.yield()
            }
        }
        let ends = Box<[Int: Int]>([:])
        let told = Box(0)
        let all = Box<[ImageTask]>([])
        await withTaskGroup(of: Void.self) { group in
            for worker in 0..<4 {
                group.addTask {
                    var random = SystemRandomNumberGenerator()
                    for step in 0..<400 {
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
                        let number = worker * 1_000 + step
                        let task =
                            switch Int.random(in: 0..<5, using: &random) {
                            case 0, 1: cache.slowGetImage(request)
                            case 2: cache.getRemoteImage(request)
                            default: cache.getImage(request)
                            }
                        task.onEnd { _ in ends.update { $0[number, default: 0] += 1 } }
                        task.onFail { _, isFatal in if isFatal { told.update { $0 += 1 } } }
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
        #expect(await settle { ends.value.count == 1_600 })
        let stuck = all.value.filter { $0.answer == nil }
        #expect(ends.value.count == 1_600, "stuck: \(stuck.map { "\($0.key) \($0.state) \($0.queue)" })")
        #expect(ends.value.values.allSatisfy { $0 == 1 })
        #expect(await settle { cache.data.queueCounts == QueueCounts() && cache.objects.requestCount() == 0 })
        #expect(cache.data.queueCounts == QueueCounts(), "\(cache.data.queueCounts)")
        #expect(cache.objects.requestCount() == 0)
        test.transport.script(url("after"), [.body(files[0])])
        let after = cache.slowGetImage(ImageRequest(url("after")).processed(by: Inverting("after")))
        #expect(await settle { after.state == .finished })
        #expect(after.state == .finished, "\(after.state)")
        // What is there is right.
        for index in 4..<8 {
            let image = try await cache.getImage(url("s\(index)")).value
            #expect(image.pixels == Image.sample(20, 20, seed: UInt8(index + 1)).pixels)
        }
        running.update { $0 = false }
        await ticker.value
        await cache.shutdown()
    }

    @Test("shutting down in the middle of everything: all tasks end")
    func stressShutdown() async throws {
        for round in 0..<15 {
            let test = TestImageCache(folder: TemporaryFolder()) { $0.decodingThreads = 1 + round % 4 }
            let cache = test.cache
            let file = try Image.sample(60, 60).png
            for index in 0..<6 { test.transport.script(url("s\(index)"), [.body(file)]) }
            let ends = Box(0)
            let tasks = Box<[ImageTask]>([])
            await withTaskGroup(of: Void.self) { group in
                for worker in 0..<3 {
                    group.addTask {
                        for step in 0..<60 {
                            var request = ImageRequest(url("s\((step + worker) % 6)"))
                            if step % 2 == 0 { request = request.processed(by: Inverting("\(step)")) }
                            if step % 5 == 0 { request.waitsForDiskWrite = true }
                            let task = step % 3 == 0 ? cache.slowGetImage(request) : cache.getImage(request)
                            task.onEnd { _ in ends.update { $0 += 1 } }
                            tasks.update { $0.append(task) }
                            if step % 7 == 0 { await Task.yield() }
                        }
                    }
                }
                group.addTask {
                    for _ in 0..<round * 20 { await Task.yield() }
                    await cache.shutdown()
                }
            }
            #expect(await settle { ends.value == 180 })
            #expect(ends.value == 180, "round \(round): \(ends.value)")
        }
    }
}
