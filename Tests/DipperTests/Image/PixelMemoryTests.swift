import CPixels
import Foundation
import TestSupport
import Testing

@testable import Dipper

@Suite("Memory for pixels is used again, within a limit, and never shows what was in it", .timeLimit(.minutes(5)))
struct PixelMemoryTests {
    /// Addresses that stand for blocks: the pool never touches them.
    private func block(_ number: Int) -> UnsafeMutableRawPointer {
        UnsafeMutableRawPointer(bitPattern: number * 4096).unsafelyUnwrapped
    }

    @Test("A block given back serves for the same length, the last one first")
    func reuse() {
        let pool = PixelPool(limit: 100)
        #expect(pool.take(10) == nil)
        #expect(pool.give(block(1), 10).isEmpty && pool.give(block(2), 10).isEmpty && pool.give(block(3), 20).isEmpty)
        #expect(pool.byteCount == 40)
        #expect(pool.take(10)?.start == block(2))
        #expect(pool.take(10)?.start == block(1))
        // What is taken is nobody else's until it is given back.
        #expect(pool.take(10) == nil)
        #expect(pool.take(30) == nil)
        #expect(pool.byteCount == 20)
    }

    @Test("Where one of its length is missing the shortest of the longer ones serves, up to a length")
    func longer() {
        let pool = PixelPool(limit: 1000)
        for (number, capacity) in [(1, 60), (2, 40), (3, 50), (4, 40), (5, 30)] {
            #expect(pool.give(block(number), capacity).isEmpty)
        }
        #expect(pool.take(30, upTo: 60)?.start == block(5))
        let longer = pool.take(30, upTo: 60)
        #expect(longer?.start == block(4) && longer?.capacity == 40)
        #expect(pool.take(35) == nil && pool.take(35, upTo: 39) == nil && pool.take(61, upTo: 100) == nil)
        #expect(pool.byteCount == 150)
    }

    @Test("Above the limit the oldest go; what is larger than the limit is not kept")
    func limit() {
        let pool = PixelPool(limit: 100)
        for number in 1...4 { #expect(pool.give(block(number), 25).isEmpty) }
        #expect(pool.give(block(5), 40).map(\.start) == [block(1), block(2)])
        #expect(pool.byteCount == 90)
        #expect(pool.give(block(6), 101).map(\.start) == [block(6)])
        #expect(pool.byteCount == 90)
        #expect(pool.empty().map(\.start) == [block(3), block(4), block(5)])
        #expect(pool.byteCount == 0 && pool.take(25) == nil)
    }

    @Test("Little is wasted, and great lengths that are nearly the same are alike")
    func capacity() {
        for count in [0, 1, 1000, PixelMemory.smallestPaged - 1] { #expect(PixelMemory.capacity(for: count) == count) }
        var count = PixelMemory.smallestPaged
        while count < 1 << 34 {
            for bytes in [count, count + 1, count + count / 3] {
                let capacity = PixelMemory.capacity(for: bytes)
                let waste = capacity - bytes
                #expect(capacity >= bytes && capacity.isMultiple(of: 4096))
                #expect(waste <= bytes / 8 || (bytes >= PixelMemory.smallestHuge && waste < 2 << 20))
                #expect(PixelMemory.capacity(for: capacity) == capacity)
            }
            count *= 2
        }
        #expect(PixelMemory.capacity(for: 48_000_000) == PixelMemory.capacity(for: 47_000_000))
    }

    @Test(
        "Blocks of every kind can be written from end to end",
        arguments: [1, 1 << 15, 100_000, 1 << 18, (4 << 20) - 1, (4 << 20) + 1, 9 << 20])
    func wholeBlock(byteCount: Int) throws {
        let memory = try PixelMemory.allocate(byteCount)
        #expect(memory.count == byteCount)
        #expect(Int(bitPattern: memory.baseAddress) % PixelMemory.alignment == 0)
        memset(memory.baseAddress.unsafelyUnwrapped, 7, byteCount)
        #expect(memory[0] == 7 && memory[byteCount - 1] == 7)
        PixelMemory.free(memory)
    }

    @Test("A picture counts with all that is taken for it, its frames included")
    func footprint() throws {
        let small = try PixelBuffer(PixelSize(width: 50, height: 50)).image(isOpaque: false)
        #expect(small.byteCount == 10_000 && small.footprint == 10_000)
        let middle = try PixelBuffer(PixelSize(width: 205, height: 205)).image(isOpaque: false)
        #expect(middle.byteCount == 168_100)
        #expect(middle.footprint == PixelMemory.capacity(for: 168_100))
        let huge = try PixelBuffer(PixelSize(width: 1025, height: 1024)).image(isOpaque: false)
        #expect(huge.byteCount == 4_198_400 && huge.footprint == 6 << 20)
        var moving = middle
        let frames = [middle, middle, huge].map { AnimationFrame(image: $0, duration: .milliseconds(10)) }
        moving.animation = ImageAnimation(
            frameCount: 3, loopCount: 0, fileSize: 100, limits: DecodeLimits(), preloaded: frames
        ) { _, _ throws(DipperError) in throw .undecodable }
        #expect(moving.footprint == 100 + 2 * middle.footprint + huge.footprint)
    }

    @Test("A cache counts a picture in memory with all that is taken for it")
    func cost() async throws {
        let test = TestImageCache { $0.memoryLimit = 100 << 20 }
        let image = try PixelBuffer(PixelSize(width: 1025, height: 1024)).image(isOpaque: false)
        try test.cache.addImage(image, for: url("a"))
        #expect(test.cache.memoryCount == 1 && test.cache.memorySize >= 6 << 20)
        await test.cache.shutdown()
    }

    @Test("Memory that the system does not have is an error, and nothing worse")
    func noMemory() {
        // More than the addresses that there are.
        #expect(throws: DipperError.imageTooLarge) { try PixelMemory.allocate(1 << 52) }
        #expect(throws: DipperError.imageTooLarge) {
            _ = try PixelBuffer(PixelSize(width: 1 << 25, height: 1 << 25))
        }
        // More than there are numbers, in a product or rounded up.
        for size in [(1 << 62, 1), (1, 1 << 61), (1 << 32, 1 << 32), (.max, .max), ((1 << 61) - 1, 1)] {
            #expect(throws: DipperError.imageTooLarge) {
                _ = try PixelBuffer(PixelSize(width: size.0, height: size.1))
            }
        }
        for count in [Int.max, .max - 1, .max / 2 + 1, .max / 4 + 1, 1 << 60] {
            #expect(throws: DipperError.imageTooLarge) { try PixelMemory.allocate(count) }
        }
    }

