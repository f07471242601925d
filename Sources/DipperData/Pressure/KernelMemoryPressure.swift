import CMnl
import Foundation
import Logging
import Synchronization

/// Knows from the Linux kernel how short memory is, of the machine and of the control groups this process is in.
///
/// The level is `moderate` when tasks spend a tenth of two seconds waiting for memory, and when 85 % of a group's limit
/// are in use that the kernel cannot take back; `severe` when for a fifth of that time nothing gets done, when 95 % are
/// in use, and when the group has run out of memory. That the machine's tasks wait counts only while four fifths of its
/// memory are in use: else they wait because of limits of their own. Ten seconds after the last sign the level falls by
/// one step.
///
/// It hears of this by pressure stall information (Linux, Documentation/accounting/psi.rst), by `memory.events` of
/// control groups of version 2 and by `memory.pressure_level` of version 1. Where a group has a limit, what is in use is
/// looked at every five seconds; so is pressure that this process may not wait for. One thread sleeps in the kernel as
/// long as anyone observes. No privilege is needed. Where the kernel tells nothing the level is `normal`, and the log
/// says so once.
public final class KernelMemoryPressure: MemoryPressureMonitor {
    /// The monitor of the program.
    public static let shared = KernelMemoryPressure()

    private struct State {
        var observers = Observers()
        /// There as long as there are observers.
        var watch: PressureWatch?
        var level = MemoryPressure.normal
        var hasWarned = false
    }

    let root: String
    let timing: PressureTiming
    private let logger: Logger
    private let state = Mutex(State())

    /// - Parameter logger: told, once, if the kernel tells nothing.
    public convenience init(logger: Logger = Logger(label: "dipper")) {
        self.init(logger: logger, root: "", .standard)
    }

    package init(logger: Logger, root: String = "", _ timing: PressureTiming) {
        self.logger = logger.category("memory")
        self.root = root
        self.timing = timing
    }

    /// How short memory is now; `normal` while nobody observes.
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

    // MARK: The watch's side

    /// The watch that runs; for tests.
    var watch: PressureWatch? { state.withLock { $0.watch } }

    func learned(_ level: MemoryPressure, _ watch: PressureWatch) {
        let observers = state.withLock { state -> [@Sendable () -> Void] in
            guard state.watch === watch, state.level != level else { return [] }
            state.level = level
            return state.observers.all
        }
        for observer in observers { observer() }
        // What was just freed lies in malloc's arenas, and would stay there. This thread has the time.
        if level == .severe { giveBackFreeMemory() }
    }

    func isDeaf() {
        let isNew = state.withLock { !exchange(&$0.hasWarned, with: true) }
        if isNew { logger.info("the kernel tells nothing of memory pressure") }
    }

    /// There is no watch; whoever observes next tries again.
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
