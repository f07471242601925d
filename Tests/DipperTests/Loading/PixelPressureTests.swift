import DipperTesting
import TestSupport
import Testing

@testable import Dipper

@Suite("Memory for the next pictures is given up when memory is short", .timeLimit(.minutes(2)))
struct PixelPressureTests {
    @Test("no block is kept until all pauses have ended")
    func pauses() throws {
        PixelMemory.pausePooling()
        PixelMemory.pausePooling()
        PixelMemory.resumePooling()
        PixelMemory.free(try PixelMemory.allocate(1 << 16))
        #expect(PixelMemory.pooled == 0, "one pause is left")
        PixelMemory.resumePooling()
    }

    // In a process of its own, because other tests pause too.
    @Test("blocks are kept again as soon as no pause is left")
    func resumed() async {
        await #expect(processExitsWith: .success) {
            PixelMemory.pausePooling()
            PixelMemory.resumePooling()
            PixelMemory.free(try PixelMemory.allocate(1 << 16))
            #expect(PixelMemory.pooled == 1 << 16)
        }
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
