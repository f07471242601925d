/// What is known of the network beside whether there is one.
public struct NetworkConditions: Sendable, Hashable {
    /// Whoever uses the network asked for sparing use of it: a "low data mode".
    public var isConstrained: Bool
    /// Bytes cost money or battery, as on a mobile network.
    public var isExpensive: Bool

    /// Conditions without any restriction, unless said otherwise.
    public init(isConstrained: Bool = false, isExpensive: Bool = false) {
        self.isConstrained = isConstrained
        self.isExpensive = isExpensive
    }
}
