/// The restrictions on the use of a network that is there.
public struct NetworkConditions: Sendable, Hashable {
    /// Whether the user has asked to use the network sparingly, as in a "low data mode".
    public var isConstrained: Bool
    /// Whether traffic costs money or battery, as on a mobile network.
    public var isExpensive: Bool

    /// Creates conditions; without arguments there is no restriction.
    public init(isConstrained: Bool = false, isExpensive: Bool = false) {
        self.isConstrained = isConstrained
        self.isExpensive = isExpensive
    }
}
