import DipperData

/// A network monitor whose state a test sets.
///
/// Calls that wait for the network go on when it is up, one after the other, a few milliseconds apart by the cache's
/// clock. A test with a ``ManualClock`` advances it:
///
/// ```swift
/// let network = ManualNetwork(isUp: false)
/// configuration.networkMonitor = network
/// configuration.clock = clock
/// let cache = DataCache(configuration)
/// let task = cache.getData(url)
/// try await cache.waitForParked()                                 // waits for the network
/// network.isUp = true
/// try await clock.waitForSleepers(1, dueWithin: .seconds(5))      // the cache has heard of it
/// clock.advance(by: .seconds(5))                                  // goes on
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
    public func setReachable(_ isReachable: Bool, host: String) {
        state.change { state in
            state.unreachableHosts.remove(host)
            if !isReachable { state.unreachableHosts.insert(host) }
        }
    }

    public var conditions: NetworkConditions { state.value.conditions }

    /// Sets the conditions of the network, and calls the observers if the conditions change.
    public func setConditions(_ conditions: NetworkConditions) { state.change { $0.conditions = conditions } }

    public func canReach(_ host: String) -> Bool {
        let state = state.value
        return state.isUp && !state.unreachableHosts.contains(host)
    }

    public func observe(_ onChange: @escaping @Sendable () -> Void) -> ChangeObservation {
        state.observers.observe(onChange)
    }
}

/// A memory pressure monitor whose level a test sets.
///
/// ```swift
/// let pressure = ManualMemoryPressure()
/// configuration.memoryPressure = pressure
/// let cache = DataCache(configuration)
/// pressure.level = .severe        // the memory tier is empty now
/// ```
public final class ManualMemoryPressure: MemoryPressureMonitor {
    private let state: ObservedState<MemoryPressure>

    /// Creates a monitor with a level, by default `normal`.
    public init(_ level: MemoryPressure = .normal) {
        state = ObservedState(level)
    }

    /// The memory pressure. When it changes, the setter calls the observers before it returns.
    public var level: MemoryPressure {
        get { state.value }
        set { state.change { $0 = newValue } }
    }

    /// The number of observers.
    public var observerCount: Int { state.observers.all.count }

    public func observe(_ onChange: @escaping @Sendable () -> Void) -> ChangeObservation {
        state.observers.observe(onChange)
    }
}

/// After each change the observers are called, before the change returns.
private final class ObservedState<State: Equatable & Sendable>: Sendable {
    private let state: WatchedState<State>
    let observers = Observers<@Sendable () -> Void>()

    init(_ state: State) {
        self.state = WatchedState(state)
    }

    var value: State { state.value }

    func change(_ body: (inout State) -> Void) {
        let isChanged = state.update { state in
            let old = state
            body(&state)
            return state != old
        }
        guard isChanged else { return }
        for observer in observers.all { observer() }
    }
}
