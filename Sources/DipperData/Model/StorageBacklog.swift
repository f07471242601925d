/// The degree to which writing to disk is behind fetching.
enum StorageBacklog: Int, Sendable, Comparable {
    /// The disk keeps up.
    case none
    /// The disk is behind: no job of `slowQueue` starts until it has caught up.
    case high
    /// The disk can take no more: no job starts, because fetched bytes must be kept somewhere.
    case full

    static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }
}

/// A change of the backlog. Notices may overtake one another: the one with the highest number holds.
struct BacklogNotice: Sendable {
    var backlog: StorageBacklog
    var number: UInt64
}
