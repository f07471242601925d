import CPixels
import DipperData
import Foundation
import Synchronization

/// The allocator of memory for pixels.
///
/// Fresh pages are expensive: the kernel clears each at its first touch, which for a large picture takes longer than
/// many decodes. So freed blocks are kept for the next picture, with their last contents, up to a limit, and large
/// blocks are huge pages. All other pages go back to the system at once.
enum PixelMemory {
    private static let alignment = 64
    /// In bytes. Smaller blocks come from malloc: rounding them up to whole pages would waste more than an eighth.
    private static let smallestPaged = max(32 << 10, PixelRegions.pageSize * 8)
    /// In bytes. With huge pages a first touch took 0.02 to 0.04 of the time at 4 MiB, and 0.1 at 48 MiB.
    private static let smallestHuge = 4 << 20
    private static let hugePage = 2 << 20

    /// The contents are undefined. Throws `DipperError.imageTooLarge` if the system does not have such a block.
    static func allocate(_ byteCount: Int) throws(DipperError) -> UnsafeMutableRawBufferPointer {
        // No address space is this large, and below this limit rounding up cannot overflow.
        guard byteCount <= Int.max / 4 else { throw noMemory }
        let capacity = capacity(for: byteCount)
        // Swift's own allocation would end the program if there were no memory.
        let start =
            isFromMalloc(capacity)
            ? aligned_alloc(alignment, max(1, (byteCount + alignment - 1) / alignment) * alignment)
            : takePages(capacity)
        guard let start else { throw noMemory }
        return UnsafeMutableRawBufferPointer(start: start, count: byteCount)
    }

    static var noMemory: DipperError { .imageTooLarge.with(detail: "there is no memory") }

    static func free(_ memory: UnsafeMutableRawBufferPointer) {
        guard let start = memory.baseAddress else { return }
        let block = PixelBlock(start: start, capacity: capacity(for: memory.count))
        if isFromMalloc(block.capacity) {
            Foundation.free(start)
        } else {
            release(state.withLock { $0.give(block) })
        }
    }

    static func trim() {
        release(state.withLock { $0.trim(to: 0) })
    }

    /// Frees what is kept, and keeps nothing until ``resumePooling()`` has been called as many times.
    static func pausePooling() {
        let blocks = state.withLock { state in
            state.pauses += 1
            return state.trim(to: 0)
        }
        release(blocks)
    }

    static func resumePooling() {
        state.withLock { $0.pauses -= 1 }
    }

    /// Replaces the memory limit of a cache, in bytes: `nil` before the cache is made and after its end.
    static func changeLimit(of cache: ObjectIdentifier, to limit: Int?) {
        release(state.withLock { $0.changeLimit(of: cache, to: limit) })
    }

    /// In bytes.
    static var pooled: Int { state.withLock { $0.pools.reduce(0) { $0 + $1.byteCount } } }

    /// The number itself below ``smallestPaged``; above, whole pages, or for large blocks whole huge pages, so that
    /// blocks of nearly the same size can replace each other. At most an eighth more, or less than one huge page more.
    static func capacity(for byteCount: Int) -> Int {
        guard byteCount >= smallestPaged else { return byteCount }
        let power = 1 << (Int.bitWidth - 1 - byteCount.leadingZeroBitCount)
        let step = byteCount >= smallestHuge ? max(hugePage, power / 8) : PixelRegions.pageSize
        return (byteCount + step - 1) / step * step
    }

    /// Address Sanitizer checks the bounds of malloc's blocks only.
    private static func isFromMalloc(_ capacity: Int) -> Bool {
        capacity < smallestPaged || capacity < smallestHuge && pixels_are_sanitized()
    }

    private struct State {
        // Pools hold memory beyond the limits of all caches, at most an eighth of these. The smaller the blocks, the less
        // a first touch matters, so the smaller the pool. Thumbnails have a pool of their own, not to fill the next.
        private static let most = [4 << 20, 16 << 20, 64 << 20]
        private static let mostOfAll = most.reduce(0, +)
        var pools = most.map { _ in PixelPool() }
        private var share = mostOfAll
        private var limits: [ObjectIdentifier: Int] = [:]
        var pauses = 0
        var regions = PixelRegions(regionSize: 32 << 20)

        private static func pool(of capacity: Int) -> Int {
            capacity >= PixelMemory.smallestHuge ? 2 : capacity >= 1 << 18 ? 1 : 0
        }