    @Test("A picture of any size is an error where the system refuses the memory, and can be made when there is some")
    func refusedMemory() async {
        // In a process of its own, which is left without memory.
        await #expect(processExitsWith: .success) {
            guard !pixels_are_sanitized() else { return }
            var limit = rlimit()
            getrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit)
            let pages = try #require(
                String(contentsOfFile: "/proc/self/statm", encoding: .utf8).split(separator: " ").first.flatMap {
                    Int($0)
                })
            var taken: [UnsafeMutableRawBufferPointer] = []
            taken.reserveCapacity(1 << 17)
            limit.rlim_cur = rlim_t(pages * PixelRegions.pageSize + (200 << 20))
            setrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit)
            var errors: [DipperError] = []
            // Huge pages, pages, and malloc's.
            for byteCount in [8 << 20, 200_000, 30_000] {
                while taken.count < 1 << 17 {
                    do throws(DipperError) {
                        taken.append(try PixelMemory.allocate(byteCount))
                    } catch {
                        errors.append(error)
                        break
                    }
                }
            }
            limit.rlim_cur = limit.rlim_max
            setrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit)
            #expect(errors == [.imageTooLarge, .imageTooLarge, .imageTooLarge] && taken.count > 10)
            for memory in taken { PixelMemory.free(memory) }
            _ = try PixelBuffer(PixelSize(width: 2_000, height: 2_000))
        }
    }

    /// Leaves blocks of a size full of a pattern, as earlier pictures do.
    private func poison(_ byteCount: Int) throws {
        let blocks = try (0..<3).map { _ in try PixelMemory.allocate(byteCount) }
        for block in blocks { memset(block.baseAddress.unsafelyUnwrapped, 0xA5, byteCount) }
        for block in blocks { PixelMemory.free(block) }
    }

    @Test("Nothing of an earlier picture shows", arguments: Orientation.allCases)
    func noLeak(orientation: Orientation) throws {
        let size = PixelSize(width: 280, height: 240)
        let pixels = (0..<size.width * size.height * 4).map { UInt8(truncatingIfNeeded: $0 & 3 == 3 ? 255 : $0 >> 4) }
        let picture = TestPicture(size: size, pixels: pixels)
        let (half, double) = (PixelSize(width: 140, height: 120), PixelSize(width: 560, height: 480))
        for target in [nil, half, double] {
            let options = DecodeOptions(target: target.map { TargetSize($0, .stretch, allowsUpscaling: true) })
            for rows in [size.height, 100] {
                PixelMemory.trim()
                let clean = try picture.written(options, orientation: orientation, upTo: rows).pixels
                // The result, and the bands on the way.
                try poison(clean.count)
                for band in [40_000, 1 << 17, 1 << 18] { try poison(band) }
                let image = try picture.written(options, orientation: orientation, upTo: rows)
                // Not compared inside of the expectation, which would look for the difference for minutes.
                let isSame = image.pixels == clean
                #expect(isSame)
            }
        }
    }

    @Test("Many threads take and give at the same time")
    func threads() async throws {
        try await withThrowingTaskGroup(of: Bool.self) { group in
            for number in 0..<4 {
                group.addTask {
                    for round in 0..<50 {
                        let memory = try PixelMemory.allocate((1 << 16) + round % 3 * 100_000)
                        let mark = UInt8(truncatingIfNeeded: number * 50 + round)
                        memset(memory.baseAddress.unsafelyUnwrapped, Int32(mark), memory.count)
                        if round % 10 == 0 { PixelMemory.trim() }
                        // Nobody else has the same block.
                        guard memory[0] == mark, memory[memory.count - 1] == mark else { return false }
                        PixelMemory.free(memory)
                    }
                    return true
                }
            }
            for try await isAlone in group { #expect(isAlone) }
        }
    }
}
