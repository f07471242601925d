/// The interface that tells how short memory is. ``KernelMemoryPressure`` asks the kernel; `DipperTesting` has a manual
/// monitor for tests.
public protocol MemoryPressureMonitor: Sendable {
    /// The current level. Never blocks.
    var level: MemoryPressure { get }
    /// Calls `onChange` from any thread after each change of ``level``, until the observation is released.
    func observe(_ onChange: @escaping @Sendable () -> Void) -> ChangeObservation
}
