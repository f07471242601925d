import DipperData
import Synchronization

/// A memory pressure monitor whose level a test sets.
///
/// ```swift
/// let pressure = ManualMemoryPressure()
/// var configuration = DataCache.Configuration()
/// configuration.memoryPressure = pressure
/// let cache = DataCache(configuration)
/// try cache.addData(Data("here".utf8), for: url)
/// pressure.level = .severe        // the memory tier is empty now
/// ```
public final class ManualMemoryPressure: MemoryPressureMonitor {
    private struct State {
        var level: MemoryPressure
        var observers = Observers()
    }

    private let state: Mutex<State>

    /// Creates a monitor with a level, by default `normal`.
    public init(_ level: MemoryPressure = .normal) {
        state = Mutex(State(level: level))
    }

    /// The memory pressure. When it changes, the setter calls the observers before it returns.
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

    /// The number of observers.
    public var observerCount: Int { state.withLock { $0.observers.count } }

    public func observe(_ onChange: @escaping @Sendable () -> Void) -> ChangeObservation {
        let number = state.withLock { $0.observers.add(onChange) }
        return ChangeObservation { [weak self] in
            let observer = self?.state.withLock { $0.observers.remove(number) }
            _ = consume observer
        }
    }
}
