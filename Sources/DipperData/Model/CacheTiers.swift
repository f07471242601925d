/// Places where entries are kept.
public struct CacheTiers: OptionSet, Sendable, Hashable {
    public let rawValue: UInt8

    public init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// The memory tier.
    public static let memory = CacheTiers(rawValue: 1)
    /// The disk tier, and the beginnings of bodies that were broken off.
    public static let disk = CacheTiers(rawValue: 2)
    /// Every tier.
    public static let all: CacheTiers = [.memory, .disk]
}
