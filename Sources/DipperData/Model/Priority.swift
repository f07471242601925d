/// The order of a fetch inside its queue, from 0 (last) to 1 (first), compared in steps of one hundredth.
///
/// ```swift
/// cache.slowGetData(DataRequest(url).with(\.priority, .high))
/// task.priority = 0.6
/// ```
public struct Priority: Sendable, Hashable, Comparable, ExpressibleByFloatLiteral, ExpressibleByIntegerLiteral {
    /// The priority as a number from 0 to 1.
    public let value: Double

    /// Creates a priority. A value outside 0…1 is brought to the nearer end; NaN counts as ``normal``.
    public init(_ value: Double) {
        self.value = value.isNaN ? 0.5 : min(1, max(0, value))
    }

    /// Creates a priority as ``init(_:)`` does.
    public init(floatLiteral value: Double) {
        self.init(value)
    }

    /// Creates a priority as ``init(_:)`` does, from 0 or 1.
    public init(integerLiteral value: Int) {
        self.init(Double(value))
    }

    /// The priority 0.25.
    public static let low = Priority(0.25)
    /// The priority 0.5, the default.
    public static let normal = Priority(0.5)
    /// The priority 0.75.
    public static let high = Priority(0.75)

    public static func < (a: Self, b: Self) -> Bool { a.value < b.value }

    /// In hundredths, from 0 to 100.
    var level: Int { Int((value * 100).rounded()) }
}
