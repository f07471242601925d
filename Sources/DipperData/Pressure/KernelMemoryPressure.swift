import CMnl
import Foundation
import Logging
import Synchronization

/// A memory pressure monitor that asks the Linux kernel how short memory is, for the machine and the control groups of
/// this process.
///
/// The level is `moderate` when tasks spend a tenth of two seconds waiting for memory, or when 85 % of a group's limit
/// are in use that the kernel cannot reclaim. It is `severe` when no task makes progress in a fifth of that time, when
/// 95 % are in use, or when the group has run out of memory. Stalls of the machine's tasks count only while four fifths
/// of its memory are in use: otherwise the tasks wait because of limits of their own groups. The level falls by one
/// step ten seconds after the last sign.
///
/// The monitor uses pressure stall information (Linux, Documentation/accounting/psi.rst), `memory.events` of control
/// groups of version 2, and `memory.pressure_level` of version 1. It reads the use of a group that has a limit every
/// five seconds, and pressure files that this process may not wait for at the same interval. One thread sleeps in the
/// kernel while there are observers. No privilege is needed. Where the kernel reports nothing the level is `normal`,
/// and the monitor logs this once.
///
/// ```swift
/// let monitor = KernelMemoryPressure.shared
/// let observation = monitor.observe { print("memory pressure: \(monitor.level)") }
/// ```
public final class KernelMemoryPressure: MemoryPressureMonitor {
    /// The monitor that the whole program shares.
    public static let shared = KernelMemoryPressure()

    private struct State {
        var observers = Observers()
        /// The watch; `nil` while there are no observers.
        var watch: PressureWatch?
        var level = MemoryPressure.normal
        var hasWarned = false
    }

    let root: String
    let timing: PressureTiming
    private let logger: Logger
    private let state = Mutex(State())

    /// Creates a monitor.
    /// - Parameter logger: receives one message if the kernel reports nothing, and a warning if the watch cannot start.
    public convenience init(logger: Logger = Logger(label: "dipper")) {
        self.init(logger: logger, root: "", .standard)
    }

    package init(logger: Logger, root: String = "", _ timing: PressureTiming) {
        self.logger = logger.category("memory")
        self.root = root
        self.timing = timing
    }

    /// The current level; `normal` while there are no observers.
    public var level: MemoryPressure { state.withLock { $0.level } }

    public func observe(_ onChange: @escaping @Sendable () -> Void) -> ChangeObservation {
        let spare = PressureWatch()
        let (number, isFirst) = state.withLock { state in
            let isFirst = state.watch == nil
            if isFirst { state.watch = spare }
            return (state.observers.add(onChange), isFirst)
        }
        if isFirst { spare.start(for: self) }
        return ChangeObservation { self.endObservation(number) }
    }

    private func endObservation(_ number: Int) {
        let (observer, watch) = state.withLock { state -> ((@Sendable () -> Void)?, PressureWatch?) in
            let observer = state.observers.remove(number)
            guard state.observers.count == 0 else { return (observer, nil) }
            state.level = .normal
            return (observer, exchange(&state.watch, with: nil))
        }
        watch?.stop()
        _ = consume observer
    }

    // MARK: Watch

    /// The running watch, for tests.
    var watch: PressureWatch? { state.withLock { $0.watch } }

    func learned(_ level: MemoryPressure, _ watch: PressureWatch) {
        let observers = state.withLock { state -> [@Sendable () -> Void] in
            guard state.watch === watch, state.level != level else { return [] }
            state.level = level
            return state.observers.all
        }
        for observer in observers { observer() }
        // Memory that was just freed would stay in malloc's arenas. This thread has time to return it to the system.
        if level == .severe { giveBackFreeMemory() }
    }

    /// Logs, once, that the kernel reports nothing.
    func isDeaf() {
        let isNew = state.withLock { !exchange(&$0.hasWarned, with: true) }
        if isNew { logger.info("the kernel tells nothing of memory pressure") }
    }

    /// Removes a watch that could not start; the next observer tries again.
    func cannotWatch(_ watch: PressureWatch, _ error: Int32) {
        state.withLock { if $0.watch === watch { $0.watch = nil } }
        logger.warning("memory pressure is not watched", metadata: ["error": "\(String(cString: strerror(error)))"])
    }

    private func giveBackFreeMemory() {
        #if canImport(Glibc)
            malloc_trim(0)
        #endif
    }
}
