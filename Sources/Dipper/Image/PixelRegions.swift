import Foundation
import Synchronization

/// Memory in whole pages, out of large regions of addresses. What is given back goes to the system at once, wherever it
/// lies: only addresses are scattered, never memory.
///
/// malloc is no place for pictures: it gives back what lies at the end of its arenas, and thousands of blocks that come
/// and go in another order than they came leave holes everywhere else. Each block in a mapping of its own would meet the
/// kernel's limit on their number.
final class PixelRegions: Sendable {
    private struct Region: Sendable {
        let start: UInt
        var pages: PageRuns
    }

    static let pageSize = Int(sysconf(Int32(_SC_PAGESIZE)))

    /// Of a region, in bytes.
    let regionSize: Int
    /// By address.
    private let regions = Mutex<[Region]>([])

    /// - Parameter regionSize: in bytes, whole pages; no block can be larger.
    init(regionSize: Int) {
        self.regionSize = regionSize
    }

    deinit {
        for region in regions.withLock({ $0 }) { unmap(region.start) }
    }

    /// Regions there are.
    var count: Int { regions.withLock { $0.count } }

    /// Memory that is cleared, at the start of a page; `nil` if the system has none.
    /// - Parameter byteCount: whole pages, one at least.
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

    /// Gives memory back to the system.
    /// - Parameters:
    ///   - start: of a block, or of a later page of it.
    ///   - byteCount: whole pages.
    func free(_ start: UnsafeMutableRawPointer, _ byteCount: Int) {
        // Before the addresses are anybody else's.
        madvise(start, byteCount, Int32(MADV_DONTNEED))
        let address = UInt(bitPattern: start)
        let unused = regions.withLock { regions -> UInt? in
            guard let index = regions.lastIndex(where: { $0.start <= address }) else {
                preconditionFailure("A block is in a region.")
            }
            let page = Int(address - regions[index].start) / Self.pageSize
            regions[index].pages.give(page..<page + byteCount / Self.pageSize)
            // One stays, for who takes and gives the same block again and again.
            guard regions[index].pages.allFree, regions.count(where: \.pages.allFree) > 1 else { return nil }
            return regions.remove(at: index).start
        }
        if let unused { unmap(unused) }
    }

    private func map() -> UInt? {
        let all = mmap(nil, regionSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
        guard let all, all != MAP_FAILED else { return nil }
        // Where the system uses them unasked, a huge page would hold what was given back.
        madvise(all, regionSize, Int32(MADV_NOHUGEPAGE))
        return UInt(bitPattern: all)
    }

    private func unmap(_ start: UInt) {
        munmap(UnsafeMutableRawPointer(bitPattern: start), regionSize)
    }
}
