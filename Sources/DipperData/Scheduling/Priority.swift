/// The order of jobs inside a lane: from 0 (last) to 1 (first). Compared in steps of one hundredth.
public struct Priority: Sendable, Hashable, Comparable, ExpressibleByFloatLiteral {
    /// 0…1.
    public let value: Double

    /// Values outside 0…1 are brought to the nearer end; what is not a number counts as ``normal``.
    public init(_ value: Double) {
        self.value = value.isNaN ? 0.5 : min(1, max(0, value))
    }

    /// See ``init(_:)``.
    public init(floatLiteral value: Double) {
        self.init(value)
    }

    /// 0.25
    public static let low = Priority(0.25)
    /// 0.5: what calls have that say nothing.
    public static let normal = Priority(0.5)
    /// 0.75
    public static let high = Priority(0.75)

    public static func < (a: Self, b: Self) -> Bool { a.value < b.value }

    /// 0…100.
    var level: Int { Int((value * 100).rounded()) }
}
