/// The degree to which memory is short.
public enum MemoryPressure: String, Sendable, Hashable, CaseIterable, Comparable {
    /// There is enough memory.
    case normal
    /// Memory is getting short: caches keep half of what they may keep otherwise.
    case moderate
    /// There is no memory to spare: caches keep nothing in memory.
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
