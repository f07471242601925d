import Foundation
import Synchronization

/// Allocates whole pages from large regions of addresses. Freed pages go back to the system at once, so fragmentation
/// affects only addresses. malloc gives back only memory at the end of its arenas, and a mapping for each block would
/// reach the kernel's limit on mappings.
final class PixelRegions: Sendable {
    private struct Region: Sendable {
        let start: UInt
        var free: RangeSet<Int>
    }

    static let pageSize = Int(sysconf(Int32(_SC_PAGESIZE)))

    private let regionSize: Int
    /// Ordered by address.
    private let regions = Mutex<[Region]>([])

    /// In bytes, whole pages; no block can be larger.
    init(regionSize: Int) {
        self.regionSize = regionSize
    }

    var count: Int { regions.withLock { $0.count } }

    private var allPages: Range<Int> { 0..<regionSize / Self.pageSize }

    /// Memory of zeros at the start of a page, for a length of whole pages, at least one; `nil` if the system has none.
    func allocate(_ byteCount: Int) -> UnsafeMutableRawPointer? {
        let wanted = byteCount / Self.pageSize
        precondition(wanted > 0 && byteCount <= regionSize && byteCount % Self.pageSize == 0, "Blocks are whole pages.")
        while true {
            if let start = regions.withLock({ Self.take(wanted, from: &$0) }) { return .init(bitPattern: start) }
            guard let start = map() else { return nil }
            regions.withLock { regions in
                let index = regions.firstIndex { $0.start > start } ?? regions.count
                regions.insert(Region(start: start, free: RangeSet(allPages)), at: index)
            }
        }
    }

    /// Takes pages from the first run that is long enough, so that the end of a region is used last.
    private static func take(_ wanted: Int, from regions: inout [Region]) -> UInt? {
        for index in regions.indices {
            guard let run = regions[index].free.ranges.first(where: { $0.count >= wanted }) else { continue }
            regions[index].free.remove(contentsOf: run.lowerBound..<run.lowerBound + wanted)
            return regions[index].start + UInt(run.lowerBound * pageSize)
        }
        return nil
    }

    /// Gives whole pages back to the system. `start` is the start of a block, or of a later page of it.
    func free(_ start: UnsafeMutableRawPointer, _ byteCount: Int) {
        // Release the pages before another thread can take their addresses.
        madvise(start, byteCount, Int32(MADV_DONTNEED))
        let address = UInt(bitPattern: start)
        let whole = RangeSet(allPages)
        let unused = regions.withLock { regions -> UInt? in
            guard let index = regions.lastIndex(where: { $0.start <= address }) else {
                preconditionFailure("A block is in a region.")
            }
            let page = Int(address - regions[index].start) / Self.pageSize
            precondition(!regions[index].free.contains(page), "Pages are given back once.")
            regions[index].free.insert(contentsOf: page..<page + byteCount / Self.pageSize)
            // One free region stays, for callers that take and give back the same block again and again.
            guard regions[index].free == whole, regions.count(where: { $0.free == whole }) > 1 else { return nil }
            return regions.remove(at: index).start
        }
        if let unused { munmap(UnsafeMutableRawPointer(bitPattern: unused), regionSize) }
    }

    private func map() -> UInt? {
        let all = mmap(nil, regionSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
        guard let all, all != MAP_FAILED else { return nil }
        // Where the kernel uses huge pages by default, one would keep freed pages resident.
        madvise(all, regionSize, Int32(MADV_NOHUGEPAGE))
        return UInt(bitPattern: all)
    }
}
