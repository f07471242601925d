import Foundation
import ProcessShims

/// A byte buffer that grows at its end and becomes a `Data` without a copy.
///
/// A snapshot shares the buffer's bytes. Appending never changes these bytes, and moves them only while there is no
/// snapshot.
struct ByteBuffer: ~Copyable {
    // Bytes below the count of a snapshot never change, and the memory is freed with its last owner.
    private final class Storage: @unchecked Sendable {
        private var memory: BufferMemory
        var start: UnsafeMutableRawPointer { memory.start }
        var capacity: Int { memory.capacity }

        init?(capacity: Int) {
            guard let memory = BufferMemory(capacity) else { return nil }
            self.memory = memory
        }

        func resize(_ wanted: Int, keeping count: Int) -> Bool { memory.resize(wanted, keeping: count) }

        func data(count: Int) -> Data {
            Data(bytesNoCopy: start, count: count, deallocator: .custom { _, _ in withExtendedLifetime(self) {} })
        }
    }

    private var storage: Storage?
    private(set) var count = 0

    init() {}

    /// Makes room for `wanted` bytes in all. Returns `false` if there is no memory for them.
    mutating func reserve(_ wanted: Int) -> Bool {
        let isAlone = isKnownUniquelyReferenced(&storage)
        guard let current = storage else {
            storage = Storage(capacity: wanted)
            return storage != nil
        }
        guard wanted > current.capacity else { return true }
        if isAlone { return current.resize(wanted, keeping: count) }
        // A snapshot shares the bytes, so they stay where they are.
        guard let moved = Storage(capacity: wanted) else { return false }
        moved.start.copyMemory(from: current.start, byteCount: count)
        storage = moved
        return true
    }

    /// Appends bytes. Returns `false`, and nothing has changed, if there is no memory for them.
    mutating func append(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let source = bytes.baseAddress, bytes.count > 0 else { return true }
        let (needed, overflows) = count.addingReportingOverflow(bytes.count)
        guard !overflows else { return false }
        let capacity = storage?.capacity ?? 0
        let roomy = capacity.multipliedReportingOverflow(by: 2)
        if needed > capacity, roomy.overflow || !reserve(max(needed, roomy.partialValue)), !reserve(needed) {
            return false
        }
        storage?.start.advanced(by: count).copyMemory(from: source, byteCount: bytes.count)
        count = needed
        return true
    }

    /// Returns the bytes so far without a copy. They must not be changed in place.
    func snapshot() -> Data { storage.map { $0.data(count: count) } ?? Data() }

    /// Returns the bytes and empties the buffer. Copies them only if a snapshot shares them; `nil` if there is no
    /// memory for that copy.
    mutating func takeData() -> Data? {
        defer {
            storage = nil
            count = 0
        }
        let isAlone = isKnownUniquelyReferenced(&storage)
        guard let current = storage, count > 0 else { return Data() }
        // The caller may change its bytes, and a snapshot must not see that.
        guard isAlone else {
            guard let copy = Storage(capacity: count) else { return nil }
            copy.start.copyMemory(from: current.start, byteCount: count)
            return copy.data(count: count)
        }
        // Returns reserved memory that is not used.
        if current.capacity > count + count / 8 + 64 { _ = current.resize(count, keeping: count) }
        return current.data(count: count)
    }
}

/// One block of memory for ``ByteBuffer``.
///
/// Small blocks come from `malloc`, most bodies from shared chunks of pages (``PageChunks``). A large block is a mapping
/// of its own, so that freeing it returns its memory to the system: `malloc` would keep it in the process, because after
/// the first large block is freed, glibc serves blocks of that size from its heap (the dynamic `M_MMAP_THRESHOLD` of
/// mallopt(3)), where any small block behind them keeps them from being returned.
struct BufferMemory: ~Copyable {
    private enum Home: Equatable {
        case heap, pages, mapping

        init(_ count: Int) {
            self = count < PageChunks.page ? .heap : count <= PageChunks.largest ? .pages : .mapping
        }
    }

    private(set) var start: UnsafeMutableRawPointer
    /// The size of the block in bytes. What is not from `malloc` has whole pages.
    private(set) var capacity: Int
    private var home: Home

    /// Allocates a block of at least the wanted number of bytes; `nil` if there is no memory.
    init?(_ wanted: Int) {
        let wanted = max(1, wanted)
        home = Home(wanted)
        guard let capacity = home == .heap ? wanted : Self.wholePages(wanted) else { return nil }
        let start =
            switch home {
            case .heap: malloc(capacity)
            case .pages: PageChunks.shared.take(capacity)
            case .mapping: Self.map(capacity)
            }
        guard let start else { return nil }
        self.start = start
        self.capacity = capacity
    }

    deinit {
        switch home {
        case .heap: free(start)
        case .pages: PageChunks.shared.give(start, capacity)
        case .mapping: munmap(start, capacity)
        }
    }

    /// Changes the size of the block, which may move it. The first `count` bytes are kept, as far as they fit.
    /// - Returns: `false`, and nothing has changed, if there is no memory.
    mutating func resize(_ wanted: Int, keeping count: Int) -> Bool {
        let wanted = max(1, wanted)
        let next = Home(wanted)
        if home == .heap, next == .heap {
            guard let moved = realloc(start, wanted) else { return false }
            (start, capacity) = (moved, wanted)
            return true
        }
        guard let length = Self.wholePages(wanted) else { return false }
        if home == next, length == capacity { return true }
        if home == .mapping, next == .mapping {
            guard let moved = dipper_remap(start, capacity, length) else { return false }
            (start, capacity) = (moved, length)
        } else if home == .pages, next == .pages, length < capacity {
            PageChunks.shared.give(start + length, capacity - length)
            capacity = length
        } else {
            guard let other = BufferMemory(wanted) else { return false }
            other.start.copyMemory(from: start, byteCount: min(count, wanted))
            self = other
        }
        return true
    }

    /// Returns the size rounded up to whole pages; `nil` if the sum overflows.
    private static func wholePages(_ count: Int) -> Int? {
        let (sum, overflows) = count.addingReportingOverflow(PageChunks.page - 1)
        return overflows ? nil : sum / PageChunks.page * PageChunks.page
    }

    static func map(_ length: Int) -> UnsafeMutableRawPointer? {
        let start = mmap(nil, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        return start == MAP_FAILED ? nil : start
    }
}
