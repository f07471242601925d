/// The interface that tells whether hosts can be reached. ``NetlinkMonitor`` asks the kernel; `DipperTesting` has a
/// manual monitor for tests.
///
/// ```swift
/// struct MeteredNetwork: NetworkMonitor {
///     let base = NetlinkMonitor.shared
///     var conditions: NetworkConditions { NetworkConditions(isConstrained: true, isExpensive: true) }
///     func canReach(_ host: String) -> Bool { base.canReach(host) }
///     func observe(_ onChange: @escaping @Sendable () -> Void) -> ChangeObservation { base.observe(onChange) }
/// }
/// ```
public protocol NetworkMonitor: Sendable {
    /// Returns whether the host can be reached now. Never blocks.
    func canReach(_ host: String) -> Bool
    /// Calls `onChange` from any thread after each change that may affect ``canReach(_:)``, until the observation is
    /// released.
    func observe(_ onChange: @escaping @Sendable () -> Void) -> ChangeObservation
    /// The restrictions on the use of the network; none by default. Observers are called when the conditions change.
    var conditions: NetworkConditions { get }
}

extension NetworkMonitor {
    public var conditions: NetworkConditions { NetworkConditions() }
}

/// A network monitor for which every host is reachable, so that only back-off handles failures.
///
/// ```swift
/// var configuration = DataCache.Configuration()
/// configuration.networkMonitor = AlwaysReachable()
/// ```
public struct AlwaysReachable: NetworkMonitor {
    /// Creates a monitor that watches nothing.
    public init() {}
    public func canReach(_ host: String) -> Bool { true }
    public func observe(_ onChange: @escaping @Sendable () -> Void) -> ChangeObservation {
        ChangeObservation(onEnd: {})
    }
}

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
