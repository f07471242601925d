import Synchronization

/// Removals that concern a piece of work, noted by any thread while it runs.
final class Removals: Sendable {
    private let state: Mutex<Removed>

    init(_ removed: Removed = Removed()) {
        state = Mutex(removed)
    }

    func add(_ removed: Removed) { state.withLock { $0.add(removed) } }

    /// The tiers that something made of an answer stays out of.
    func tiers(for info: EntryInfo) -> CacheTiers { state.withLock { $0.tiers(for: info) } }
}
