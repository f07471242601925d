/// How far the disk is behind with what was fetched.
enum StorageBacklog: Int, Sendable, Comparable {
    /// It keeps up.
    case none
    /// No prefetch starts until it has caught up.
    case high
    /// Nothing starts: what is fetched must be kept somewhere.
    case full

    static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }
}

/// A change of the backlog. Notices may overtake one another: the one with the highest number holds.
struct BacklogNotice: Sendable {
    var backlog: StorageBacklog
    var number: UInt64
}
