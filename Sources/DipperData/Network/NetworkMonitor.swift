/// Tells whether hosts can be reached. ``NetlinkMonitor`` knows from the kernel; `DipperTesting` has a manual one.
public protocol NetworkMonitor: Sendable {
    /// Whether there is a way to the host now. Never blocks.
    func canReach(_ host: String) -> Bool
    /// Calls back, from any thread, after each change that may affect the answer, until the observation is
    /// let go of.
    func observe(_ onChange: @escaping @Sendable () -> Void) -> ChangeObservation
    /// What is known of the network beside whether there is one; no restriction unless a monitor says otherwise.
    /// Observers are called when it changes.
    var conditions: NetworkConditions { get }
}

extension NetworkMonitor {
    public var conditions: NetworkConditions { NetworkConditions() }
}

/// Takes every host for reachable: failures are then met by back-off alone.
public struct AlwaysReachable: NetworkMonitor {
    /// A monitor that watches nothing.
    public init() {}
    public func canReach(_ host: String) -> Bool { true }
    public func observe(_ onChange: @escaping @Sendable () -> Void) -> ChangeObservation {
        ChangeObservation(onEnd: {})
    }
}
