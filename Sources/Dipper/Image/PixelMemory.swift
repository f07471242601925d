import Foundation

/// Where memory for pixels comes from.
///
/// Fresh pages are dear: the kernel clears each at its first touch, which for a large picture takes longer than many a
/// decode. So blocks that are given back are kept for the next picture, within a limit, and large ones are asked for
/// in huge pages. A block holds what was in it last: whoever takes it writes all of it.
enum PixelMemory {
    /// At least; huge blocks begin with a page.
    static let alignment = 64
    /// Smaller blocks, in bytes, are left to malloc.
    static let smallestPooled = 1 << 18
    /// From here on, in bytes, huge pages are asked for: at 4 MiB a first touch took 0.02 to 0.04 of the time, at 48 MiB
    /// 0.1.
    static let smallestHuge = 4 << 20
    private static let hugePage = 2 << 20

    private static let pool = PixelPool(limit: 64 << 20)

    /// Memory with anything in it, which the caller gives back by ``free(_:)``.
    /// - Throws: `DipperError.imageTooLarge` if the system has no such block.
    static func allocate(_ byteCount: Int) throws(DipperError) -> UnsafeMutableRawBufferPointer {
        let capacity = capacity(for: byteCount)
        guard capacity >= smallestPooled else { return .allocate(byteCount: byteCount, alignment: alignment) }
        let start = if let kept = pool.take(capacity) { kept } else { try obtain(capacity) }
        return UnsafeMutableRawBufferPointer(start: start, count: byteCount)
    }

    /// - Parameter memory: as ``allocate(_:)`` gave it.
    static func free(_ memory: UnsafeMutableRawBufferPointer) {
        let capacity = capacity(for: memory.count)
        guard capacity >= smallestPooled, let start = memory.baseAddress else { return memory.deallocate() }
        release(pool.give(start, capacity))
    }

    /// Gives all that is not in use back to the system.
    static func trim() {
        release(pool.empty())
    }

    /// Keeps nothing for reuse until as many ``resumePooling()`` have come.
    static func pausePooling() {
        release(pool.pause())
    }

    static func resumePooling() {
        pool.resume()
    }

    /// Bytes kept for reuse.
    static var pooled: Int { pool.byteCount }

    /// What is really taken for a number of bytes: blocks of nearly the same size are alike, so that one serves for the
    /// other; up to an eighth is wasted, and less than a huge page of huge blocks.
    static func capacity(for byteCount: Int) -> Int {
        guard byteCount >= smallestPooled else { return byteCount }
        let power = 1 << (Int.bitWidth - 1 - byteCount.leadingZeroBitCount)
        let step = byteCount >= smallestHuge ? max(hugePage, power / 8) : power / 8
        return (byteCount + step - 1) / step * step
    }

    private static func obtain(_ capacity: Int) throws(DipperError) -> UnsafeMutableRawPointer {
        guard capacity >= smallestHuge else {
            return UnsafeMutableRawPointer.allocate(byteCount: capacity, alignment: alignment)
        }
        // Huge pages begin at multiples of their size: what stands out at both ends goes back.
        let all = mmap(
            nil, capacity + hugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        guard let all, all != MAP_FAILED else { throw .imageTooLarge.with(detail: "there is no memory") }
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
                start.deallocate()
            }
        }
    }
}
