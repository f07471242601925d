import CPixels
import Foundation
import Synchronization

/// The allocator of memory for pixels.
///
/// Fresh pages are expensive: the kernel clears each page at its first touch, which for a large picture takes longer
/// than many decodes. So freed blocks are kept for the next picture, up to a limit, and large blocks are requested as
/// huge pages. A reused block still holds its last contents: the new owner must write all of it. All other pages go
/// back to the system at once, so that resident memory follows the memory in use.
enum PixelMemory {
    private enum Source {
        case malloc, pages, hugePages
    }

    /// Larger blocks begin at a page.
    static let alignment = 64
    /// In bytes. Smaller blocks come from malloc: rounding them up to whole pages would waste more than an eighth.
    static let smallestPaged = max(32 << 10, PixelRegions.pageSize * 8)
    /// In bytes. With huge pages a first touch took 0.02 to 0.04 of the time at 4 MiB, and 0.1 at 48 MiB.
    static let smallestHuge = 4 << 20
    private static let hugePage = 2 << 20

    /// In bytes. Blocks from this size on have a separate pool, so that thumbnails do not fill it.
    private static let smallestMiddle = 1 << 18

    // Pools hold memory beyond the limits of all caches, and fill over time. The smaller the blocks, the less a first
    // touch matters compared with a decode, so the pools of smaller blocks are smaller.
    private static let small = PixelPool(limit: 4 << 20)
    private static let middle = PixelPool(limit: 16 << 20)
    private static let huge = PixelPool(limit: 64 << 20)
    private static let regions = PixelRegions(regionSize: 32 << 20)

    /// The contents are undefined, and the caller gives the memory back with ``free(_:)``. Throws
    /// `DipperError.imageTooLarge` if the system does not have such a block.
    static func allocate(_ byteCount: Int) throws(DipperError) -> UnsafeMutableRawBufferPointer {
        // No address space is this large, and below this limit rounding up cannot overflow.
        guard byteCount <= Int.max / 4 else { throw noMemory }
        let capacity = capacity(for: byteCount)
        let start: UnsafeMutableRawPointer? =
            switch source(of: capacity) {
            // Swift's own allocation would end the program if there were no memory.
            case .malloc: aligned_alloc(alignment, max(1, (byteCount + alignment - 1) / alignment) * alignment)
            case .pages: takePages(capacity)
            case .hugePages: huge.take(capacity)?.start ?? mapHuge(capacity)
            }
        guard let start else { throw noMemory }
        return UnsafeMutableRawBufferPointer(start: start, count: byteCount)
    }

    static var noMemory: DipperError { .imageTooLarge.with(detail: "there is no memory") }

    /// Frees memory that ``allocate(_:)`` returned, or keeps it for the next picture.
    static func free(_ memory: UnsafeMutableRawBufferPointer) {
        guard let start = memory.baseAddress else { return }
        let capacity = capacity(for: memory.count)
        switch source(of: capacity) {
        case .malloc: Foundation.free(start)
        case .pages, .hugePages: release(pool(of: capacity).give(start, capacity))
        }
    }

    /// Gives all memory that is not in use back to the system.
    static func trim() {
        for pool in pools { release(pool.empty()) }
    }

    /// Frees what is kept, and keeps nothing until ``resumePooling()`` has been called as many times.
    static func pausePooling() {
        for pool in pools { release(pool.pause()) }
    }

    static func resumePooling() {
        for pool in pools { pool.resume() }
    }

    /// In bytes.
    static var pooled: Int { pools.reduce(0) { $0 + $1.byteCount } }

    /// The size of the block allocated for a number of bytes. Below ``smallestPaged`` it is the number itself; above,
    /// whole pages, up to an eighth more. Large blocks take whole huge pages, up to an eighth more or less than one
    /// huge page more: blocks of nearly the same size get equal sizes, so that one can replace the other.
    static func capacity(for byteCount: Int) -> Int {
        guard byteCount >= smallestPaged else { return byteCount }
        let power = 1 << (Int.bitWidth - 1 - byteCount.leadingZeroBitCount)
        let step = byteCount >= smallestHuge ? max(hugePage, power / 8) : PixelRegions.pageSize
        return (byteCount + step - 1) / step * step
    }

