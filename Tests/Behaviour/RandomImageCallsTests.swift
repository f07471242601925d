import Dipper
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Random calls for pictures from eight threads", .timeLimit(.minutes(10)))
struct RandomImageCallsTests {
    /// The pictures that the server has, one for each kind of answer.
    private static let pictures = (0..<12).map { Image.sample(4, 4, seed: UInt8($0)) }

    @Test(
        "each call ends once, with a picture that the server or the program had, and nothing is left to do",
        arguments: [false, true])
    func randomCalls(isOnDisk: Bool) async throws {
        let files = try Self.pictures.map { try $0.png }
        let seed = isOnDisk ? 11 : 10
        let transport = LivelyTransport(seed) { kind in kind == 8 ? Data("no picture".utf8) : files[kind] }
        let folder = isOnDisk ? TemporaryFolder() : nil
        var configuration = ImageCache.Configuration(directory: folder?.url)
        configuration.memoryLimit = 60_000
        configuration.undecodedBytes = 2_000
        configuration.data.transport = transport
        configuration.data.networkMonitor = ManualNetwork()
        configuration.data.memoryPressure = nil
        configuration.data.retryPolicy = .fixed(.milliseconds(2), retries: 1)
        configuration.data.callbackQueue = .inPlace
        configuration.data.logger.logLevel = .critical
        let cache = ImageCache(configuration)
        let ends = Ends()
        let wrong = Box<[String]>([])
        let callers = Box(8)
        for number in 0..<8 {
            let caller = ImageCaller(cache, ends, wrong, Self.pictures, seed: seed * 8 + number)
            Thread.detachNewThread {
                caller.call(workload(10_000) / 8)
                callers.update { $0 -= 1 }
            }
        }
        try? await callers.wait(within: .seconds(540)) { $0 == 0 }
        await cache.idle()
        #expect(ends.once == ends.begun, "\(ends.begun) calls, \(ends.once) ended once, \(ends.again) again")
        #expect(ends.again == 0)
        #expect(wrong.value.isEmpty)
        #expect(cache.data.queueCounts == QueueCounts())
        // Nothing holds prefetches back any more.
        let last = cache.slowGetImage(ImageRequest(url("last")).with(\.cachePolicy, .bypass))
        _ = await last.result
        await cache.shutdown()
    }
}

private final class ImageCaller: @unchecked Sendable {
    private let cache: ImageCache
    private let ends: Ends
    private let wrong: Box<[String]>
    private let pictures: [Image]
    private let chains: [([any ImageProcessor], Set<[UInt8]>)]
    private var random: SeededRandom
    private var tasks: [ImageTask] = []

    init(_ cache: ImageCache, _ ends: Ends, _ wrong: Box<[String]>, _ pictures: [Image], seed: Int) {
        (self.cache, self.ends, self.wrong, self.pictures) = (cache, ends, wrong, pictures)
        random = SeededRandom(UInt64(seed))
        let steps: [[any ImageProcessor]] = [[], [Inverting()], [Inverting(), Inverting("again")]]
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
        let address = url("\(random.below(40))")
        let (steps, expected) = chains[random.below(3)]
        var request = ImageRequest(address)
        request.cachePolicy = random.chance(4) ? .ignoreCache : random.chance(10) ? .bypass : .useCache
        if !steps.isEmpty { request.processors = steps }
        if random.chance(6) { request.keepsOriginal = false }
        if random.chance(16) { request.waitsForDiskWrite = true }
        switch random.below(24) {
        case 0: cache.removeImage(for: address)
        case 1: cache.moveTaskToSlowQueue(address)
        case 2: if random.chance(8) { cache.cancel(address) }
        case 3: if random.chance(200) { cache.cancelAll() }
        case 4: tasks.randomElement(using: &random)?.cancel()
        case 5: tasks.randomElement(using: &random)?.moveToSlowQueue()
        case 6: tasks.randomElement(using: &random)?.priority = random.chance(2) ? .high : .low
        case 7: if let task = tasks.randomElement(using: &random) { _ = (task.state, task.queue, task.attempts) }
        case 8: if random.chance(4) { cache.removeVariant(for: request) }
        case 9: if steps.isEmpty, random.chance(4) { try? cache.addImage(pictures[random.below(12)], for: address) }
        case 10: check(cache.image(for: request), expected)
        case 11: if random.chance(100) { cache.clear() }
        default: break
        }
        let task = random.chance(3) ? cache.slowGetImage(request) : cache.getImage(request)
        ends.watch(task)
        task.then { [self] image in check(image, expected) }
        tasks.append(task)
        // The calls of one thread that are open at a time.
        if tasks.count > 40 { tasks.remove(at: random.below(20)) }
        if random.chance(64) { usleep(UInt32(random.below(2_000))) }
    }

    private func check(_ image: Image?, _ expected: Set<[UInt8]>) {
        guard let image, !expected.contains(image.pixels) else { return }
        wrong.update { $0.append("\(image.size)") }
    }
}
