import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("Under memory pressure a cache keeps less in memory", .timeLimit(.minutes(5)))
struct MemoryPressureTests {
    private static let entry = 10_000

    private static func test(_ pressure: ManualMemoryPressure, _ folder: TemporaryFolder? = nil) -> TestCache {
        TestCache(folder: folder) {
            $0.memoryPressure = pressure
            $0.memoryLimit = 1 << 20
        }
    }

    private func fill(_ cache: DataCache, _ count: Int = 90) throws {
        for number in 0..<count { try cache.addData(Data(count: Self.entry), for: url("\(number)")) }
    }

    private func kept(_ cache: DataCache) -> [Int] {
        (0..<200).filter { cache.store.memory.contains(CacheKey(url("\($0)"))) }
    }

    @Test("moderate: half of it, what was used last; severe: nothing; afterwards all of it again")
    func levels() async throws {
        let pressure = ManualMemoryPressure()
        let test = Self.test(pressure)
        try fill(test.cache)
        #expect(test.cache.memoryCount == 90 && test.cache.memoryPressure == .normal)
        #expect(test.cache.data(for: url("3")) != nil)
        pressure.level = .moderate
        #expect(test.cache.memoryPressure == .moderate)
        let half = kept(test.cache)
        #expect(test.cache.memorySize <= 1 << 19 && test.cache.memorySize > (1 << 19) - 2 * Self.entry)
        #expect(half == [3] + ((90 - half.count + 1)..<90))
        pressure.level = .severe
        #expect(test.cache.memorySize == 0 && test.cache.memoryCount == 0)
        pressure.level = .normal
        try fill(test.cache)
        #expect(test.cache.memoryCount == 90)
        await test.cache.shutdown()
    }

    @Test("warnings in a row do not add up, and the limit recovers")
    func inARow() async throws {
        let pressure = ManualMemoryPressure()
        let test = Self.test(pressure)
        for _ in 0..<5 {
            pressure.level = .moderate
            try fill(test.cache)
            #expect(test.cache.memorySize > (1 << 19) - 2 * Self.entry && test.cache.memorySize <= 1 << 19)
            pressure.level = .severe
            try fill(test.cache)
            #expect(test.cache.memorySize == 0)
            pressure.level = .moderate
            try fill(test.cache)
            #expect(test.cache.memorySize > (1 << 19) - 2 * Self.entry)
            pressure.level = .normal
            try fill(test.cache)
            #expect(test.cache.memoryCount == 90)
        }
        await test.cache.shutdown()
    }

    @Test("a limit that is set meanwhile holds in half, and afterwards as it was set")
    func limitsChange() async throws {
        let pressure = ManualMemoryPressure()
        let test = Self.test(pressure)
        pressure.level = .moderate
        test.cache.setMemoryLimit(1 << 21, count: 21)
        try fill(test.cache)
        #expect(test.cache.memoryCount == 11)
        pressure.level = .severe
        test.cache.setMemoryLimit(1 << 21)
        try fill(test.cache)
        #expect(test.cache.memoryCount == 0)
        pressure.level = .normal
        try fill(test.cache, 190)
        #expect(test.cache.memoryCount == 190)
        await test.cache.shutdown()
    }

    @Test("an entry that is worth keeping is so under moderate pressure")
    func largest() async throws {
        let pressure = ManualMemoryPressure(.moderate)
        let test = Self.test(pressure)
        try test.cache.addData(Data(count: 100_000), for: url("large"))
        #expect(test.cache.memoryCount == 1)
        await test.cache.shutdown()
    }

    @Test("while it is severe calls are answered, by the network and the disk, and not kept in memory")
    func answers() async throws {
        let pressure = ManualMemoryPressure(.severe)
        let test = Self.test(pressure, TemporaryFolder())
        test.transport.script(url("a"), [.body(Data("a".utf8))])
        #expect(try await test.cache.getData(url("a")).value == Data("a".utf8))
        await test.cache.synchronize()
        #expect(test.cache.memoryCount == 0 && test.cache.diskCount == 1)
        #expect(try await test.cache.getData(url("a")).response.source == .disk)
        #expect(test.cache.memoryCount == 0)
        pressure.level = .normal
        #expect(try await test.cache.getData(url("a")).response.source == .disk)
        #expect(try await test.cache.getData(url("a")).response.source == .memory)
        await test.cache.shutdown()
    }

