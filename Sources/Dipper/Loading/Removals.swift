import Synchronization

/// The removals that concern a piece of work. Any thread may add some while the work runs.
final class Removals: Sendable {
    private let state: Mutex<Removed>

    init(_ removed: Removed = Removed()) {
        state = Mutex(removed)
    }

    func add(_ removed: Removed) { state.withLock { $0.add(removed) } }

    /// Returns the tiers in which a picture made from an answer must not be kept.
    func tiers(for info: EntryInfo) -> CacheTiers { state.withLock { $0.tiers(for: info) } }
}
