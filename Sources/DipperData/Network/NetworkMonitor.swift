/// The interface that tells whether hosts can be reached. ``NetlinkMonitor`` asks the kernel; `DipperTesting` has a
/// manual monitor for tests.
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
public struct AlwaysReachable: NetworkMonitor {
    /// A monitor that watches nothing.
    public init() {}
    public func canReach(_ host: String) -> Bool { true }
    public func observe(_ onChange: @escaping @Sendable () -> Void) -> ChangeObservation {
        ChangeObservation(onEnd: {})
    }
}
