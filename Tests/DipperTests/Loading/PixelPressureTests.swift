import DipperTesting
import TestSupport
import Testing

@testable import Dipper

@Suite("Memory for the next pictures is given up when memory is short", .timeLimit(.minutes(2)))
struct PixelPressureTests {
    @Test("no block is kept until the pause ends")
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

    @Test("the pause lasts as long as memory is short, also for pictures that are let go of later")
    func pressure() throws {
        let pixels = PixelPressure()
        for level in [MemoryPressure.moderate, .severe, .moderate] {
            pixels.follow(level)
            for byteCount in [1 << 16, 1 << 20, 5 << 20] { PixelMemory.free(try PixelMemory.allocate(byteCount)) }
            #expect(PixelMemory.pooled == 0)
        }
        pixels.follow(.normal)
    }
}
