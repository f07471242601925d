import CPixels
import Foundation

/// Where memory for pixels comes from.
///
/// Fresh pages are dear: the kernel clears each at its first touch, which for a large picture takes longer than many a
/// decode. So blocks that are given back are kept for the next picture, within a limit, and large ones are asked for
/// in huge pages. A block holds what was in it last: whoever takes it writes all of it.
///
/// What is not kept goes back to the system, down to the last page, so that what is resident follows what is in use.
enum PixelMemory {
    private enum Source {
        case malloc, pages, hugePages
    }

    /// At least; larger blocks begin with a page.
    static let alignment = 64
    /// Smaller blocks, in bytes, are left to malloc: rounded up to whole pages they would waste more than an eighth.
    static let smallestPaged = max(32 << 10, PixelRegions.pageSize * 8)
    /// From here on, in bytes, huge pages are asked for: at 4 MiB a first touch took 0.02 to 0.04 of the time, at 48 MiB
    /// 0.1.
    static let smallestHuge = 4 << 20
    private static let hugePage = 2 << 20

    /// Blocks from here on, in bytes, have a pool of their own, so that those of thumbnails do not fill it.
    private static let smallestMiddle = 1 << 18

    // What a pool holds is memory beyond the limits of all caches, and fills in the long run: the smaller the blocks, the
    // less a first touch is to be seen beside a decode.
    private static let small = PixelPool(limit: 4 << 20)
    private static let middle = PixelPool(limit: 16 << 20)
    private static let huge = PixelPool(limit: 64 << 20)
    private static let regions = PixelRegions(regionSize: 32 << 20)

    /// Memory with anything in it, which the caller gives back by ``free(_:)``.
    /// - Throws: `DipperError.imageTooLarge` if the system has no such block.
    static func allocate(_ byteCount: Int) throws(DipperError) -> UnsafeMutableRawBufferPointer {
        // More than there are addresses; lengths that are rounded up stay numbers.
        guard byteCount <= Int.max / 4 else { throw noMemory }
        let capacity = capacity(for: byteCount)
        let start: UnsafeMutableRawPointer? =
            switch source(of: capacity) {
            // What Swift itself allocates ends the program where there is no memory.
            case .malloc: aligned_alloc(alignment, max(1, (byteCount + alignment - 1) / alignment) * alignment)
            case .pages: takePages(capacity)
            case .hugePages: huge.take(capacity)?.start ?? mapHuge(capacity)
            }
        guard let start else { throw noMemory }
        return UnsafeMutableRawBufferPointer(start: start, count: byteCount)
    }

    static var noMemory: DipperError { .imageTooLarge.with(detail: "there is no memory") }

    /// - Parameter memory: as ``allocate(_:)`` gave it.
    static func free(_ memory: UnsafeMutableRawBufferPointer) {
        guard let start = memory.baseAddress else { return }
        let capacity = capacity(for: memory.count)
        switch source(of: capacity) {
        case .malloc: Foundation.free(start)
        case .pages, .hugePages: release(pool(of: capacity).give(start, capacity))
        }
    }

    /// Gives all that is not in use back to the system.
    static func trim() {
        for pool in pools { release(pool.empty()) }
    }

    /// Keeps nothing for reuse until as many ``resumePooling()`` have come.
    static func pausePooling() {
        for pool in pools { release(pool.pause()) }
    }

    static func resumePooling() {
        for pool in pools { pool.resume() }
    }

    /// Bytes kept for reuse.
    static var pooled: Int { pools.reduce(0) { $0 + $1.byteCount } }

    /// What is really taken for a number of bytes: whole pages, up to an eighth more; of large blocks whole huge pages,
    /// and those of nearly the same size are alike, so that one serves for the other: up to an eighth more, or less than
    /// a huge page.
    static func capacity(for byteCount: Int) -> Int {
        guard byteCount >= smallestPaged else { return byteCount }
        let power = 1 << (Int.bitWidth - 1 - byteCount.leadingZeroBitCount)
        let step = byteCount >= smallestHuge ? max(hugePage, power / 8) : PixelRegions.pageSize
        return (byteCount + step - 1) / step * step
    }

    private static func source(of capacity: Int) -> Source {
        if capacity >= smallestHuge { return .hugePages }
        // Address Sanitizer watches the ends of what malloc gives.
        return capacity < smallestPaged || pixels_are_sanitized() ? .malloc : .pages
    }

    private static var pools: [PixelPool] { [small, middle, huge] }

    private static func pool(of capacity: Int) -> PixelPool {
        capacity >= smallestHuge ? huge : capacity >= smallestMiddle ? middle : small
    }

    /// One that is kept may be up to twice as long: its end goes back to the system.
    private static func takePages(_ capacity: Int) -> UnsafeMutableRawPointer? {
        guard let kept = pool(of: capacity).take(capacity, upTo: capacity * 2), let start = kept.start else {
            return regions.allocate(capacity)
        }
        if kept.capacity > capacity { regions.free(start + capacity, kept.capacity - capacity) }
        return start
    }

    private static func mapHuge(_ capacity: Int) -> UnsafeMutableRawPointer? {
        // Huge pages begin at multiples of their size: what stands out at both ends goes back.
        let all = mmap(
            nil, capacity + hugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        guard let all, all != MAP_FAILED else { return nil }
        let before = (hugePage - Int(bitPattern: all) % hugePage) % hugePage
        let start = all + before
        if before > 0 { munmap(all, before) }
        munmap(start + capacity, hugePage - before)
        // A wish, which a kernel without huge pages does not grant.
        madvise(start, capacity, Int32(MADV_HUGEPAGE))
        return start
    }

    private static func release(_ blocks: [PixelPool.Block]) {
        for block in blocks {
            guard let start = block.start else { continue }
            if block.capacity >= smallestHuge {
                munmap(start, block.capacity)
            } else {
                regions.free(start, block.capacity)
            }
        }
    }
}
