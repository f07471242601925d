import CPixels
import TestSupport
import Testing

@testable import Dipper

@Suite("Memory for pixels is counted, goes back to the system, and may be refused", .timeLimit(.minutes(2)))
struct PixelMemoryTests {
    @Test("A picture counts with all that is taken for it, its frames included, also in a cache")
    func footprint() async throws {
        let small = try PixelBuffer(PixelSize(width: 50, height: 50)).image(isOpaque: false)
        #expect(small.byteCount == 10_000 && small.footprint == 10_000)
        let middle = try PixelBuffer(PixelSize(width: 205, height: 205)).image(isOpaque: false)
        #expect(middle.byteCount == 168_100)
        #expect(middle.footprint == PixelMemory.capacity(for: 168_100))
        let huge = try PixelBuffer(PixelSize(width: 1025, height: 1024)).image(isOpaque: false)
        #expect(huge.byteCount == 4_198_400 && huge.footprint == 6 << 20)
        let test = TestImageCache { $0.memoryLimit = 100 << 20 }
        try test.cache.addImage(huge, for: url("a"))
        #expect(test.cache.memoryCount == 1 && test.cache.memorySize >= 6 << 20)
        var moving = middle
        let frames = [middle, middle, huge].map { AnimationFrame(image: $0, duration: .milliseconds(10)) }
        moving.animation = ImageAnimation(
            frameCount: 3, loopCount: 0, fileSize: 100, limits: DecodeLimits(), preloaded: frames
        ) { _ throws(DipperError) in throw .undecodable }
        #expect(moving.footprint == 100 + 2 * middle.footprint + huge.footprint)
    }

    @Test("Memory that the system does not have is an error, and nothing worse")
    func noMemory() {
        // More than the addresses that there are, or than there are numbers, in a product or rounded up.
        for (width, height) in [
            (1 << 25, 1 << 25), (1 << 62, 1), (1, 1 << 61), (1 << 32, 1 << 32), (.max, .max), ((1 << 61) - 1, 1),
        ] {
            #expect(throws: DipperError.imageTooLarge) { try PixelBuffer(PixelSize(width: width, height: height)) }
        }
        for count in [1 << 52, Int.max, .max - 1, .max / 2 + 1, .max / 4 + 1, 1 << 60] {
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
            let sizes = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8).split(separator: " ")
            let pages = try #require(Int(sizes[0]))
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
                        guard memory[0] == mark, memory[memory.count - 1] == mark else { return false }
                        PixelMemory.free(memory)
                    }
                    return true
                }
            }
            for try await isAlone in group { #expect(isAlone) }
        }
    }

    @Test("Blocks that come and go in any order leave no memory behind")
    func noFragments() throws {
        let page = PixelRegions.pageSize
        var regions = PixelRegions(regionSize: 4_096 * page)
        func block(pages: Int) throws -> PixelBlock {
            let taken = regions.allocate(pages * page)
            let block = try #require(taken)
            // Earlier contents do not show.
            #expect(block.start.load(as: UInt64.self) == 0)
            memset(block.start, 0xA5, block.capacity)
            return block
        }
        func free(_ block: PixelBlock) {
            madvise(block.start, block.capacity, Int32(MADV_DONTNEED))
            let unused = regions.free(block)
            #expect(unused?.start == nil)
        }
        let first = try block(pages: 1)
        var random = SeededRandom(6)
        var live: [PixelBlock] = []
        var held = 1
        for _ in 0..<2_000 {
            // As a cache at its limit does, but for the order.
            while held > 1_000 {
                let block = live.remove(at: Int.random(in: 0..<live.count, using: &random))
                free(block)
                held -= block.capacity / page
            }
            let pages = Int.random(in: 8...70, using: &random)
            live.append(try block(pages: pages))
            held += pages
        }
        #expect(regions.count == 1)
        var states = [UInt8](repeating: 0, count: 4_096)
        try #require(mincore(first.start, 4_096 * page, &states) == 0)
        #expect(states.count { $0 & 1 == 1 } == held)
        for block in live { free(block) }
        #expect(mincore(first.start, 4_096 * page, &states) == 0 && states.count { $0 & 1 == 1 } == 1)
    }
}

