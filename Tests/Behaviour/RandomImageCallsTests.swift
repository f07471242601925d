import TestSupport
import Testing

@Suite("Random calls for pictures from eight threads", .timeLimit(.minutes(timeLimit(10))))
struct RandomImageCallsTests {
    /// The pictures that the server has, one for each kind of answer.
    private static let pictures = (0..<12).map { Image.sample(4, 4, seed: UInt8($0)) }
    /// How often each call has ended, and the sizes of pictures that are none of these.
    private let ends = Box<[Int]>([]), wrong = Box<[String]>([])

    /// Makes calls from eight threads, and returns when they have been made.
    private func makeCalls(
        _ count: Int, _ cache: ImageCache, seed: Int, date: ManualDate? = nil, beside action: () async -> Void = {}
    ) async throws {
        let tasks = Box<[ImageTask]>([])
        try await onEightThreads(beside: action) { [ends, wrong] number in
            ImageCaller(cache, tasks, ends, wrong, Self.pictures, date, seed: seed * 8 + number).call(count / 8)
        }
    }

    private func expectEnds() {
        let bad = ends.value.filter { $0 != 1 }
        #expect(
            bad.isEmpty && wrong.value.isEmpty, "of \(ends.value.count): \(bad.prefix(9)), \(wrong.value.prefix(9))")
    }

    @Test(
        "each call ends once, with a picture that the server or the program had, and nothing is left to do",
        arguments: [false, true])
    func randomCalls(isOnDisk: Bool) async throws {
        let files = try Self.pictures.map { try $0.png }
        let seed = isOnDisk ? 11 : 10
        let transport = LivelyTransport(seed) { kind in kind == 8 ? Data("no picture".utf8) : files[kind] }
        let test = TestImageCache(folder: isOnDisk ? TemporaryFolder() : nil) {
            $0.memoryLimit = 60_000
            $0.undecodedBytes = 2_000
            $0.data.transport = transport
            $0.data.clock = ContinuousClock()
            $0.data.retryPolicy = .fixed(.milliseconds(2), retries: 1)
        }
        try await makeCalls(workload(10_000), test.cache, seed: seed)
        await test.cache.idle()
        expectEnds()
        #expect(test.cache.data.queueCounts == QueueCounts())
        // Nothing holds prefetches back any more.
        let last = test.cache.slowGetImage(ImageRequest(url("last")).with(\.cachePolicy, .bypass))
        _ = await last.result
        await test.cache.shutdown()
    }

    @Test("shutting down in the middle of everything: all tasks end, once", arguments: 0..<4)
    func shutdownAmidst(round: Int) async throws {
        let test = TestImageCache(folder: TemporaryFolder()) { $0.decodingThreads = 1 + round }
        let headers: HTTPHeaders = ["Cache-Control": "max-age=60, stale-while-revalidate=600", "ETag": "\"1\""]
        let rubbish = ScriptedTransport.Step.body(Data("rubbish".utf8))
        for index in 0..<8 {
            let good = try ScriptedTransport.Step.image(Self.pictures[index], headers: headers)
            let steps: [ScriptedTransport.Step] =
                switch index {
                case 0: [.status(503), good, .status(503), good]
                case 1: [rubbish, good, rubbish, good]
                case 2: [.failure(.connectionLost), good]
                case 3: [.status(404), good]
                default: [good]
                }
            test.transport.script(url("\(index)"), steps)
        }
        let count = workload(600)
        try await makeCalls(count, test.cache, seed: round, date: test.date) {
            try? await ends.wait { $0.count >= count * round / 4 }
            await test.cache.shutdown()
        }
        try await ends.wait { $0.allSatisfy { $0 > 0 } }
        expectEnds()
    }
}

private final class ImageCaller: @unchecked Sendable {
    private let cache: ImageCache
    /// Calls of all threads.
    private let tasks: Box<[ImageTask]>
    private let ends: Box<[Int]>
    private let wrong: Box<[String]>
    private let pictures: [Image]
    private let date: ManualDate?
    private let chains: [([any ImageProcessor], Set<[UInt8]>)]
    private var random: SeededRandom

    init(
        _ cache: ImageCache, _ tasks: Box<[ImageTask]>, _ ends: Box<[Int]>, _ wrong: Box<[String]>, _ pictures: [Image],
        _ date: ManualDate?, seed: Int
    ) {
        (self.cache, self.tasks, self.ends, self.wrong) = (cache, tasks, ends, wrong)
        (self.pictures, self.date) = (pictures, date)
        random = SeededRandom(UInt64(seed))
        // A target that leaves the pictures as they are.
        let target: any ImageProcessor = .downsample(width: 4, height: 4)
        let steps: [[any ImageProcessor]] = [
            [], [Inverting()], [Inverting(), Inverting("again")], [target, Inverting()],
        ]
        chains = steps.map { steps in
            let made = pictures.compactMap {
                try? ImageProcessors.Chain(steps).process($0, ProcessingContext(limits: DecodeLimits())).pixels
            }
            return (steps, Set(made))
        }
    }

    func call(_ count: Int) {
        for _ in 0..<count { step() }
    }

    private func step() {
        // Calls that a shutdown ends are for few pictures, which often leave memory and disk.
        let isCrowded = date != nil
        let address = url("\(random.below(isCrowded ? 8 : 40))")
        let (steps, expected) = chains[random.below(4)]
        var request = ImageRequest(address)
        let policies = DataRequest.CachePolicy.allCases
        request.cachePolicy =
            random.chance(4) ? .ignoreCache : random.chance(4) ? policies[random.below(policies.count)] : .useCache
        if !steps.isEmpty { request.processors = steps }
        if random.chance(6) { request.keepsOriginal = false }
        if random.chance(16) { request.waitsForDiskWrite = true }
        let other = tasks.value.randomElement(using: &random)
        switch random.below(26) {
        case 0: cache.removeImage(for: address)
        case 1: cache.moveTaskToSlowQueue(address)
        case 2: if random.chance(8) { cache.cancel(address) }
        case 3: if random.chance(200) { cache.cancelAll() }
        case 4: other?.cancel()
        case 5: other?.moveToSlowQueue()
        case 6: other?.priority = random.chance(2) ? .high : .low
        case 7: if let other { _ = (other.state, other.queue, other.attempts) }
        case 8: if random.chance(4) { cache.removeVariant(for: request) }
        case 9: if steps.isEmpty, random.chance(4) { try? cache.addImage(pictures[random.below(12)], for: address) }
        case 10: check(cache.readImage(for: request), expected)
        case 11: if isCrowded || random.chance(100) { cache.clear() }
        case 12: if isCrowded || random.chance(20) { cache.clearMemory() }
        case 13: date?.advance(by: 50)
        default: break
        }
        let task =
            switch random.below(6) {
            case 0, 1: cache.slowGetImage(request)
            case 2: cache.getRemoteImage(request)
            default: cache.getImage(request)
            }
        ends.count(endsOf: task)
        task.then { [self] image in check(image, expected) }
        // The calls of all threads that are open at a time.
        tasks.update { tasks in
            tasks.append(task)
            if tasks.count > 320 { tasks.removeFirst(20) }
        }
        if random.chance(64) { usleep(UInt32(random.below(2_000))) }
    }

    private func check(_ image: Image?, _ expected: Set<[UInt8]>) {
        guard let image, !expected.contains(image.pixels) else { return }
        wrong.update { $0.append("\(image.size)") }
    }
}
