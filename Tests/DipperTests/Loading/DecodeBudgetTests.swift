import Dispatch
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import Dipper

@Suite("Pictures that are being made have one budget", .timeLimit(.minutes(5)))
struct DecodeBudgetTests {
    /// Measures the most bytes that are being made at a time.
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
        let queue = DecodeQueue(name: "test", threads: 4, budget: 100)
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
        let queue = DecodeQueue(name: "test", threads: 4, budget: 100)
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
        let queue = DecodeQueue(name: "test", threads: 4, budget: 100)
        let meter = Meter()
        for bytes in [40, 500, 40, 500] {
            queue.add(.init(rank: .urgent, priority: .normal), cost: { bytes }) { meter.make(bytes) }
        }
        await queue.shutdown()
        #expect(meter.most == 500)
    }

    @Test("what is taken back makes room for what waited behind it")
    func takenBack() async throws {
        let queue = DecodeQueue(name: "test", threads: 2, budget: 100)
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

    @Test("the cache makes as many pictures at a time as their pixels allow")
    func pixels() async throws {
        let picture = Image.sample(100, 100)
        // Two of 40,000 bytes fit, a third does not.
        let test = TestImageCache(decoder: CountingDecoder(isHeld: true)) {
            $0.decodingThreads = 4
            $0.decodingMemory = 100_000
        }
        let tasks = try (0..<6).map { number in
            test.transport.script(url("\(number)"), [.body(try picture.png)])
            return test.cache.getImage(url("\(number)"))
        }
        for made in 0..<6 {
            #expect(await settle { test.decoder.decodes >= min(6, made + 2) })
            #expect(test.decoder.decodes == min(6, made + 2))
            test.decoder.release()
        }
        for task in tasks { #expect(try await task.value.size == picture.size) }
        await test.cache.shutdown()
    }

    @Test("the size of a picture in memory is known from its header, and counts what is made of it")
    func cost() throws {
        let picture = try Image.sample(100, 50).png
        #expect(DecodeCost.bytes(of: picture, nil) == 20_000)
        #expect(DecodeCost.bytes(of: Data("no picture".utf8), nil) == 10)
    }
}
