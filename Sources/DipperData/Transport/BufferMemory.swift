import Foundation
import ProcessShims

/// One block of memory for ``ByteBuffer``.
///
/// A large block is a mapping of its own, so that freeing it returns its memory to the system. `malloc` would keep the
/// memory in the process: after the first large block is freed, glibc serves blocks of that size from its heap (the
/// dynamic `M_MMAP_THRESHOLD` of mallopt(3)), where any small block behind them keeps them from being returned.
struct BufferMemory: ~Copyable {
    /// The size from which a block is a mapping, in bytes.
    static let smallestMapped = 256 << 10

    private(set) var start: UnsafeMutableRawPointer
    /// The size of the block in bytes; a mapping has whole pages.
    private(set) var capacity: Int
    private var isMapped: Bool

    /// Allocates a block of at least the wanted number of bytes; `nil` if there is no memory.
    init?(_ wanted: Int) {
        let wanted = max(1, wanted)
        isMapped = wanted >= Self.smallestMapped
        guard let capacity = isMapped ? Self.wholePages(wanted) : wanted,
            let start = isMapped ? Self.map(capacity) : malloc(capacity)
        else { return nil }
        self.start = start
        self.capacity = capacity
    }

    deinit {
        if isMapped { munmap(start, capacity) } else { free(start) }
    }

    /// Changes the size of the block, which may move it. The first `count` bytes are kept, as far as they fit.
    /// - Returns: `false`, and nothing has changed, if there is no memory.
    mutating func resize(_ wanted: Int, keeping count: Int) -> Bool {
        let wanted = max(1, wanted)
        switch (isMapped, wanted >= Self.smallestMapped) {
        case (true, true):
            guard let length = Self.wholePages(wanted) else { return false }
            guard length != capacity else { return true }
            guard let moved = dipper_remap(start, capacity, length) else { return false }
            (start, capacity) = (moved, length)
        case (false, false):
            guard let moved = realloc(start, wanted) else { return false }
            (start, capacity) = (moved, wanted)
        default:
            guard let other = BufferMemory(wanted) else { return false }
            other.start.copyMemory(from: start, byteCount: min(count, wanted))
            self = other
        }
        return true
    }

    /// Returns the size rounded up to whole pages; `nil` if the sum overflows.
    private static func wholePages(_ count: Int) -> Int? {
        let (sum, overflows) = count.addingReportingOverflow(page - 1)
        return overflows ? nil : sum / page * page
    }

    private static func map(_ length: Int) -> UnsafeMutableRawPointer? {
        let start = mmap(nil, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        return start == MAP_FAILED ? nil : start
    }

    private static let page = max(1, sysconf(Int32(_SC_PAGESIZE)))
}
