import Dipper
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
        let request = ImageRequest(a).inverted.with(\.processingQueue, .dispatch(DispatchQueue(label: "own")))
            .with(\.waitsForDiskWrite, true)
        let task = test.cache.getImage(request)
        try await held.entered.wait { $0 == 1 }
        let end = Task { [cache = test.cache] in await cache.shutdown() }
        #expect(await task.error == .cancelled)
        held.stayOpen()
        await end.value
        let again = TestImageCache(folder: folder)
        #expect(again.cache.hasProcessedImage(for: request))
    }

    @Test("a shared data cache outlives one of two image caches; shutting down twice at once is fine")
    func sharedOriginals() async throws {
        let data = TestCache(folder: TemporaryFolder())
        data.transport.script(a, [.body(try picture.png)])
        let one = TestImageCache { $0.originals = data.cache }, two = TestImageCache { $0.originals = data.cache }
        _ = try await one.cache.getImage(ImageRequest(a).inverted).value
        let open = one.cache.getImage(b)
        let cache = one.cache
        async let first: Void = cache.shutdown()
        async let second: Void = cache.shutdown()
        _ = await (first, second)
        #expect(await open.error == .cancelled)
        #expect(await one.error(a) == .shutDown)
        #expect(try await two.pixels(a) == picture.pixels)
        await data.cache.idle()
        #expect(data.cache.diskCount == 2)
    }

    @Test("letting go of the last reference ends the cache: open calls are cancelled, and the folder is complete")
    func released() async throws {
        let folder = TemporaryFolder()
        let isReleased = Box(false)
        var held: [Image] = []
        var open: [ImageTask] = []
        do {
            let canary = Canary(isReleased)
            let test = TestImageCache(folder: folder) { $0.data.observe { _ in withExtendedLifetime(canary) {} } }
            try test.script(a, picture)
            for request in [ImageRequest(a), ImageRequest(a).inverted] {
                held.append(try await test.cache.getImage(request).value)
            }
            open = [test.cache.getImage(url("open")), test.cache.slowGetImage(url("later"))]
        }
        for task in open { #expect(await task.error == .cancelled) }
        try await isReleased.wait { $0 }
        let again = TestImageCache(folder: folder)
        #expect(again.cache.hasImage(for: a) && again.cache.hasProcessedImage(for: ImageRequest(a).inverted))
        #expect(held[0].pixels == picture.pixels)
    }

    // MARK: Many calls

    private static func sample(_ index: Int) -> Image { .sample(20, 20, seed: UInt8(index + 1)) }

    /// Makes 600 calls over eight pictures, of which four can be had at once. Returns how often each call has ended.
    private func makeCalls(
        _ test: TestImageCache, beside action: @escaping @Sendable () async -> Void = {}
    ) async throws -> Box<[Int: Int]> {
        let (cache, date) = (test.cache, test.date)
        let headers: HTTPHeaders = ["Cache-Control": "max-age=60, stale-while-revalidate=600", "ETag": "\"1\""]
        let rubbish = ScriptedTransport.Step.body(Data("rubbish".utf8))
        for index in 0..<8 {
            let good = try ScriptedTransport.Step.image(Self.sample(index), headers: headers)
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
                    var random = SeededRandom(UInt64(worker))
                    func number(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &random) }
                    for step in 0..<150 {
                        let address = url("s\(number(8))")
                        var request = ImageRequest(address)
                        if number(2) == 0 { request = request.processed(by: Inverting("\(number(2))")) }
                        if number(4) == 0 { request = request.processed(by: .downsample(width: 10, height: 10)) }
                        if number(6) == 0 { request.waitsForDiskWrite = true }
                        if number(8) == 0 { request.cachePolicy = DataRequest.CachePolicy.allCases[number(6)] }
                        let other = all.value.isEmpty ? nil : all.value[number(all.value.count)]
                        switch number(40) {
                        case 0: cache.clear()
                        case 1: cache.clearMemory()
                        case 2: cache.removeImage(for: address)
                        case 3: cache.removeVariant(for: request)
                        case 4: date.advance(by: 50)
                        case 5: _ = cache.image(for: request)
                        case 6: cache.moveTaskToSlowQueue(address)
                        case 7: cache.cancel(address)
                        case 8: other?.priority = .high
                        default: break
                        }
                        let task =
                            switch number(5) {
                            case 0, 1: cache.slowGetImage(request)
                            case 2: cache.getRemoteImage(request)
                            default: cache.getImage(request)
                            }
                        task.onEnd { _ in ends.update { $0[worker * 1_000 + step, default: 0] += 1 } }
                        all.update { $0.append(task) }
                        switch number(8) {
                        case 0: task.cancel()
                        case 1: task.moveToSlowQueue()
                        case 2: other?.cancel()
                        case 3: other?.moveToSlowQueue()
                        default: break
                        }
                        if step % 7 == 0 { await Task.yield() }
                    }
                }
            }
            group.addTask { await action() }
        }
        return ends
    }

    @Test("shutting down in the middle of everything: all tasks end", arguments: 0..<4)
    func shutdownAmidst(round: Int) async throws {
        let test = TestImageCache(folder: TemporaryFolder()) { $0.decodingThreads = 1 + round }
        let ends = try await makeCalls(test) { [cache = test.cache] in
            for _ in 0..<round * 40 { await Task.yield() }
            await cache.shutdown()
        }
        try await ends.wait { $0.count == 600 }
        #expect(ends.value.values.allSatisfy { $0 == 1 })
    }

    @Test("a task that is kept, also one with previews, keeps no cache alive", arguments: [false, true])
    func keptTask(isOnDisk: Bool) async throws {
        let isReleased = Box(false)
        var tasks: [ImageTask] = []
        do {
            let notice = Canary(isReleased)
            let test = TestImageCache(folder: isOnDisk ? TemporaryFolder() : nil) {
                $0.data.observe { _ in withExtendedLifetime(notice) {} }
            }
            let address = url("progressive.jpg")
            test.transport.script(address, [.body(ProgressivePhoto.file)])
            let request = ImageRequest(address).with(\.showsPreviews, true)
            for isFirst in [true, false] {
                tasks.append(test.cache.getImage(request))
                _ = try await tasks.last?.value
                if isFirst { await test.forgetMemory() }
            }
        }
        try await isReleased.wait { $0 }
        #expect(tasks.allSatisfy { $0.state == .finished })
    }
}
