import Foundation
import ProcessShims

/// One piece of memory for ``ByteBuffer``.
///
/// Large pieces are mappings of their own, which go back to the system when they are freed. From `malloc` they would stay
/// with the process: the first large piece that is freed teaches glibc to serve all of that size from its heap (the
/// dynamic `M_MMAP_THRESHOLD` of mallopt(3)), where any small piece behind them keeps them.
struct BufferMemory: ~Copyable {
    /// From here on, in bytes, a piece is a mapping.
    static let smallestMapped = 256 << 10

    private(set) var start: UnsafeMutableRawPointer
    /// In bytes; of a mapping whole pages.
    private(set) var capacity: Int
    private var isMapped: Bool

    /// `nil` if there is no memory.
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

    /// Has room for so many bytes afterwards, and keeps those that fit, perhaps elsewhere. False, and nothing has changed,
    /// if there is no memory.
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

    /// `nil` for more than there are addresses.
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
