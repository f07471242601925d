import Foundation

/// Takes whole pages from large regions of addresses. The caller gives the pages of freed blocks back to the system at
/// once, so fragmentation affects only addresses. malloc gives back only memory at the end of its arenas, and a mapping
/// for each block would reach the kernel's limit on mappings.
struct PixelRegions: Sendable {
    private struct Region: Sendable {
        let start: UInt
        var free: RangeSet<Int>
    }

    static let pageSize = Int(sysconf(Int32(_SC_PAGESIZE)))

    private let regionSize: Int
    /// Ordered by address.
    private var regions: [Region] = []

    /// In bytes, whole pages; no block can be larger.
    init(regionSize: Int) {
        self.regionSize = regionSize
    }

    var count: Int { regions.count }

    private var allPages: RangeSet<Int> { RangeSet(0..<regionSize / Self.pageSize) }

    /// Memory of zeros at the start of a page, for a length of whole pages, at least one; `nil` if the system has none.
    mutating func allocate(_ byteCount: Int) -> PixelBlock? {
        precondition(
            byteCount > 0 && byteCount <= regionSize && byteCount % Self.pageSize == 0, "Blocks are whole pages.")
        if let block = take(byteCount) { return block }
        guard let start = map() else { return nil }
        let index = regions.firstIndex { $0.start > start } ?? regions.count
        regions.insert(Region(start: start, free: allPages), at: index)
        return take(byteCount)
    }

    /// Takes pages from the first run that is long enough, so that the end of a region is used last.
    private mutating func take(_ byteCount: Int) -> PixelBlock? {
        let wanted = byteCount / Self.pageSize
        for index in regions.indices {
            guard let run = regions[index].free.ranges.first(where: { $0.count >= wanted }) else { continue }
            regions[index].free.remove(contentsOf: run.lowerBound..<run.lowerBound + wanted)
            let address = regions[index].start + UInt(run.lowerBound * Self.pageSize)
            return UnsafeMutableRawPointer(bitPattern: address).map { PixelBlock(start: $0, capacity: byteCount) }
        }
        return nil
    }

    /// Frees a block, or whole pages at its end, which the system must have back already. Returns a region that the
    /// caller must unmap.
    mutating func free(_ block: PixelBlock) -> PixelBlock? {
        let address = UInt(bitPattern: block.start)
        guard let index = regions.lastIndex(where: { $0.start <= address }) else {
            preconditionFailure("A block is in a region.")
        }
        let page = Int(address - regions[index].start) / Self.pageSize
        precondition(!regions[index].free.contains(page), "Pages are given back once.")
        regions[index].free.insert(contentsOf: page..<page + block.capacity / Self.pageSize)
        // One free region stays, for callers that take and give back the same block again and again.
        let whole = allPages
        guard regions[index].free == whole, regions.count(where: { $0.free == whole }) > 1 else { return nil }
        let unused = UnsafeMutableRawPointer(bitPattern: regions.remove(at: index).start)
        return unused.map { PixelBlock(start: $0, capacity: regionSize) }
    }

    private func map() -> UInt? {
        let all = mmap(nil, regionSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
        guard let all, all != MAP_FAILED else { return nil }
        // Where the kernel uses huge pages by default, one would keep freed pages resident.
        madvise(all, regionSize, Int32(MADV_NOHUGEPAGE))
        return UInt(bitPattern: all)
    }
}
