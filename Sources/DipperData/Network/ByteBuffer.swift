import Foundation
import ProcessShims
import Synchronization

/// A byte buffer that grows at its end and becomes a `Data` without a copy. Appending never changes the bytes of a
/// snapshot, and moves them only while there is none.
struct ByteBuffer: ~Copyable {
    private var block: MemoryBlock?
    private(set) var count = 0

    init() {}

    mutating func reserve(_ wanted: Int) -> Bool {
        let isAlone = isKnownUniquelyReferenced(&block)
        guard let current = block else {
            block = MemoryBlock(wanted)
            return block != nil
        }
        if wanted <= current.capacity || isAlone && current.resize(wanted) { return true }
        guard let copy = current.copy(count: count, capacity: wanted) else { return false }
        block = copy
        return true
    }

    mutating func append(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let source = bytes.baseAddress, bytes.count > 0 else { return true }
        let needed = count + bytes.count
        let capacity = block?.capacity ?? 0
        if needed > capacity, !reserve(max(needed, 2 * capacity)), !reserve(needed) { return false }
        block?.start.advanced(by: count).copyMemory(from: source, byteCount: bytes.count)
        count = needed
        return true
    }

    /// Shares the bytes, which must not be changed in place.
    func snapshot() -> Data { block?.data(count: count) ?? Data() }

    /// Empties the buffer. Copies only bytes that a snapshot shares; `nil` if there is no memory for that.
    mutating func takeData() -> Data? {
        defer {
            block = nil
            count = 0
        }
        let isAlone = isKnownUniquelyReferenced(&block)
        guard let current = block, count > 0 else { return Data() }
        let length = count
        let isTight = current.capacity <= length + length / 8 + 64
        // A mapping becomes shorter in place.
        if isAlone || current.isMapping, isTight || current.resize(length) { return current.data(count: length) }
        let copy = current.copy(count: length, capacity: length) ?? (isAlone ? current : nil)
        return copy?.data(count: length)
    }
}

/// Small blocks come from `malloc`, most bodies from ``PageChunks``. A large block is a mapping, so that freeing it
/// returns its memory: once one is freed, glibc would serve that size from its heap (`M_MMAP_THRESHOLD` of mallopt(3)).
// Bytes below the count of a snapshot never change, and the memory is freed with its last owner.
private final class MemoryBlock: @unchecked Sendable {
    private enum Home {
        case heap, pages, mapping

        init(_ count: Int) {
            self = count < PageChunks.page ? .heap : count <= PageChunks.largest ? .pages : .mapping
        }

        /// In bytes; whole pages unless from `malloc`.
        func capacity(for count: Int) -> Int {
            self == .heap ? max(1, count) : (count + PageChunks.page - 1) / PageChunks.page * PageChunks.page
        }

        func take(_ capacity: Int) -> UnsafeMutableRawPointer? {
            switch self {
            case .heap: malloc(capacity)
            case .pages: PageChunks.shared.take(capacity)
            case .mapping: PageChunks.map(capacity)
            }
        }

        func give(_ start: UnsafeMutableRawPointer, _ capacity: Int) {
            switch self {
            case .heap: free(start)
            case .pages: PageChunks.shared.give(start, capacity)
            case .mapping: munmap(start, capacity)
            }
        }
    }

    private(set) var start: UnsafeMutableRawPointer
    private(set) var capacity: Int
    private var home: Home { Home(capacity) }
    var isMapping: Bool { home == .mapping }

    init?(_ wanted: Int) {
        let home = Home(wanted)
        capacity = home.capacity(for: wanted)
        guard let start = home.take(capacity) else { return nil }
        self.start = start
    }

    deinit { home.give(start, capacity) }

    func copy(count: Int, capacity: Int) -> MemoryBlock? {
        let copy = MemoryBlock(capacity)
        copy?.start.copyMemory(from: start, byteCount: count)
        return copy
    }

    /// May move the block. `false`, and nothing has changed, if that takes a copy, or there is no memory.
    func resize(_ wanted: Int) -> Bool {
        guard Home(wanted) == home else { return false }
        let size = home.capacity(for: wanted)
        switch home {
        case .mapping:
            guard let moved = dipper_remap(start, capacity, size) else { return false }
            start = moved
        case .pages where size < capacity: PageChunks.shared.give(start + size, capacity - size)
        default: return size == capacity
        }
        capacity = size
        return true
    }

