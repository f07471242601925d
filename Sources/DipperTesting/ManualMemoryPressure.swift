import DipperData
import Synchronization

/// Memory that is as short as told.
public final class ManualMemoryPressure: MemoryPressureMonitor {
    private struct State {
        var level: MemoryPressure
        var observers: [Int: @Sendable () -> Void] = [:]
        var next = 0
    }

    private let state: Mutex<State>

    /// Enough memory, or as little as said.
    public init(_ level: MemoryPressure = .normal) {
        state = Mutex(State(level: level))
    }

    /// How short memory is. When it changes, observers are called before the setter returns.
    public var level: MemoryPressure {
        get { state.withLock { $0.level } }
        set {
            let observers = state.withLock { state in
                let old = exchange(&state.level, with: newValue)
                return old == newValue ? [] : Array(state.observers.values)
            }
            for observer in observers { observer() }
        }
    }

    /// How many observe now.
    public var observerCount: Int { state.withLock { $0.observers.count } }

    public func observe(_ onChange: @escaping @Sendable () -> Void) -> MemoryPressureObservation {
        let number = state.withLock { state in
            state.next += 1
            state.observers[state.next] = onChange
            return state.next
        }
        return MemoryPressureObservation { [weak self] in
            let observer = self?.state.withLock { $0.observers.removeValue(forKey: number) }
            _ = consume observer
        }
    }
}
