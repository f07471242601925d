/// How short memory is.
public enum MemoryPressure: String, Sendable, Hashable, CaseIterable, Comparable {
    /// There is enough.
    case normal
    /// It is getting short: caches keep half of what they may keep otherwise.
    case moderate
    /// There is none to spare: caches keep nothing in memory.
    case severe

    private var rank: Int {
        switch self {
        case .normal: 0
        case .moderate: 1
        case .severe: 2
        }
    }

    public static func < (a: Self, b: Self) -> Bool { a.rank < b.rank }
}