    func data(count: Int) -> Data {
        Data(bytesNoCopy: start, count: count, deallocator: .custom { _, _ in withExtendedLifetime(self) {} })
    }
}

/// Memory for bodies of usual sizes: runs of pages, cut from chunks of 2 MB.
///
/// The first touch of fresh pages is the largest cost of a small body, so freed pages serve the next bodies. A chunk of
/// which little is in use gives its other pages back to the system, if there are more than a few chunks.
final class PageChunks: Sendable {
    static let shared = PageChunks()
    static let page = max(4_096, sysconf(Int32(_SC_PAGESIZE)))
    static let largest = 256 << 10
    private static let chunk = 2 << 20
    private static let pages = chunk / page
    /// The number of chunks that give no memory back.
    private static let mostSpare = 4

    private final class Chunk {
        var used: [Bool] = Array(repeating: false, count: PageChunks.pages)
        var count = 0
        var next = 0
        /// Whether unused pages may hold memory of the system.
        var isWarm = false
        var isListed = false

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

        /// Gives the memory of unused pages back: all of it, or that of pages that were given last.
        func cool(_ given: Range<Int>, at address: UInt) {
            let range = exchange(&isWarm, with: false) ? 0..<PageChunks.pages : given
            var first = range.lowerBound
            while first < range.upperBound {
                let end = used[first..<range.upperBound].firstIndex(of: true) ?? range.upperBound
                let start = UnsafeMutableRawPointer(bitPattern: address + UInt(first * PageChunks.page))
                if end > first { madvise(start, (end - first) * PageChunks.page, Int32(MADV_DONTNEED)) }
                first = end + 1
            }
        }

        func mark(_ first: Int, _ length: Int, _ isUsed: Bool) {
            for index in first..<first + length { used[index] = isUsed }
            count += isUsed ? length : -length
        }
    }

    private struct State {
        var chunks: [UInt: Chunk] = [:]
        var current: UInt?
        /// Chunks that are at least half empty, or were; the last one is filled next.
        var roomy: [UInt] = []

        private var emptyCount: Int { chunks.count(where: { $0.key != current && $0.value.count == 0 }) }

        mutating func next() -> UInt? {
            while let address = roomy.popLast() {
                guard let chunk = chunks[address], chunk.isListed else { continue }
                chunk.isListed = false
                return address
            }
            guard let start = PageChunks.mapChunk() else { return nil }
            // Pages of 2 MB cost less, but are too much for a few bodies.
            if !chunks.isEmpty { madvise(start, PageChunks.chunk, Int32(MADV_HUGEPAGE)) }
            chunks[UInt(bitPattern: start)] = Chunk()
            return UInt(bitPattern: start)
        }

        mutating func give(_ address: UInt, _ first: Int, _ length: Int) {
            guard let chunk = chunks[address] else { return }
            chunk.mark(first, length, false)
            guard address != current, chunk.count * 2 <= PageChunks.pages else { return }
            if chunk.count == 0, emptyCount > PageChunks.mostSpare {
                chunks[address] = nil
                munmap(UnsafeMutableRawPointer(bitPattern: address), PageChunks.chunk)
                return
            }
            if !chunk.isListed { roomy.append(address) }
            chunk.isListed = true
            if chunks.count > PageChunks.mostSpare, chunk.count > 0, chunk.count * 8 <= PageChunks.pages {
                chunk.cool(first..<first + length, at: address)
            }
        }
    }

    private let state = Mutex(State())

    var size: Int { state.withLock { $0.chunks.count * Self.chunk } }

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

    func give(_ start: UnsafeMutableRawPointer, _ length: Int) {
        let address = UInt(bitPattern: start)
        let base = address & ~UInt(Self.chunk - 1)
        state.withLock { $0.give(base, Int(address - base) / Self.page, length / Self.page) }
    }

    static func map(_ length: Int) -> UnsafeMutableRawPointer? {
        let start = mmap(nil, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        return start == MAP_FAILED ? nil : start
    }

    private static func mapChunk() -> UnsafeMutableRawPointer? {
        guard let start = map(2 * chunk) else { return nil }
        let address = UInt(bitPattern: start)
        let aligned = (address + UInt(chunk - 1)) & ~UInt(chunk - 1)
        let before = Int(aligned - address)
        if before > 0 { munmap(start, before) }
        munmap(start + before + chunk, chunk - before)
        return start + before
    }
}
