/// The order of jobs inside a queue: from 0 (last) to 1 (first). Priorities are compared in steps of one hundredth.
public struct Priority: Sendable, Hashable, Comparable, ExpressibleByFloatLiteral {
    /// 0…1.
    public let value: Double

    /// Creates a priority. A value outside 0…1 is brought to the nearer end; not a number counts as ``normal``.
    public init(_ value: Double) {
        self.value = value.isNaN ? 0.5 : min(1, max(0, value))
    }

    /// Creates a priority as ``init(_:)`` does.
    public init(floatLiteral value: Double) {
        self.init(value)
    }

    /// 0.25
    public static let low = Priority(0.25)
    /// 0.5, the default.
    public static let normal = Priority(0.5)
    /// 0.75
    public static let high = Priority(0.75)

    public static func < (a: Self, b: Self) -> Bool { a.value < b.value }

    /// 0…100.
    var level: Int { Int((value * 100).rounded()) }
}
