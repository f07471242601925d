/// The interface that tells how short memory is. ``KernelMemoryPressure`` asks the kernel; `DipperTesting` has a manual
/// monitor for tests.
///
/// ```swift
/// struct SmallDevice: MemoryPressureMonitor {
///     let base = KernelMemoryPressure.shared
///     var level: MemoryPressure { max(base.level, .moderate) }
///     func observe(_ onChange: @escaping @Sendable () -> Void) -> ChangeObservation { base.observe(onChange) }
/// }
/// ```
public protocol MemoryPressureMonitor: Sendable {
    /// The current level. Never blocks.
    var level: MemoryPressure { get }
    /// Calls `onChange` from any thread after each change of ``level``, until the observation is released.
    func observe(_ onChange: @escaping @Sendable () -> Void) -> ChangeObservation
}
