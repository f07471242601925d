import Foundation
import Synchronization

/// Memory for bodies of usual sizes: runs of pages, cut from chunks of 2 MB that are used again.
///
/// The first touch of fresh pages is the largest cost of a small body that is kept, so pages that are given back serve
/// the next bodies. A body that outlives its neighbours does not hold their memory: the holes are filled again, and a
/// chunk of which little is in use gives its other pages back to the system, if there are more than a few.
final class PageChunks: Sendable {
    static let shared = PageChunks()
    static let page = max(4_096, sysconf(Int32(_SC_PAGESIZE)))
    /// The largest run in bytes.
    static let largest = 256 << 10
    private static let chunk = 2 << 20
    private static let pages = chunk / page
    /// The number of chunks that may be empty, or in part, without giving memory back.
    private static let mostSpare = 4

    /// Which pages of a chunk are in use.
    private final class Chunk {
        var used: [Bool] = Array(repeating: false, count: PageChunks.pages)
        var count = 0
        /// The page at which the search for room begins.
        var next = 0
        /// Whether pages that are not in use may hold memory of the system.
        var isWarm = false
        /// Whether the chunk waits to be filled.
        var isListed = false

        /// Finds a run of unused pages from the place of the last one on.
        func take(_ wanted: Int) -> Int? {
            guard count + wanted <= PageChunks.pages else { return nil }
            for range in [next..<PageChunks.pages, 0..<min(PageChunks.pages, next + wanted)] {
                var length = 0
                for index in range {
                    length = used[index] ? 0 : length + 1
                    if length == wanted {
                        let first = index - wanted + 1
                        mark(first, wanted, true)
                        next = index + 1
                        isWarm = true
                        return first
                    }
                }
            }
            return nil
        }

        /// Gives the memory of all unused pages back to the system.
        func cool(at address: UInt) {
            isWarm = false
            var first = 0
            while first < PageChunks.pages {
                let end = used[first...].firstIndex(of: true) ?? PageChunks.pages
                if end > first { Self.cool(address, first, end - first) }
                first = end + 1
            }
        }

        static func cool(_ address: UInt, _ first: Int, _ length: Int) {
            let start = UnsafeMutableRawPointer(bitPattern: address + UInt(first * PageChunks.page))
            madvise(start, length * PageChunks.page, Int32(MADV_DONTNEED))
        }

        func mark(_ first: Int, _ length: Int, _ isUsed: Bool) {
            for index in first..<first + length { used[index] = isUsed }
            count += isUsed ? length : -length
        }
    }

    private struct State {
        /// The chunks by their address.
        var chunks: [UInt: Chunk] = [:]
        /// The chunk from which runs are cut.
        var current: UInt?
        /// Chunks that are half empty, or were so; the last one is filled next.
        var roomy: [UInt] = []
        /// The number of empty chunks among them.
        var spare = 0

        /// Returns the chunk to fill next: one that has room, or a new one; `nil` if there is no memory.
        mutating func next() -> UInt? {
            while let address = roomy.popLast() {
                // It may have been released since.
                guard let chunk = chunks[address], chunk.isListed else { continue }
                chunk.isListed = false
                if chunk.count == 0 { spare -= 1 }
                return address
            }
            guard let start = PageChunks.map() else { return nil }
            // Pages of 2 MB cost less, but a program of a few bodies does not need a whole one.
            if !chunks.isEmpty { madvise(start, PageChunks.chunk, Int32(MADV_HUGEPAGE)) }
            chunks[UInt(bitPattern: start)] = Chunk()
            return UInt(bitPattern: start)
        }

        mutating func give(_ address: UInt, _ first: Int, _ length: Int) {
            guard let chunk = chunks[address] else { return }
            chunk.mark(first, length, false)
            guard address != current, chunk.count * 2 <= PageChunks.pages else { return }
            if chunk.count == 0, spare == PageChunks.mostSpare {
                chunks[address] = nil
                munmap(UnsafeMutableRawPointer(bitPattern: address), PageChunks.chunk)
                return
            }
            if chunk.count == 0 { spare += 1 }
            if !chunk.isListed { roomy.append(address) }
            chunk.isListed = true
            // A few chunks stay warm: the next bodies come soon.
            if chunks.count > PageChunks.mostSpare, chunk.count > 0, chunk.count * 8 <= PageChunks.pages {
                if chunk.isWarm { chunk.cool(at: address) } else { Chunk.cool(address, first, length) }
            }
        }
    }

    private let state = Mutex(State())

    /// The memory of the chunks in bytes.
    var size: Int { state.withLock { $0.chunks.count * Self.chunk } }

    /// Takes a run of whole pages; `nil` if there is no memory.
    func take(_ length: Int) -> UnsafeMutableRawPointer? {
        let wanted = length / Self.page
        let address: UInt? = state.withLock { state in
            while true {
                if let current = state.current, let first = state.chunks[current]?.take(wanted) {
                    return current + UInt(first * Self.page)
                }
                state.current = state.next()
                if state.current == nil { return nil }
            }
        }
        return address.flatMap { UnsafeMutableRawPointer(bitPattern: $0) }
    }

    /// Gives pages back that ``take(_:)`` has returned.
    func give(_ start: UnsafeMutableRawPointer, _ length: Int) {
        let address = UInt(bitPattern: start)
        let base = address & ~UInt(Self.chunk - 1)
        state.withLock { $0.give(base, Int(address - base) / Self.page, length / Self.page) }
    }

    /// Maps a chunk at a multiple of its size.
    private static func map() -> UnsafeMutableRawPointer? {
        guard let start = BufferMemory.map(2 * chunk) else { return nil }
        let address = UInt(bitPattern: start)
        let aligned = (address + UInt(chunk - 1)) & ~UInt(chunk - 1)
        let before = Int(aligned - address)
        if before > 0 { munmap(start, before) }
        munmap(start + before + chunk, chunk - before)
        return start + before
    }
}
