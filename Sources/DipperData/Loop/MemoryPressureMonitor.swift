import CMnl
import Dispatch
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
/// five seconds, and pressure files that this process may not wait for at the same interval. The thread of a cache waits
/// for the kernel's signs; for other observers it is a thread that they share. No privilege is needed. Where the kernel
/// reports nothing the level is `normal`, and the monitor logs this once.
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
        var levels: [Int: MemoryPressure] = [:]
        var hasWarned = false

        var level: MemoryPressure { levels.values.max() ?? .normal }
    }

    let root: String
    let timing: PressureTiming
    private let logger: Logger
    private let state = Mutex(State())
    /// For slow work: observers free memory, and the kernel takes 15 ms to close one of its sources.
    fileprivate let calls = DispatchQueue(label: "dipper.memory", qos: .utility)

    /// Creates a monitor.
    /// - Parameter logger: receives one message if the kernel reports nothing, and a warning if the watch cannot start.
    public convenience init(logger: Logger? = nil) {
        self.init(logger: logger ?? .silent, root: "", .standard)
    }

    package init(logger: Logger, root: String = "", _ timing: PressureTiming) {
        self.logger = logger.category("memory")
        self.root = root
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

    /// Waits on a loop for the kernel's signs, and calls `onChange` elsewhere, until the observation is released.
    func observe(on loop: EventLoop, _ onChange: @escaping @Sendable () -> Void) -> ChangeObservation {
        let number = state.withLock { state in
            let number = state.observers.add(onChange)
            state.levels[number] = .normal
            return number
        }
        let watch = PressureWatch(self, number, on: loop)
        calls.async { watch.open() }
        return ChangeObservation {
            let observer = self.state.withLock { $0.observers.remove(number) }
            _ = consume observer
            self.learned(nil, by: number)
            if !loop.post({ watch.end() }) { watch.end() }
        }
    }

    // MARK: Watches

    fileprivate func learned(_ level: MemoryPressure?, by watch: Int) {
        calls.async { [self] in
            let (observers, now) = state.withLock { state -> ([@Sendable () -> Void], MemoryPressure) in
                // A watch that has ended finds nothing more.
                guard let before = state.levels[watch], before != level else { return ([], state.level) }
                state.levels[watch] = level
                return (state.observers.all, state.level)
            }
            for observer in observers { observer() }
            if now == .severe, !observers.isEmpty { Self.giveBackFreeMemory() }
        }
    }

    fileprivate func isDeaf() {
        let isNew = state.withLock { !exchange(&$0.hasWarned, with: true) }
        if isNew { logger.info("the kernel tells nothing of memory pressure") }
    }

    /// Memory that was just freed would stay in malloc's arenas. Slow.
    static func giveBackFreeMemory() {
        #if canImport(Glibc)
            malloc_trim(0)
        #endif
    }
}

/// Hears the kernel's signs of memory pressure on a loop.
// Used on the thread of the loop only, and after the loop has ended by its last owner.
private final class PressureWatch: LoopClient, @unchecked Sendable {
    private let monitor: KernelMemoryPressure
    private let number: Int
    private let loop: EventLoop
    private let start = ContinuousClock.now
    private var sources: PressureSources?
    private var isOver = false
    private var state: PressureState
    private var client: UInt32 = 0
    private var signs: [PressureSign] = []
    /// Triggers are waited for always: the kernel limits their signs, and forgets one that comes while nobody waits.
    private var watched: [Int32: UInt32] = [:]
    private var isLooking = false
    /// Until then nothing is waited for: signs come in large numbers when memory is short.
    private var rests: Duration?
    private var nextLook: Duration?

    init(_ monitor: KernelMemoryPressure, _ number: Int, on loop: EventLoop) {
        (self.monitor, self.number, self.loop) = (monitor, number, loop)
        state = PressureState(calm: monitor.timing.calm)
    }

    private var now: Duration { start.duration(to: .now) }

    func open() {
        let sources = PressureSources(root: monitor.root, monitor.timing, now: now)
        if sources.isDeaf { return monitor.isDeaf() }
        let opened = Opened(sources: sources)
        loop.post { self.begin(opened.sources) }
    }

    private func begin(_ sources: PressureSources) {
        guard !isOver else { return close(sources) }
        self.sources = sources
        client = loop.add(self)
        watch(sources.watched)
        look(sources, at: now)
    }

    func end() {
        isOver = true
        guard let sources else { return }
        self.sources = nil
        watch([])
        loop.remove(client: client)
        close(sources)
    }

    private func close(_ sources: PressureSources) {
        let opened = Opened(sources: sources)
        monitor.calls.async { withExtendedLifetime(opened) {} }
    }

    // One thread at a time has it.
    private struct Opened: @unchecked Sendable {
        let sources: PressureSources
    }

    func ready(_ descriptor: Int32, _ events: UInt32) {
        guard let sources else { return }
        if let sign = sources.sign(of: descriptor, events) {
            signs.append(sign)
        } else if let old = watched.removeValue(forKey: descriptor) {
            loop.watch(descriptor, for: 0, insteadOf: old, client: client)
        }
    }

