import CMnl
import Dispatch
import Foundation
import Logging
import Synchronization

/// The degree to which memory is short.
public enum MemoryPressure: String, Sendable, Hashable, CaseIterable, Comparable {
    /// There is enough memory.
    case normal
    /// Memory is getting short: caches keep half as much.
    case moderate
    /// There is no memory to spare: caches keep nothing in memory.
    case severe

    private var rank: Int { self == .normal ? 0 : self == .moderate ? 1 : 2 }

    public static func < (a: Self, b: Self) -> Bool { a.rank < b.rank }
}

/// The interface that tells how short memory is; `DipperTesting` has a manual monitor for tests.
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

/// A memory pressure monitor that asks the Linux kernel about the machine and the control groups of this process.
///
/// The level is `moderate` when tasks spend a tenth of two seconds waiting for memory, or when 85 % of a group's limit
/// are in use that the kernel cannot reclaim. It is `severe` when no task makes progress in a fifth of that time, when
/// 95 % are in use, or when the group has run out of memory. Stalls of the machine's tasks count only while four fifths
/// of its memory are in use: otherwise limits of their groups cause them. The level falls by one step ten seconds after
/// the last sign.
///
/// The monitor uses pressure stall information (Linux, Documentation/accounting/psi.rst) and `memory.events` of control
/// groups of version 2. Every five seconds it reads the use of groups with a limit, and pressure files that this
/// process may not wait for. The thread of a cache waits for the kernel; other observers share a thread. No privilege
/// is needed. Where the kernel reports nothing the level is `normal`, and the monitor logs this once.
public final class KernelMemoryPressure: MemoryPressureMonitor {
    /// The monitor that the whole program shares.
    public static let shared = KernelMemoryPressure()

    private struct State {
        var observers = Observers()
        var levels: [Int: MemoryPressure] = [:]
        var hasWarned = false

        var level: MemoryPressure { levels.values.max() ?? .normal }
    }

    let timing: PressureTiming
    private let logger: Logger
    private let state = Mutex(State())
    let calls = DispatchQueue(label: "dipper.memory", qos: .utility)

    /// Creates a monitor.
    /// - Parameter logger: receives one message if the kernel reports nothing, and a warning if nothing can be watched.
    public convenience init(logger: Logger? = nil) {
        self.init(logger: logger ?? .silent, .standard)
    }

    package init(logger: Logger, _ timing: PressureTiming) {
        self.logger = logger.category("memory")
        self.timing = timing
    }

    /// The current level; `normal` while there are no observers.
    public var level: MemoryPressure { state.withLock { $0.level } }

    public func observe(_ onChange: @escaping @Sendable () -> Void) -> ChangeObservation {
        guard let loop = EventLoop.forObservers else {
            logger.warning("memory pressure is not watched", metadata: ["error": "the system gives no descriptor"])
            return ChangeObservation {}
        }
        return observe(on: loop, onChange)
    }

    func observe(on loop: EventLoop, _ onChange: @escaping @Sendable () -> Void) -> ChangeObservation {
        let number = state.withLock { state in
            let number = state.observers.add(onChange)
            state.levels[number] = .normal
            return number
        }
        let watch = PressureWatch(self, number, on: loop)
        watch.open()
        return ChangeObservation {
            let observer = self.state.withLock { $0.observers.remove(number) }
            _ = consume observer
            self.learned(nil, by: number)
            if !loop.post({ watch.end() }) { watch.end() }
        }
    }

    /// - Parameter level: `nil` for a watch that has ended.
    func learned(_ level: MemoryPressure?, by watch: Int) {
        calls.async { [self] in
            let (observers, now) = state.withLock { state -> ([@Sendable () -> Void], MemoryPressure) in
                guard let before = state.levels[watch], before != level else { return ([], state.level) }
                state.levels[watch] = level
                return (state.observers.all, state.level)
            }
            for observer in observers { observer() }
            if now == .severe, !observers.isEmpty { Self.giveBackFreeMemory() }
        }
    }

    func isDeaf() {
        let isNew = state.withLock { !exchange(&$0.hasWarned, with: true) }
        if isNew { logger.info("the kernel tells nothing of memory pressure") }
    }

    /// Returns freed memory in malloc's arenas to the system. Slow.
    static func giveBackFreeMemory() {
        #if canImport(Glibc)
            malloc_trim(0)
        #endif
    }
}

/// Passes the levels of a cache's monitor on to the parts of the cache.
package final class PressureRelay: Sendable {
    private struct Follower {
        let number: Int
        let isLast: Bool
        let call: @Sendable (MemoryPressure) -> Void
    }

    private struct State {
        /// In the order of the calls.
        var followers: [Follower] = []
        var count = 0
        var observation: ChangeObservation?
        var told = MemoryPressure.normal
        var isEnded = false
    }

    private let monitor: (any MemoryPressureMonitor)?
    private let onChange: @Sendable (MemoryPressure) -> Void
    private let state = Mutex(State())

    /// - Parameter onChange: called with each new level, after all followers, until ``end()``.
    init(
        _ monitor: (any MemoryPressureMonitor)?, on loop: EventLoop,
        onChange: @escaping @Sendable (MemoryPressure) -> Void
    ) {
        self.monitor = monitor
        self.onChange = onChange
        guard let monitor else { return }
        let tell: @Sendable () -> Void = { [weak self] in self?.tell() }
        let observation = (monitor as? KernelMemoryPressure)?.observe(on: loop, tell) ?? monitor.observe(tell)
        state.withLock { $0.observation = observation }
    }

    /// `normal` after ``end()``.
    package var level: MemoryPressure { state.withLock { $0.isEnded } ? .normal : monitor?.level ?? .normal }

    /// Calls `onChange` with the present level, unless that is `normal`, and with each later one, until the observation
    /// is released: from any thread, in the order of following, perhaps twice with one level.
    /// - Parameter last: whether to call it after all followers that are not `last`.
    package func follow(
        last: Bool = false, _ onChange: @escaping @Sendable (MemoryPressure) -> Void
    ) -> ChangeObservation {
        let number = state.withLock { state in
            state.count += 1
            let end = state.followers.endIndex
            let place = last ? end : state.followers.firstIndex(where: \.isLast) ?? end
            state.followers.insert(Follower(number: state.count, isLast: last, call: onChange), at: place)
            return state.count
        }
        var told = MemoryPressure.normal
        while case let level = self.level, level != told {
            onChange(level)
            told = level
        }
        return ChangeObservation { [weak self] in
            let follower = self?.state.withLock { state in
                state.followers.firstIndex { $0.number == number }.map { state.followers.remove(at: $0) }
            }
            _ = consume follower
        }
    }

    /// The followers hear of `normal`, because they may also serve other caches of the process.
    func end() {
        let observation = state.withLock { state in
            state.isEnded = true
            return exchange(&state.observation, with: nil)
        }
        _ = consume observation
        tell()
    }

    /// Two threads may tell of changes at once, the older one last, so the level is read again.
    private func tell() {
        var told: MemoryPressure?
        while case let level = self.level, level != told {
            let followers = state.withLock { $0.followers }
            for follower in followers { follower.call(level) }
            if state.withLock({ exchange(&$0.told, with: level) != level && !$0.isEnded }) { onChange(level) }
            told = level
        }
    }
}