    private static func source(of capacity: Int) -> Source {
        if capacity >= smallestHuge { return .hugePages }
        // Address Sanitizer checks the bounds of malloc's blocks only.
        return capacity < smallestPaged || pixels_are_sanitized() ? .malloc : .pages
    }

    private static var pools: [PixelPool] { [small, middle, huge] }

    private static func pool(of capacity: Int) -> PixelPool {
        capacity >= smallestHuge ? huge : capacity >= smallestMiddle ? middle : small
    }

    /// Takes a kept block of up to twice the size, and gives its end back to the system; otherwise allocates a block.
    private static func takePages(_ capacity: Int) -> UnsafeMutableRawPointer? {
        guard let kept = pool(of: capacity).take(capacity, upTo: capacity * 2), let start = kept.start else {
            return regions.allocate(capacity)
        }
        if kept.capacity > capacity { regions.free(start + capacity, kept.capacity - capacity) }
        return start
    }

    private static func mapHuge(_ capacity: Int) -> UnsafeMutableRawPointer? {
        // Huge pages begin at multiples of their size: unmap the excess at both ends.
        let all = mmap(
            nil, capacity + hugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        guard let all, all != MAP_FAILED else { return nil }
        let before = (hugePage - Int(bitPattern: all) % hugePage) % hugePage
        let start = all + before
        if before > 0 { munmap(all, before) }
        munmap(start + capacity, hugePage - before)
        // A hint, which a kernel without huge pages ignores.
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

/// A pool of memory blocks for the next pictures. Above its limit it gives up the oldest blocks first.
final class PixelPool: Sendable {
    /// Stored as an address so that it may pass between threads.
    struct Block {
        fileprivate let address: UInt
        let capacity: Int

        var start: UnsafeMutableRawPointer? { UnsafeMutableRawPointer(bitPattern: address) }
    }

    private struct State {
        /// Oldest first.
        var blocks: [Block] = []
        var byteCount = 0
        /// Above zero the pool keeps no block.
        var pauses = 0
    }

    /// In bytes.
    let limit: Int
    private let state = Mutex(State())

    init(limit: Int) {
        self.limit = limit
    }

    /// Takes the block of exactly this length that was given last, or else the shortest longer one up to a length.
    func take(_ capacity: Int, upTo longest: Int = 0) -> Block? {
        state.withLock { state in
            var best: Int?
            for index in state.blocks.indices.reversed() {
                let found = state.blocks[index].capacity
                if found == capacity {
                    best = index
                    break
                }
                guard found > capacity, found <= longest else { continue }
                if best.map({ found < state.blocks[$0].capacity }) ?? true { best = index }
            }
            guard let best else { return nil }
            state.byteCount -= state.blocks[best].capacity
            return state.blocks.remove(at: best)
        }
    }

    /// Returns blocks that the caller must free, possibly including this one. They are never freed under the lock.
    func give(_ start: UnsafeMutableRawPointer, _ capacity: Int) -> [Block] {
        let block = Block(address: UInt(bitPattern: start), capacity: capacity)
        guard capacity <= limit else { return [block] }
        return state.withLock { state in
            if state.pauses > 0 { return [block] }
            state.blocks.append(block)
            state.byteCount += capacity
            var count = 0
            while state.byteCount > limit {
                state.byteCount -= state.blocks[count].capacity
                count += 1
            }
            guard count > 0 else { return [] }
            let oldest = Array(state.blocks.prefix(count))
            state.blocks.removeFirst(count)
            return oldest
        }
    }

    /// The caller must free the blocks.
    func empty() -> [Block] {
        state.withLock { state in
            let blocks = state.blocks
            state = State(pauses: state.pauses)
            return blocks
        }
    }

    /// The caller must free the blocks. The pool keeps no block until each pause has ended.
    func pause() -> [Block] {
        state.withLock { state in
            let blocks = state.blocks
            state = State(pauses: state.pauses + 1)
            return blocks
        }
    }

    func resume() {
        state.withLock { $0.pauses -= 1 }
    }

    var byteCount: Int { state.withLock { $0.byteCount } }
}
