import DipperData
import Synchronization

/// Memory that is as short as told.
public final class ManualMemoryPressure: MemoryPressureMonitor {
    private struct State {
        var level: MemoryPressure
        var observers = Observers()
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
                return old == newValue ? [] : state.observers.all
            }
            for observer in observers { observer() }
        }
    }

    /// How many observe now.
    public var observerCount: Int { state.withLock { $0.observers.count } }

    public func observe(_ onChange: @escaping @Sendable () -> Void) -> ChangeObservation {
        let number = state.withLock { $0.observers.add(onChange) }
        return ChangeObservation { [weak self] in
            let observer = self?.state.withLock { $0.observers.remove(number) }
            _ = consume observer
        }
    }
}
