import DipperData
import Synchronization

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
    private struct State {
        var isUp: Bool
        var unreachableHosts: Set<String> = []
        var conditions = NetworkConditions()
        var observers = Observers()
    }

    private let state: Mutex<State>

    /// Creates a monitor of a network that is up or down.
    public init(isUp: Bool = true) {
        state = Mutex(State(isUp: isUp))
    }

    /// Whether the network is up. When it changes, the setter calls the observers.
    public var isUp: Bool {
        get { state.withLock { $0.isUp } }
        set {
            change { state in
                defer { state.isUp = newValue }
                return state.isUp != newValue
            }
        }
    }

    /// Makes one host unreachable, or reachable again, while the network is up.
    ///
    /// ```swift
    /// network.setReachable(false, host: "example.org")
    /// ```
    public func setReachable(_ isReachable: Bool, host: String) {
        change { state in
            if isReachable { return state.unreachableHosts.remove(host) != nil }
            return state.unreachableHosts.insert(host).inserted
        }
    }

    public var conditions: NetworkConditions { state.withLock { $0.conditions } }

    /// Sets the conditions of the network, and calls the observers if the conditions change.
    ///
    /// ```swift
    /// network.setConditions(NetworkConditions(isConstrained: true))
    /// ```
    public func setConditions(_ conditions: NetworkConditions) {
        change { state in
            defer { state.conditions = conditions }
            return state.conditions != conditions
        }
    }

    public func canReach(_ host: String) -> Bool {
        state.withLock { $0.isUp && !$0.unreachableHosts.contains(host) }
    }

    public func observe(_ onChange: @escaping @Sendable () -> Void) -> ChangeObservation {
        let number = state.withLock { $0.observers.add(onChange) }
        return ChangeObservation { [weak self] in
            let observer = self?.state.withLock { $0.observers.remove(number) }
            _ = consume observer
        }
    }

    private func change(_ body: (inout State) -> Bool) {
        let observers = state.withLock { state in
            body(&state) ? state.observers.all : []
        }
        for observer in observers { observer() }
    }
}
