import Foundation
import Synchronization

/// Allocates whole pages from large regions of addresses. Freed pages go back to the system at once, wherever they are
/// in a region: fragmentation affects only addresses, not memory.
///
/// malloc does not suit pictures: it gives back only memory at the end of its arenas, and thousands of blocks that are
/// freed in another order than they were allocated leave holes everywhere else. A mapping for each block would reach
/// the kernel's limit on mappings.
final class PixelRegions: Sendable {
    private struct Region: Sendable {
        let start: UInt
        var pages: PageRuns
    }

    static let pageSize = Int(sysconf(Int32(_SC_PAGESIZE)))

    let regionSize: Int
    /// Ordered by address.
    private let regions = Mutex<[Region]>([])

    /// In bytes, whole pages; no block can be larger.
    init(regionSize: Int) {
        self.regionSize = regionSize
    }

    deinit {
        for region in regions.withLock({ $0 }) { unmap(region.start) }
    }

    var count: Int { regions.withLock { $0.count } }

    /// Memory of zeros at the start of a page, for a length of whole pages, at least one; `nil` if the system has none.
    func allocate(_ byteCount: Int) -> UnsafeMutableRawPointer? {
        let wanted = byteCount / Self.pageSize
        precondition(wanted > 0 && byteCount <= regionSize && byteCount % Self.pageSize == 0, "Blocks are whole pages.")
        while true {
            if let start = regions.withLock({ Self.take(wanted, from: &$0) }) { return .init(bitPattern: start) }
            guard let start = map() else { return nil }
            regions.withLock { regions in
                let index = regions.firstIndex { $0.start > start } ?? regions.count
                regions.insert(Region(start: start, pages: PageRuns(count: regionSize / Self.pageSize)), at: index)
            }
        }
    }

    private static func take(_ wanted: Int, from regions: inout [Region]) -> UInt? {
        for index in regions.indices {
            if let page = regions[index].pages.take(wanted) { return regions[index].start + UInt(page * pageSize) }
        }
        return nil
    }

    /// Gives whole pages back to the system. `start` is the start of a block, or of a later page of it.
    func free(_ start: UnsafeMutableRawPointer, _ byteCount: Int) {
        // Release the pages before another thread can take their addresses.
        madvise(start, byteCount, Int32(MADV_DONTNEED))
        let address = UInt(bitPattern: start)
        let unused = regions.withLock { regions -> UInt? in
            guard let index = regions.lastIndex(where: { $0.start <= address }) else {
                preconditionFailure("A block is in a region.")
            }
            let page = Int(address - regions[index].start) / Self.pageSize
            regions[index].pages.give(page..<page + byteCount / Self.pageSize)
            // One free region stays, for callers that take and give back the same block again and again.
            guard regions[index].pages.allFree, regions.count(where: \.pages.allFree) > 1 else { return nil }
            return regions.remove(at: index).start
        }
        if let unused { unmap(unused) }
    }

    private func map() -> UInt? {
        let all = mmap(nil, regionSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
        guard let all, all != MAP_FAILED else { return nil }
        // Where the kernel uses huge pages by default, one would keep freed pages resident.
        madvise(all, regionSize, Int32(MADV_NOHUGEPAGE))
        return UInt(bitPattern: all)
    }

    private func unmap(_ start: UInt) {
        munmap(UnsafeMutableRawPointer(bitPattern: start), regionSize)
    }
}

/// Ordered runs that are each as long as possible.
private struct PageRuns {
    /// Free and taken.
    let count: Int
    private(set) var free: [Range<Int>]

    init(count: Int) {
        self.count = count
        free = count > 0 ? [0..<count] : []
    }

    var allFree: Bool { free == [0..<count] }

    /// Takes at least one page, all consecutive, from the first run that is long enough, so that the end of a region is
    /// used last. Returns the first page; `nil` if no run is long enough.
    mutating func take(_ wanted: Int) -> Int? {
        guard let index = free.firstIndex(where: { $0.count >= wanted }) else { return nil }
        let run = free[index]
        if run.count == wanted {
            free.remove(at: index)
        } else {
            free[index] = run.lowerBound + wanted..<run.upperBound
        }
        return run.lowerBound
    }

    /// The pages were taken together, or are a part of such pages.
    mutating func give(_ pages: Range<Int>) {
        // Find the first run after the pages.
        var (low, high) = (0, free.count)
        while low < high {
            let middle = (low + high) / 2
            if free[middle].lowerBound < pages.upperBound { low = middle + 1 } else { high = middle }
        }
        var (start, end) = (pages.lowerBound, pages.upperBound)
        var (first, last) = (low, low)
        if low > 0 {
            precondition(free[low - 1].upperBound <= start, "Pages are given back once.")
            if free[low - 1].upperBound == start {
                start = free[low - 1].lowerBound
                first = low - 1
            }
        }
        if low < free.count, free[low].lowerBound == end {
            end = free[low].upperBound
            last = low + 1
        }
        free.replaceSubrange(first..<last, with: CollectionOfOne(start..<end))
    }
}
