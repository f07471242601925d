/// Tells how short memory is. ``KernelMemoryPressure`` knows from the kernel; `DipperTesting` has a manual one.
public protocol MemoryPressureMonitor: Sendable {
    /// How short memory is now. Never blocks.
    var level: MemoryPressure { get }
    /// Calls back, from any thread, after each change of ``level``, until the observation is let go of.
    func observe(_ onChange: @escaping @Sendable () -> Void) -> ChangeObservation
}
