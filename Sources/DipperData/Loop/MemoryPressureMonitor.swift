import CMnl
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

    var rank: Int { self == .normal ? 0 : self == .moderate ? 1 : 2 }

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
/// process may not wait for. The thread of the library waits for the kernel. No privilege
/// is needed. Where the kernel reports nothing the level is `normal`, and the monitor logs this once.
public final class KernelMemoryPressure: MemoryPressureMonitor {
    /// The monitor that the whole program shares.
    public static let shared = KernelMemoryPressure()

    let timing: PressureTiming
    private let logger: Logger
    private let watches = Observers<PressureWatch>()
    private let hasWarned = Atomic(false)
    /// Reads and closes the kernel's files, and calls the observers.
    let calls = DispatchQueue(label: "dipper.memory", qos: .utility)

    /// Creates a monitor.
    /// - Parameter logger: receives one message if the kernel reports nothing, and a warning if nothing can be watched.
    public convenience init(logger: Logger? = nil) {
        self.init(logger: logger ?? .silent, PressureTiming())
    }

    package init(logger: Logger, _ timing: PressureTiming) {
        self.logger = logger.category("memory")
        self.timing = timing
    }

    /// The current level; `normal` while there are no observers.
    public var level: MemoryPressure { watches.all.map(\.level).max() ?? .normal }

    public func observe(_ onChange: @escaping @Sendable () -> Void) -> ChangeObservation {
        let watch = PressureWatch(self, onChange)
        let observation = watches.observe(watch) { watch.end() }
        watch.open()
        return observation
    }

    /// On ``calls``.
    func changed() {
        let watches = watches.all
        for watch in watches { watch.onChange() }
        if level == .severe, !watches.isEmpty { Self.giveBackFreeMemory() }
    }

    func isDeaf() {
        if hasWarned.exchange(true, ordering: .relaxed) { return }
        logger.info("the kernel tells nothing of memory pressure")
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
    package typealias Follower = @Sendable (MemoryPressure) -> Void

    private let monitor: (any MemoryPressureMonitor)?
    private let onChange: Follower
    private let followers = Observers<Follower>()
    private let observation = AtomicLazyReference<ChangeObservation>()
    /// The rank of the level that `onChange` was called with.
    private let told = Atomic(MemoryPressure.normal.rank)
    private let isEnded = Atomic(false)
    private let simulated = Mutex(MemoryPressure?.none)

    /// - Parameter onChange: called with each new level, after all followers, until ``end()``.
    init(_ monitor: (any MemoryPressureMonitor)?, onChange: @escaping Follower) {
        self.monitor = monitor
        self.onChange = onChange
        guard let monitor else { return }
        let tell: @Sendable () -> Void = { [weak self] in self?.tell() }
        _ = observation.storeIfNil(monitor.observe(tell))
    }

    /// `normal` after ``end()``.
    package var level: MemoryPressure {
        isEnded.load(ordering: .acquiring) ? .normal : simulation ?? monitor?.level ?? .normal
    }

    /// Calls `onChange` with the present level, unless that is `normal`, and with each later one, until the observation
    /// is released: from any thread, in the order of following, perhaps twice with one level.
    package func follow(_ onChange: @escaping Follower) -> ChangeObservation {
        let following = followers.observe(onChange)
        tell(since: .normal, onChange)
        return following
    }

    /// The level that is taken for the monitor's.
    var simulation: MemoryPressure? {
        get { simulated.withLock(\.self) }
        set {
            simulated.withLock { $0 = newValue }
            tell()
        }
    }

    /// The followers hear of `normal`, because they may also serve other caches of the process.
    func end() {
        isEnded.store(true, ordering: .releasing)
        observation.load()?.end()
        tell()
    }

    private func tell() {
        tell(since: nil) { level in
            for follower in followers.all { follower(level) }
            let isNew = told.exchange(level.rank, ordering: .acquiringAndReleasing) != level.rank
            if isNew, !isEnded.load(ordering: .acquiring) { onChange(level) }
        }
    }

    /// Two threads may tell of changes at once, the older one last, so the level is read again.
    private func tell(since told: MemoryPressure?, _ tell: (MemoryPressure) -> Void) {
        var told = told
        while case let level = self.level, level != told {
            tell(level)
            told = level
        }
    }
}
