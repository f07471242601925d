import DipperData

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
    public var observerCount: Int { state.observerCount }

    public func observe(_ onChange: @escaping @Sendable () -> Void) -> ChangeObservation { state.observe(onChange) }
}
