import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import Dipper

@Suite("Under memory pressure a cache keeps fewer pictures in memory", .timeLimit(.minutes(5)))
struct ImageMemoryPressureTests {
    private static func test(_ pressure: ManualMemoryPressure, _ folder: TemporaryFolder? = nil) -> TestImageCache {
        TestImageCache(folder: folder) {
            $0.data.memoryPressure = pressure
            $0.memoryLimit = 400_000
        }
    }

    /// Some of 10,000 bytes each.
    private func fill(_ cache: ImageCache, _ count: Int = 30) throws {
        for number in 0..<count {
            try cache.addImage(.sample(50, 50), bytes: Data("\(number)".utf8), for: url("\(number)"))
        }
    }

    @Test(
        "moderate: half, severe: none, afterwards all of the limit, also after several warnings, and one set meanwhile")
    func levels() async throws {
        let pressure = ManualMemoryPressure()
        let test = Self.test(pressure)
        try fill(test.cache)
        #expect(test.cache.memoryCount == 30)
        #expect(test.cache.image(for: url("2")) != nil)
        for _ in 0..<3 {
            pressure.level = .moderate
            #expect(test.cache.memoryPressure == .moderate && test.cache.data.memoryPressure == .moderate)
            #expect(test.cache.memorySize <= 200_000 && test.cache.memorySize > 180_000)
            #expect(
                test.cache.hasImage(for: url("2")) && !test.cache.hasImage(for: url("1")), "what was used last stays")
            pressure.level = .normal
            try fill(test.cache)
            #expect(test.cache.memoryCount == 30)
            #expect(test.cache.image(for: url("2")) != nil)
        }
        pressure.level = .severe
        #expect(test.cache.memoryCount == 0 && test.cache.data.memoryCount == 0)
        test.cache.setMemoryLimit(200_000)
        #expect(test.cache.memoryCount == 0)
        pressure.level = .normal
        try fill(test.cache)
        #expect(test.cache.memorySize <= 200_000 && test.cache.memorySize > 180_000)
        await test.cache.shutdown()
    }

    @Test("while it is severe pictures are shown, and not kept in memory")
    func answers() async throws {
        let pressure = ManualMemoryPressure(.severe)
        let test = Self.test(pressure, TemporaryFolder())
        test.transport.script(url("a"), [.body(try Image.sample().png)])
        #expect(try await test.cache.getImage(url("a")).value.pixels == Image.sample().pixels)
        #expect(test.cache.memoryCount == 0)
        await test.cache.synchronize()
        #expect(try await test.cache.getImage(url("a")).response.source == .disk)
        pressure.level = .normal
        _ = try await test.cache.getImage(url("a")).value
        #expect(try await test.cache.getImage(url("a")).response.source == .memory)
        #expect(test.transport.transfers.count == 1)
        await test.cache.shutdown()
    }

    @Test("displays hear of it after the pictures have gone")
    func displays() async throws {
        let pressure = ManualMemoryPressure()
        let test = Self.test(pressure)
        try fill(test.cache, 3)
        let heard = Box<[MemoryPressure]>([])
        let observation = test.cache.observeMemoryPressure { [cache = test.cache] level in
            if cache.memoryCount == 0 { heard.update { $0.append(level) } }
        }
        pressure.level = .severe
        #expect(heard.value == [.severe])
        _ = observation
        await test.cache.shutdown()
    }

    @Test("as long as memory is short none are kept, also of pictures that are let go of later")
    func blocks() throws {
        let pixels = PixelPressure()
        for level in [MemoryPressure.moderate, .severe, .moderate] {
            pixels.follow(level)
            for byteCount in [1 << 16, 1 << 20, 5 << 20] { PixelMemory.free(try PixelMemory.allocate(byteCount)) }
            #expect(PixelMemory.pooled == 0)
        }
        pixels.follow(.normal)
    }

    @Test("blocks for the next pictures are given up, and none are kept until the pause ends")
    func pool() {
        let pool = PixelPool(limit: 1_000)
        let blocks = [100, 200].map { UnsafeMutableRawPointer.allocate(byteCount: $0, alignment: 64) }
        #expect(pool.give(blocks[0], 100).isEmpty)
        #expect(pool.pause().map(\.capacity) == [100] && pool.byteCount == 0)
        #expect(pool.give(blocks[1], 200).map(\.capacity) == [200] && pool.take(200) == nil)
        _ = pool.pause()
        pool.resume()
        #expect(pool.give(blocks[1], 200).count == 1, "one pause is left")
        pool.resume()
        #expect(pool.give(blocks[1], 200).isEmpty && pool.byteCount == 200)
        for block in blocks { block.deallocate() }
    }
}