    func turn() -> ContinuousClock.Instant? {
        guard let sources, !isLooking else { return nil }
        let now = now
        if let rests, rests <= now {
            self.rests = nil
            watch(sources.watched)
        }
        if rests == nil, !signs.isEmpty || nextLook.map({ $0 <= now }) ?? false {
            look(sources, at: now)
            return nil
        }
        return (rests ?? nextLook).map { start + $0 }
    }

    /// Reading how much memory is in use may be slow when memory is short.
    private func look(_ sources: PressureSources, at now: Duration) {
        isLooking = true
        watch(sources.watched.filter { !$0.rests })
        let found = exchange(&signs, with: []) + sources.signsOfTimes(at: now)
        monitor.calls.async { [groups = sources.groups, root = monitor.root, loop] in
            let use = MemoryUse(groups, root: root)
            loop.post { self.judge(found.isEmpty ? [.looked] : found, use) }
        }
    }

    private func judge(_ signs: [PressureSign], _ use: MemoryUse) {
        guard let sources else { return }
        let (now, before) = (now, state.level)
        for sign in signs { state.apply(sign, use, at: now) }
        if state.level != before { monitor.learned(state.level, by: number) }
        isLooking = false
        rests = now + monitor.timing.spacing
        nextLook = [state.due, sources.period.map { now + $0 }].compactMap { $0 }.min()
    }

    private func watch(_ wanted: [PressureSources.Watched]) {
        for (descriptor, old) in watched where !wanted.contains(where: { $0.descriptor == descriptor }) {
            loop.watch(descriptor, for: 0, insteadOf: old, client: client)
            watched[descriptor] = nil
        }
        for next in wanted where watched[next.descriptor] == nil {
            loop.watch(next.descriptor, for: next.events, insteadOf: 0, client: client)
            watched[next.descriptor] = next.events
        }
    }
}

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

/// Passes a monitor's level on to the memory tiers of a cache and to other followers.
package final class PressureRelay: Sendable {
    private typealias Follower = @Sendable (MemoryPressure) -> Void

    private struct State {
        var followers: [(number: Int, call: Follower)] = []
        var last: [(number: Int, call: Follower)] = []
        var next = 0
        var observation: ChangeObservation?
        var latest = MemoryPressure.normal
        var isEnded = false
    }

    private let monitor: (any MemoryPressureMonitor)?
    private let onChange: @Sendable (MemoryPressure) -> Void
    private let told = Mutex(MemoryPressure.normal)
    private let state = Mutex(State())

    /// Observes the monitor until ``end()``.
    /// - Parameters:
    ///   - monitor: `nil` for memory that is never short.
    ///   - loop: waits for the kernel's signs.
    ///   - onChange: called with each new level, after all followers.
    init(
        _ monitor: (any MemoryPressureMonitor)?, on loop: EventLoop,
        onChange: @escaping @Sendable (MemoryPressure) -> Void
    ) {
        self.monitor = monitor
        self.onChange = onChange
        guard let monitor else { return }
        let pass: @Sendable () -> Void = { [weak self] in self?.pass() }
        let observation = (monitor as? KernelMemoryPressure)?.observe(on: loop, pass) ?? monitor.observe(pass)
        state.withLock { $0.observation = observation }
    }

    /// `normal` after ``end()``.
    package var level: MemoryPressure { state.withLock { $0.isEnded } ? .normal : monitor?.level ?? .normal }

    /// Calls `onChange` with the current level, unless that is `normal`, and with each later one, until the observation
    /// is released. The calls come from any thread, in the order of following. A level may be reported twice.
    /// - Parameter last: whether the follower is called after all followers that are not `last`.
    package func follow(
        last: Bool = false, _ onChange: @escaping @Sendable (MemoryPressure) -> Void
    ) -> ChangeObservation {
        let list: WritableKeyPath<State, [(number: Int, call: Follower)]> & Sendable = last ? \.last : \.followers
        let number = state.withLock { state in
            state.next += 1
            state[keyPath: list].append((state.next, onChange))
            return state.next
        }
        settle([onChange], startingWith: .normal)
        return ChangeObservation { [weak self] in
            let follower = self?.state.withLock { state -> Follower? in
                state[keyPath: list].firstIndex { $0.number == number }.map { state[keyPath: list].remove(at: $0).call }
            }
            _ = consume follower
        }
    }

    /// Followers that hold back because of pressure are told `normal`: they may also serve other caches of the process.
    func end() {
        let (observation, followers) = state.withLock { state in
            let isPressed = !state.isEnded && state.latest != .normal
            state.isEnded = true
            return (
                exchange(&state.observation, with: nil), isPressed ? (state.followers + state.last).map(\.call) : []
            )
        }
        _ = consume observation
        settle(followers, startingWith: nil)
    }

    private func pass() {
        guard let followers = state.withLock({ $0.isEnded ? nil : ($0.followers + $0.last).map(\.call) }) else {
            return
        }
        let level = settle(followers, startingWith: nil)
        let isNew = told.withLock { exchange(&$0, with: level) != level }
        if isNew { onChange(level) }
    }

    /// Two threads may report changes at the same time, the older one last, so the current level is read again.
    @discardableResult
    private func settle(_ followers: [Follower], startingWith known: MemoryPressure?) -> MemoryPressure {
        var known = known
        while true {
            let level = level
            if level == known { return level }
            state.withLock { $0.latest = level }
            for follower in followers { follower(level) }
            known = level
        }
    }
}
