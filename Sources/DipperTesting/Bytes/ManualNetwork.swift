import DipperData

/// A network monitor whose state a test sets.
///
/// ```swift
/// let network = ManualNetwork(isUp: false)
/// var configuration = DataCache.Configuration()
/// configuration.networkMonitor = network
/// let cache = DataCache(configuration)
/// let task = cache.getData(url)       // waits for the network
/// network.isUp = true                 // can be fetched now
/// ```
public final class ManualNetwork: NetworkMonitor {
    private struct State: Equatable {
        var isUp: Bool
        var unreachableHosts: Set<String> = []
        var conditions = NetworkConditions()
    }

    private let state: ObservedState<State>

    /// Creates a monitor of a network that is up or down.
    public init(isUp: Bool = true) {
        state = ObservedState(State(isUp: isUp))
    }

    /// Whether the network is up. When it changes, the setter calls the observers.
    public var isUp: Bool {
        get { state.value.isUp }
        set { state.change { $0.isUp = newValue } }
    }

    /// Makes one host unreachable, or reachable again, while the network is up.
    ///
    /// ```swift
    /// network.setReachable(false, host: "example.org")
    /// ```
    public func setReachable(_ isReachable: Bool, host: String) {
        state.change { state in
            state.unreachableHosts.remove(host)
            if !isReachable { state.unreachableHosts.insert(host) }
        }
    }

    public var conditions: NetworkConditions { state.value.conditions }

    /// Sets the conditions of the network, and calls the observers if the conditions change.
    ///
    /// ```swift
    /// network.setConditions(NetworkConditions(isConstrained: true))
    /// ```
    public func setConditions(_ conditions: NetworkConditions) { state.change { $0.conditions = conditions } }

    public func canReach(_ host: String) -> Bool {
        let state = state.value
        return state.isUp && !state.unreachableHosts.contains(host)
    }

    public func observe(_ onChange: @escaping @Sendable () -> Void) -> ChangeObservation { state.observe(onChange) }
}
