import Foundation
import Testing

@testable import Dipper

@Suite("Memory in whole pages goes back to the system, wherever it lies", .timeLimit(.minutes(5)))
struct PixelRegionsTests {
    private let page = PixelRegions.pageSize

    /// Full of something.
    private func block(_ regions: PixelRegions, pages: Int) throws -> UnsafeMutableRawPointer {
        let start = try #require(regions.allocate(pages * page))
        memset(start, 0xA5, pages * page)
        return start
    }

    /// Pages of a range that hold memory.
    private func resident(_ start: UnsafeMutableRawPointer, pages: Int) -> Int {
        var states = [UInt8](repeating: 0, count: pages)
        guard mincore(start, pages * page, &states) == 0 else { return -1 }
        return states.count { $0 & 1 == 1 }
    }

    @Test("What is given back between others holds no memory, and its addresses serve again, cleared")
    func holes() throws {
        let regions = PixelRegions(regionSize: 64 * page)
        let blocks = try (0..<8).map { _ in try block(regions, pages: 8) }
        for index in stride(from: 1, to: 8, by: 2) { regions.free(blocks[index], 8 * page) }
        for (index, block) in blocks.enumerated() { #expect(resident(block, pages: 8) == (index % 2 == 0 ? 8 : 0)) }
        #expect(blocks[2].load(as: UInt8.self) == 0xA5)
        let next = try #require(regions.allocate(8 * page))
        #expect(next == blocks[1])
        #expect((0..<8 * page).allSatisfy { next.load(fromByteOffset: $0, as: UInt8.self) == 0 })
        // Not in a hole that is too small.
        #expect(regions.count == 1)
        _ = try block(regions, pages: 9)
        #expect(regions.count == 2)
    }

    @Test("The end of a block can go before the rest")
    func ends() throws {
        let regions = PixelRegions(regionSize: 16 * page)
        let whole = try block(regions, pages: 16)
        regions.free(whole + 10 * page, 6 * page)
        #expect(resident(whole, pages: 16) == 10)
        #expect(try block(regions, pages: 6) == whole + 10 * page)
        #expect(regions.count == 1)
    }

    @Test("Blocks that come and go in any order leave no memory behind")
    func noFragments() throws {
        let regions = PixelRegions(regionSize: 4_096 * page)
        let first = try block(regions, pages: 1)
        var random = SteadyNumbers(6)
        var live: [(start: UnsafeMutableRawPointer, pages: Int)] = []
        var held = 1
        for _ in 0..<2_000 {
            // As a cache at its limit does, but for the order.
            while held > 1_000 {
                let (start, pages) = live.remove(at: Int.random(in: 0..<live.count, using: &random))
                regions.free(start, pages * page)
                held -= pages
            }
            let pages = Int.random(in: 8...70, using: &random)
            live.append((try block(regions, pages: pages), pages))
            held += pages
        }
        #expect(regions.count == 1)
        #expect(resident(first, pages: 4_096) == held)
    }

    @Test("Of regions that nobody uses one stays")
    func unused() throws {
        let regions = PixelRegions(regionSize: 8 * page)
        let blocks = try (0..<4).map { _ in try block(regions, pages: 8) }
        #expect(regions.count == 4)
        for block in blocks { regions.free(block, 8 * page) }
        #expect(regions.count == 1)
        _ = try block(regions, pages: 8)
        #expect(regions.count == 1)
    }

    @Test("Nobody has the pages of another, and those that are free together are one run")
    func runs() {
        var random = SteadyNumbers(7)
        var runs = PageRuns(count: 100)
        var taken = [Bool](repeating: false, count: 100)
        var live: [Range<Int>] = []
        for _ in 0..<5_000 {
            let wanted = Int.random(in: 1...20, using: &random)
            if Bool.random(using: &random), let start = runs.take(wanted) {
                #expect(taken[start..<start + wanted].allSatisfy { !$0 })
                for page in start..<start + wanted { taken[page] = true }
                live.append(start..<start + wanted)
            } else if !live.isEmpty {
                var pages = live.remove(at: Int.random(in: 0..<live.count, using: &random))
                // Sometimes only the end.
                if pages.count > 1, Bool.random(using: &random) {
                    let middle = pages.lowerBound + pages.count / 2
                    live.append(pages.lowerBound..<middle)
                    pages = middle..<pages.upperBound
                }
                runs.give(pages)
                for page in pages { taken[page] = false }
            }
            let free = runs.free
            #expect(free.flatMap { $0 } == (0..<100).filter { !taken[$0] })
            #expect(zip(free, free.dropFirst()).allSatisfy { $0.upperBound < $1.lowerBound })
        }
        for pages in live { runs.give(pages) }
        #expect(runs.allFree && runs.take(101) == nil && runs.take(100) == 0 && runs.take(1) == nil)
    }
}