    @Test("without a monitor memory is never short")
    func none() async throws {
        let test = TestCache { $0.memoryPressure = nil }
        #expect(test.cache.memoryPressure == .normal)
        await test.cache.shutdown()
    }

    @Test("observers hear what went, and why")
    func told() async throws {
        let cleanings = Box<[CacheEvent.Cleaning]>([])
        let pressure = ManualMemoryPressure()
        let test = TestCache {
            $0.memoryPressure = pressure
            $0.observe { event in
                if case .cleaned(let cleaning) = event.kind { cleanings.update { $0.append(cleaning) } }
            }
        }
        try fill(test.cache, 3)
        let size = test.cache.memorySize
        pressure.level = .severe
        #expect(cleanings.value == [.init(tier: .memory, reason: .memoryPressure, entries: 3, bytes: size)])
        await test.cache.shutdown()
    }

    @Test("object tiers follow too, also ones made while memory is short; and let go of the monitor")
    func objects() async throws {
        final class Thing: Sendable {}
        let pressure = ManualMemoryPressure(.moderate)
        let test = Self.test(pressure)
        var tier: ObjectTier? = test.cache.makeObjectTier(limit: 100_000, count: nil)
        func fill() {
            for number in 0..<10 {
                tier?.insert(
                    .init(Thing(), EntryInfo(url: "", stored: 0)), for: CacheKey("\(number)"), cost: 9_000,
                    lifetime: .forever)
            }
        }
        fill()
        #expect(tier?.count == 5)
        pressure.level = .severe
        #expect(tier?.count == 0)
        pressure.level = .normal
        fill()
        #expect(tier?.count == 10)
        tier = nil
        pressure.level = .severe
        await test.cache.shutdown()
        #expect(pressure.observerCount == 0)
    }

    @Test("those who follow hear of what is, and of each change, in their order, until they let go")
    func following() async throws {
        let pressure = ManualMemoryPressure(.moderate)
        let test = Self.test(pressure)
        let heard = Box<[String]>([])
        let last = test.cache.observeMemoryPressure(last: true) { level in heard.update { $0.append("last \(level)") } }
        var first: ChangeObservation? = test.cache.observeMemoryPressure { [cache = test.cache] level in
            heard.update { $0.append("first \(level) \(cache.memoryCount)") }
        }
        #expect(heard.value == ["last moderate", "first moderate 0"])
        try fill(test.cache, 1)
        heard.update { $0 = [] }
        pressure.level = .severe
        #expect(heard.value == ["first severe 0", "last severe"])
        first = nil
        pressure.level = .normal
        #expect(heard.value.last == "last normal" && heard.value.count == 3)
        _ = (first, last)
        await test.cache.shutdown()
        pressure.level = .severe
        #expect(heard.value.count == 3)
    }

    @Test("a cache that shuts down while memory is short tells those who follow, once, that they need not any longer")
    func shutdown() async throws {
        let pressure = ManualMemoryPressure()
        let test = Self.test(pressure)
        let heard = Box<[MemoryPressure]>([])
        let observation = test.cache.observeMemoryPressure(last: true) { level in heard.update { $0.append(level) } }
        pressure.level = .severe
        await test.cache.shutdown()
        #expect(heard.value == [.severe, .normal] && test.cache.memoryPressure == .normal)
        await test.cache.shutdown()
        pressure.level = .moderate
        #expect(heard.value == [.severe, .normal])
        _ = observation
    }

    @Test("levels that come from many threads while entries do: what is kept fits the last one")
    func concurrency() async throws {
        let pressure = ManualMemoryPressure()
        let test = Self.test(pressure)
        for round in 0..<20 {
            let last = MemoryPressure.allCases[round % 3]
            await withTaskGroup(of: Void.self) { group in
                for number in 0..<4 {
                    group.addTask {
                        for step in 0..<100 {
                            if step % 10 == number { pressure.level = MemoryPressure.allCases[(step + number) % 3] }
                            try? test.cache.addData(Data(count: Self.entry), for: url("\(number) \(step)"))
                            _ = test.cache.data(for: url("\(number) \(step / 2)"))
                        }
                        pressure.level = last
                    }
                }
            }
            let limit = [MemoryPressure.normal: 1 << 20, .moderate: 1 << 19, .severe: 0][last] ?? -1
            #expect(test.cache.memorySize <= limit)
        }
        pressure.level = .normal
        try fill(test.cache)
        #expect(kept(test.cache).count == 90)
        await test.cache.shutdown()
    }
}
