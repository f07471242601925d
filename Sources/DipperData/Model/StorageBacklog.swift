/// How far the disk is behind with what was fetched.
enum StorageBacklog: Int, Sendable, Comparable {
    /// The disk keeps up.
    case none
    /// The disk is behind: no prefetch starts until it has caught up.
    case high
    /// The disk can take no more: nothing starts, because what is fetched must be kept somewhere.
    case full

    static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }
}

/// A change of the backlog. Notices may overtake one another: the one with the highest number holds.
struct BacklogNotice: Sendable {
    var backlog: StorageBacklog
    var number: UInt64
}