        /// A kept block of the same size, or of up to twice the size, whose end goes back to the system. Huge pages are
        /// not divided.
        mutating func take(_ capacity: Int) -> PixelBlock? {
            let longest = capacity >= PixelMemory.smallestHuge ? capacity : capacity * 2
            return pools[Self.pool(of: capacity)].take(capacity...longest)
        }

        /// Returns the blocks that the caller must release, possibly this one.
        mutating func give(_ block: PixelBlock) -> [PixelBlock] {
            let index = Self.pool(of: block.capacity)
            let limit = Self.limit(of: index, share)
            guard pauses == 0, block.capacity <= limit else { return [block] }
            pools[index].blocks.append(block)
            return pools[index].trim(to: limit)
        }

        /// Without a cache the pools have their full size, for programs that only decode.
        mutating func changeLimit(of cache: ObjectIdentifier, to limit: Int?) -> [PixelBlock] {
            limits[cache] = limit
            share = limits.values.reduce(limits.isEmpty ? Self.mostOfAll : 0) {
                min(Self.mostOfAll, $0 + max(0, $1 / 8))
            }
            return trim(to: share)
        }

        mutating func trim(to share: Int) -> [PixelBlock] {
            pools.indices.flatMap { pools[$0].trim(to: Self.limit(of: $0, share)) }
        }

        private static func limit(of pool: Int, _ share: Int) -> Int { most[pool] * share / mostOfAll }
    }

    /// The system is given pages outside the lock.
    private static let state = Mutex(State())

    private static func takePages(_ capacity: Int) -> UnsafeMutableRawPointer? {
        let isHuge = capacity >= smallestHuge
        let block = state.withLock { state -> PixelBlock? in
            if let kept = state.take(capacity) { return kept }
            return isHuge ? nil : state.regions.allocate(capacity)
        }
        guard let block else { return isHuge ? mapHuge(capacity) : nil }
        if block.capacity > capacity {
            release([PixelBlock(start: block.start + capacity, capacity: block.capacity - capacity)])
        }
        return block.start
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

    private static func release(_ blocks: [PixelBlock]) {
        for block in blocks {
            var unused: PixelBlock? = block
            if block.capacity < smallestHuge {
                // Give the pages back before another thread can take their addresses.
                madvise(block.start, block.capacity, Int32(MADV_DONTNEED))
                unused = state.withLock { $0.regions.free(block) }
            }
            if let unused { munmap(unused.start, unused.capacity) }
        }
    }
}

// Whoever holds the block is the only one to use its memory.
struct PixelBlock: @unchecked Sendable {
    let start: UnsafeMutableRawPointer
    /// In bytes.
    let capacity: Int
}

/// Freed blocks for the next pictures.
private struct PixelPool {
    /// Oldest first.
    var blocks: [PixelBlock] = []

    var byteCount: Int { blocks.reduce(0) { $0 + $1.capacity } }

    /// Takes the shortest block whose length is in a range; of several, the one that was given last.
    mutating func take(_ capacities: ClosedRange<Int>) -> PixelBlock? {
        let fitting = blocks.indices.reversed().filter { capacities.contains(blocks[$0].capacity) }
        let shortest = fitting.min { blocks[$0].capacity < blocks[$1].capacity }
        return shortest.map { blocks.remove(at: $0) }
    }

    /// Gives up the oldest blocks first.
    mutating func trim(to limit: Int) -> [PixelBlock] {
        var excess = byteCount - limit
        var count = 0
        while excess > 0 {
            excess -= blocks[count].capacity
            count += 1
        }
        defer { blocks.removeFirst(count) }
        return Array(blocks.prefix(count))
    }
}

/// A cache's part in the memory that is kept for later pictures. When memory becomes short, that memory is released, and
/// none is kept until the pressure ends: displays and caches release their pictures a little later, and that memory must
/// go back to the system.
final class PixelPressure: Sendable {
    private let isShort = Atomic(false)

    init(limit: Int) { PixelMemory.changeLimit(of: ObjectIdentifier(self), to: limit) }

    deinit {
        follow(.normal)
        PixelMemory.changeLimit(of: ObjectIdentifier(self), to: nil)
    }

    func follow(_ level: MemoryPressure) {
        let isShort = level != .normal
        guard self.isShort.exchange(isShort, ordering: .relaxed) != isShort else { return }
        if isShort { PixelMemory.pausePooling() } else { PixelMemory.resumePooling() }
    }
}
