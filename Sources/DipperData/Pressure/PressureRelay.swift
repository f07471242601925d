import Synchronization

/// Passes a monitor's level on to what a cache has in memory, and to who else wants to know.
package final class PressureRelay: Sendable {
    private typealias Follower = @Sendable (MemoryPressure) -> Void

    private struct State {
        var followers: [(number: Int, call: Follower)] = []
        /// Called after those.
        var last: [(number: Int, call: Follower)] = []
        var next = 0
        var observation: ChangeObservation?
        /// What followers are being told.
        var latest = MemoryPressure.normal
        var isEnded = false
    }

    private let monitor: (any MemoryPressureMonitor)?
    private let onChange: @Sendable (MemoryPressure) -> Void
    private let told = Mutex(MemoryPressure.normal)
    private let state = Mutex(State())

    /// - Parameters:
    ///   - monitor: `nil` for memory that is never short.
    ///   - onChange: called with each new level, after all followers have been.
    init(_ monitor: (any MemoryPressureMonitor)?, onChange: @escaping @Sendable (MemoryPressure) -> Void) {
        self.monitor = monitor
        self.onChange = onChange
        guard let monitor else { return }
        let observation = monitor.observe { [weak self] in self?.pass() }
        state.withLock { $0.observation = observation }
    }

    /// `normal` once it has ended.
    package var level: MemoryPressure { state.withLock { $0.isEnded } ? .normal : monitor?.level ?? .normal }

    /// Calls back with the level as it is now, unless that is `normal`, and with each one that follows, from any thread,
    /// in the order in which they began to follow. The same level may come twice.
    /// - Parameter last: to be called after all those that need not be.
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

    /// Nothing is observed any more. Followers that do without something are told that they need not any longer: they
    /// may do so for others in the process.
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

    /// Calls followers until they have been told what holds: of two changes that come at one time from two threads, the
    /// older may come last.
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