@Suite("Memory that is kept for the next pictures has a limit", .timeLimit(.minutes(2)))
struct PooledMemoryTests {
    /// Takes and gives back more of each size than is ever kept, and returns how much is, in MiB.
    private static func fill() throws -> Int {
        for (byteCount, count) in [(1 << 16, 80), (1 << 19, 40), (1 << 22, 30)] {
            let blocks = try (0..<count).map { _ in try PixelMemory.allocate(byteCount) }
            for block in blocks { PixelMemory.free(block) }
        }
        return PixelMemory.pooled >> 20
    }

    // In processes of their own, because the memory is shared by all caches of a process.
    @Test("blocks that are kept take an eighth of the memory limits of the caches, whatever these are changed to")
    func share() async {
        await #expect(processExitsWith: .success) {
            guard !pixels_are_sanitized() else { return }
            var pooled = try Self.fill()
            #expect(pooled == 84, "without a cache")
            let small = TestImageCache { $0.memoryLimit = 80 << 20 }
            #expect(PixelMemory.pooled <= 10 << 20, "what was kept is given up at once")
            pooled = try Self.fill()
            #expect((5...10).contains(pooled))
            let other = PixelPressure(limit: 80 << 20)
            pooled = try Self.fill()
            #expect((16...20).contains(pooled), "two caches")
            PixelMemory.changeLimit(of: ObjectIdentifier(other), to: -1)
            #expect(PixelMemory.pooled <= 10 << 20)
            small.cache.memoryLimit = 0
            #expect(PixelMemory.pooled == 0)
            pooled = try Self.fill()
            #expect(pooled == 0)
            PixelMemory.changeLimit(of: ObjectIdentifier(other), to: .max)
            small.cache.memoryLimit = .max
            pooled = try Self.fill()
            #expect(pooled == 84)
        }
    }

    @Test("the share of a cache that is let go of is given up")
    func ended() async {
        await #expect(processExitsWith: .success) {
            let kept = PixelPressure(limit: 0)
            do {
                let ended = PixelPressure(limit: 800 << 20)
                let pooled = try Self.fill()
                #expect(pooled > 4)
                withExtendedLifetime(ended) {}
            }
            #expect(PixelMemory.pooled == 0)
            withExtendedLifetime(kept) {}
        }
    }

    @Test("the coefficients of a large JPEG are such memory, and not left in malloc's arenas, read or written")
    func coefficients() async {
        await #expect(processExitsWith: .success) {
            var file = try Pictures.data("jpeg/large-progressive.jpg")
            let frame = try #require(file.firstRange(of: Data([0xFF, 0xC2])))
            // 2000 × 1500 pixels, of which the file has the first few.
            file.replaceSubrange(frame.lowerBound + 5..<frame.lowerBound + 9, with: [0x05, 0xDC, 0x07, 0xD0])
            let image = try JPEGDecoder().decode(file, .partial)
            #expect(image.size == PixelSize(width: 2000, height: 1500))
            // Of two bytes each, and colours in half the resolution.
            #expect(PixelMemory.pooled >= 3 * 2000 * 1500)
            PixelMemory.trim()
            _ = try JPEGEncoder().encode(image, EncodeOptions(quality: 0.8))
            #expect(PixelMemory.pooled >= 3 * 2000 * 1500)
        }
    }

    @Test("what a program cuts off a file that was written does not change how its memory is freed")
    func shortened() async {
        await #expect(processExitsWith: .success) {
            let image = try Processed.noise(700, 700)
            for format in [ImageFormat.png, .jpeg] {
                for rest in [1_000, 300 << 10] {
                    var file = try CodecRegistry.standard.encode(image, as: format, EncodeOptions(quality: 1))
                    file.removeLast(file.count - rest)
                    #expect(file.count == rest)
                }
            }
        }
    }

    @Test("large files that are written are mappings of their own, and small ones are not", arguments: [40, 700])
    func written(_ width: Int) throws {
        let image = try Processed.noise(width, width)
        for format in [ImageFormat.png, .jpeg] {
            // One of malloc's blocks may begin with a page by chance.
            let files = try (0..<4).map { _ in
                try CodecRegistry.standard.encode(image, as: format, EncodeOptions(quality: 1))
            }
            let areLarge = files.allSatisfy { $0.count > 256 << 10 }
            let areMapped = files.allSatisfy { file in
                file.withUnsafeBytes { Int(bitPattern: $0.baseAddress) % PixelRegions.pageSize == 0 }
            }
            #expect(areLarge == (width == 700) && areMapped == areLarge, "\(format)")
            #expect(try CodecRegistry.standard.decode(files[0]).size == image.size)
        }
    }
}

