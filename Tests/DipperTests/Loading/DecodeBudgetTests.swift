import DipperTesting
import Dispatch
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import Dipper

@Suite("Pictures that are being made have one budget", .timeLimit(.minutes(5)))
struct DecodeBudgetTests {
    /// Measures the largest number of bytes that are being made at once.
    private final class Meter: Sendable {
        private let state = Mutex((used: 0, most: 0))

        var used: Int { state.withLock { $0.used } }
        var most: Int { state.withLock { $0.most } }

        func make(_ bytes: Int, _ work: () -> Void) {
            state.withLock { state in
                state.used += bytes
                state.most = max(state.most, state.used)
            }
            work()
            state.withLock { $0.used -= bytes }
        }

        /// Long enough for the other threads to begin what they may.
        func make(_ bytes: Int) { make(bytes) { Thread.sleep(forTimeInterval: 0.005) } }
    }

    @Test("what is made at a time stays within the budget")
    func withinBudget() async {
        let queue = MakingQueue(name: "test", threads: 4, budget: 100)
        let meter = Meter()
        for number in 0..<60 {
            let bytes = [60, 30, 50, 20][number % 4]
            queue.add(.init(rank: .urgent, priority: .normal), cost: { bytes }) { meter.make(bytes) }
        }
        await queue.shutdown()
        #expect(meter.most <= 100)
    }

    @Test("what fits into the budget is made at the same time")
    func fillsBudget() async {
        let queue = MakingQueue(name: "test", threads: 4, budget: 100)
        let meter = Meter()
        let door = DispatchSemaphore(value: 0)
        for bytes in [60, 40] {
            queue.add(.init(rank: .urgent, priority: .normal), cost: { bytes }) { meter.make(bytes) { door.wait() } }
        }
        #expect(await settle { meter.used == 100 })
        for _ in 0..<2 { door.signal() }
        await queue.shutdown()
    }

    @Test("a picture that is larger than the budget is made alone")
    func largerThanBudget() async {
        let queue = MakingQueue(name: "test", threads: 4, budget: 100)
        let meter = Meter()
        for bytes in [40, 500, 40, 500] {
            queue.add(.init(rank: .urgent, priority: .normal), cost: { bytes }) { meter.make(bytes) }
        }
        await queue.shutdown()
        #expect(meter.most == 500)
    }

    @Test("what is taken back makes room for what waited behind it")
    func takenBack() async throws {
        let queue = MakingQueue(name: "test", threads: 2, budget: 100)
        let door = DispatchSemaphore(value: 0)
        let isInside = Box(false), isMade = Box(false)
        queue.add(.init(rank: .urgent, priority: .normal), cost: { 60 }) {
            isInside.update { $0 = true }
            door.wait()
        }
        #expect(await settle { isInside.value })
        let large = try #require(queue.add(.init(rank: .urgent, priority: .high), cost: { 100 }) {})
        queue.add(.init(rank: .urgent, priority: .low), cost: { 40 }) { isMade.update { $0 = true } }
        queue.remove(large)
        #expect(await settle { isMade.value })
        door.signal()
        await queue.shutdown()
    }

    /// A way to process a picture of 40,000 bytes, and the number of such pictures that fit into 100,000 bytes.
    private enum Making: CaseIterable {
        case plain, inverted, small

        var processors: [any ImageProcessor] {
            switch self {
            case .plain: []
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
            }
        }
    }

    @Test("the cache makes as many pictures at a time as the pixels allow that are made", arguments: Making.allCases)
    private func pixels(_ making: Making) async throws {
        let picture = Image.sample(100, 100)
        let test = TestImageCache(decoder: CountingDecoder(isHeld: true)) {
            $0.decodingThreads = 6
            $0.decodingMemory = 100_000
        }
        let tasks = try (0..<6).map { number in
            test.transport.script(url("\(number)"), [.body(try picture.png)])
            return test.cache.getImage(ImageRequest(url("\(number)")).with(\.processors, making.processors))
        }
        for made in 0..<6 {
            let begun = min(6, made + making.fitting)
            #expect(await settle { test.decoder.decodes >= begun })
            #expect(await stays { test.decoder.decodes == begun })
            test.decoder.release()
        }
        for task in tasks { _ = try await task.value }
        await test.cache.shutdown()
    }

    private func cost(_ data: Data, _ processors: any ImageProcessor...) -> Int {
        var options = ImageOptions()
        options.processors = processors
        return DecodeCost.bytes(of: data, ResolvedOptions(options, home: 0))
    }

    @Test("the size of a picture in memory is known from its header, and counts what is made of it")
    func made() throws {
        let picture = try Image.sample(100, 50).png
        #expect(DecodeCost.bytes(of: picture, nil) == 20_000)
        #expect(cost(picture) == 20_000)
        #expect(cost(picture, Inverting()) == 2 * 20_000)
        #expect(cost(picture, Inverting(), Inverting("again")) == 2 * 20_000, "the first is let go of")
        #expect(cost(picture, .downsample(width: 20, height: 20)) == 2 * 800)
        let larger = ImageProcessors.Fitting(width: 200, height: 200, .scaleToFill)
        #expect(cost(picture, larger) == 2 * 160_000)
        #expect(cost(picture, Inverting(), .downsample(width: 20, height: 20)) == 2 * 20_000, "decoded as it is")
        #expect(DecodeCost.bytes(of: Data("no picture".utf8), nil) == 10)
        #expect(cost(Data("no picture".utf8), Inverting()) == 10)
    }

    @Test(
        "what a codec holds whole counts beside what it makes, however small that is",
        arguments: [
            ("jpeg/420.jpg", false), ("jpeg/progressive.jpg", true), ("png/rgb8.png", false),
            ("png/rgb8-interlaced.png", true), ("gif/still.gif", true), ("webp/lossy.webp", true),
            ("avif/grey.avif", true),
        ])
    func held(name: String, isHeld: Bool) throws {
        let data = try Pictures.data(name)
        let size = try #require(try ImageInfo(data).size)
        let whole = size.width * size.height * 4
        let held = isHeld ? whole : 0
        #expect(DecodeCost.bytes(of: data, nil) == held + whole)
        #expect(cost(data, Inverting()) == held + 2 * whole)
        #expect(cost(data, .downsample(width: 4, height: 2, .stretch)) == held + 2 * 32)
    }

    @Test("sizes that no number can hold cost as much as there can be")
    func overflow() {
        let length = 0x7FFF_FFFF
        let huge = Data(HeaderBytes.pngHeader(length, length) + HeaderBytes.chunk("IDAT", [1]))
        #expect(DecodeCost.bytes(of: huge, nil) == .max)
        #expect(cost(huge, Inverting()) == .max)
    }
}
