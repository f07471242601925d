import Synchronization

/// A relay that passes a monitor's level on to the memory tiers of a cache and to other followers.
package final class PressureRelay: Sendable {
    private typealias Follower = @Sendable (MemoryPressure) -> Void

    private struct State {
        /// The followers that are called first.
        var followers: [(number: Int, call: Follower)] = []
        /// The followers that are called after all others.
        var last: [(number: Int, call: Follower)] = []
        var next = 0
        var observation: ChangeObservation?
        /// The level that followers are being told.
        var latest = MemoryPressure.normal
        var isEnded = false
    }

    private let monitor: (any MemoryPressureMonitor)?
    private let onChange: @Sendable (MemoryPressure) -> Void
    /// The level of the last call of ``onChange``.
    private let told = Mutex(MemoryPressure.normal)
    private let state = Mutex(State())

    /// Creates a relay, which observes the monitor until ``end()``.
    /// - Parameters:
    ///   - monitor: the monitor; `nil` for memory that is never short.
    ///   - loop: waits for what the kernel tells.
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

    /// The monitor's level; `normal` after ``end()``.
    package var level: MemoryPressure { state.withLock { $0.isEnded } ? .normal : monitor?.level ?? .normal }

    /// Calls `onChange` with the current level, unless that is `normal`, and with each later one, until the observation
    /// is released.
    ///
    /// The calls come from any thread. Followers are called in the order in which they began to follow. A level may be
    /// reported twice.
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

    /// Ends the observation of the monitor. Followers that hold back because of pressure are told `normal`: they may
    /// also serve other caches of the process.
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

    /// Calls followers until they have been told the current level. Two threads may report changes at the same time,
    /// and the older one may come last.
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