@Suite("Memory for the next pictures is given up when memory is short", .timeLimit(.minutes(2)))
struct PixelPressureTests {
    // In a process of its own, because other tests pause too.
    @Test("no block is kept until all pauses have ended, and again from then on")
    func pauses() async {
        await #expect(processExitsWith: .success) {
            for _ in 0..<2 { PixelMemory.pausePooling() }
            // Under Address Sanitizer smaller ones come from malloc.
            for pooled in [0, 4 << 20] {
                PixelMemory.resumePooling()
                PixelMemory.free(try PixelMemory.allocate(4 << 20))
                #expect(PixelMemory.pooled == pooled)
            }
        }
    }

    @Test("the pause lasts as long as memory is short, also for pictures that are let go of later")
    func pressure() throws {
        let pixels = PixelPressure(limit: 1 << 30)
        for level in [MemoryPressure.moderate, .severe, .moderate] {
            pixels.follow(level)
            for byteCount in [1 << 16, 1 << 20, 5 << 20] { PixelMemory.free(try PixelMemory.allocate(byteCount)) }
            #expect(PixelMemory.pooled == 0)
        }
        pixels.follow(.normal)
    }
}

@Suite("The memory that making a picture takes, by its header", .timeLimit(.minutes(2)))
struct DecodeCostTests {
    private func cost(_ data: Data, isProcessed: Bool = false) -> Int {
        CodecRegistry.standard.cost(of: data, DecodeOptions(), isProcessed: isProcessed)
    }

    @Test("a processor makes a second picture beside the decoded one")
    func processed() throws {
        let data = try Pictures.data("png/rgb8.png")
        let size = try #require(try ImageInfo(data).size)
        let second = try size.byteCount()
        #expect(cost(data, isProcessed: true) == cost(data) + second)
    }

    @Test(
        "the budget counts what the decoder says that it needs",
        arguments: ["jpeg/progressive.jpg", "png/rgb8-interlaced.png", "webp/moving.webp", "avif/alpha.avif"]
            .filter(Pictures.isReadable))
    func asked(_ name: String) throws {
        let data = try Pictures.data(name)
        #expect(try cost(data) == CodecRegistry.standard.decoder(for: data).memory(of: data, DecodeOptions()))
    }

    @Test("a picture that a helper decodes counts in the size that is asked for, once here and once in the helper")
    func apart() {
        let data = Data(HeaderBytes.jpeg(4_000, 3_000))
        var options = DecodeOptions(target: TargetSize(width: 400, height: 300))
        options.isolation = .preferred
        func cost(_ data: Data) -> Int { CodecRegistry.standard.cost(of: data, options, isProcessed: false) }
        #expect(cost(data) == 2 * 400 * 300 * 4)
        // All scans of a progressive picture are in memory.
        #expect(cost(Data(HeaderBytes.jpeg(4_000, 3_000, frame: 0xC2))) == 2 * 400 * 300 * 4 + 4_000 * 3_000 * 4)
        options.target = nil
        #expect(cost(data) == 2 * 4_000 * 3_000 * 4)
    }

    @Test(
        "a picture of a format that asks for a helper counts as its decoder says, and its pixels once more here",
        arguments: ["heic/grid.heic", "jxl/alpha.jxl", "svg/shapes.svg"].filter(Pictures.isReadable))
    func asksForHelper(_ name: String) throws {
        let data = try Pictures.data(name)
        let memory = try CodecRegistry.standard.decoder(for: data).memory(of: data, DecodeOptions())
        #expect(try cost(data) == memory + #require(try ImageInfo(data).size).byteCount())
    }

    @Test("sizes that no number can hold cost as much as there can be; what has no size, its bytes")
    func overflow() throws {
        let length = 0x7FFF_FFFF
        let huge = Data(HeaderBytes.pngHeader(length, length) + HeaderBytes.chunk("IDAT", [1]))
        #expect(cost(huge) == .max)
        #expect(cost(huge, isProcessed: true) == .max)
        #expect(cost(Data("no picture".utf8)) == 10)
        // What no decoder reads counts by its header.
        let other = try Pictures.data("headers/mode-RGB.tiff")
        let size = try #require(try ImageInfo(other).size)
        let whole = try size.byteCount()
        #expect(cost(other) == 2 * whole)
    }
}
