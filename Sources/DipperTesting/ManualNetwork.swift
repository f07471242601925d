import DipperData
import Synchronization

/// A network that goes and comes as told.
public final class ManualNetwork: NetworkMonitor {
    private struct State {
        var isUp: Bool
        var unreachableHosts: Set<String> = []
        var conditions = NetworkConditions()
        var observers: [Int: @Sendable () -> Void] = [:]
        var next = 0
    }

    private let state: Mutex<State>

    /// A network that is there, or is not.
    public init(isUp: Bool = true) {
        state = Mutex(State(isUp: isUp))
    }

    /// Whether any host can be reached. Observers are called when it changes.
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
    public func setReachable(_ isReachable: Bool, host: String) {
        change { state in
            if isReachable { return state.unreachableHosts.remove(host) != nil }
            return state.unreachableHosts.insert(host).inserted
        }
    }

    public var conditions: NetworkConditions { state.withLock { $0.conditions } }

    /// Says what the network is like. Observers are called when it changes.
    public func setConditions(_ conditions: NetworkConditions) {
        change { state in
            defer { state.conditions = conditions }
            return state.conditions != conditions
        }
    }

    public func canReach(_ host: String) -> Bool {
        state.withLock { $0.isUp && !$0.unreachableHosts.contains(host) }
    }

    public func observe(_ onChange: @escaping @Sendable () -> Void) -> NetworkObservation {
        let number = state.withLock { state in
            state.next += 1
            state.observers[state.next] = onChange
            return state.next
        }
        return NetworkObservation { [weak self] in
            _ = self?.state.withLock { $0.observers.removeValue(forKey: number) }
        }
    }

    private func change(_ body: (inout State) -> Bool) {
        let observers = state.withLock { state in
            body(&state) ? Array(state.observers.values) : []
        }
        for observer in observers { observer() }
    }
}
