import Foundation
import Synchronization

/// The removals from a store, so that work that began before a removal does not bring removed entries back.
///
/// A removal is recorded here first; then the tiers are cleaned. A tier checks a ``Permit`` under its own lock before
/// it keeps an entry. The cleaning therefore finds every entry that a tier kept before the removal was recorded, and
/// the tier refuses every entry that comes later.
package final class RemovalHistory: Sendable {
    /// All stores of the process share it: an entry that is read from one store may be kept by another.
    private static let moments = Atomic<UInt64>(1)

    /// The present moment, which lies before every future removal of everything.
    package static var now: UInt64 { moments.load(ordering: .sequentiallyConsistent) }

    private let cleared = Atomic<UInt64>(0)
    private let flushed = Atomic<UInt64>((-TimeInterval.infinity).bitPattern)
    /// The first claim of each key; the others are linked to it.
    private let claims = Mutex<[CacheKey: Claim.State]>([:])

    package init() {}

    /// Entries stored earlier are gone; in seconds since 1970.
    var storedBefore: TimeInterval { TimeInterval(bitPattern: flushed.load(ordering: .sequentiallyConsistent)) }

    /// Returns whether an entry, or an object made from it, may still be kept.
    package func admits(_ info: EntryInfo) -> Bool {
        info.begun >= cleared.load(ordering: .sequentiallyConsistent) && info.stored >= storedBefore
    }

    /// - Parameter outer: another claim, whose loss is a loss of this one.
    func claim(_ key: CacheKey, within outer: Claim? = nil) -> Claim {
        let claim = Claim(key, self, outer)
        claims.withLock { claims in
            claim.state.next = claims[key]
            claims[key] = claim.state
        }
        return claim
    }

    fileprivate func end(_ claim: Claim) {
        claims.withLock { claims in
            let (ended, next) = (claim.state, exchange(&claim.state.next, with: nil))
            guard let first = claims[claim.key], first !== ended else { return claims[claim.key] = next }
            first.all.first { $0.next === ended }?.next = next
        }
    }

    func clear() {
        cleared.store(
            Self.moments.add(1, ordering: .sequentiallyConsistent).newValue, ordering: .sequentiallyConsistent)
        revoke(from: .all)
    }

    func revoke(from tiers: CacheTiers) {
        claims.withLock { claims in
            for first in claims.values { first.lose(tiers.rawValue) }
        }
    }

    func remove(_ key: CacheKey, from tiers: CacheTiers) { take(tiers.rawValue, from: key) }

    /// Records that an entry has been kept under the key.
    func supersede(_ key: CacheKey) { take(Claim.State.superseded, from: key) }

    private func take(_ rights: UInt8, from key: CacheKey) {
        claims.withLock { claims in
            if let first = claims[key] { first.lose(rights) }
        }
    }

    func flush(storedBefore limit: TimeInterval) {
        changeFlushed { max($0, limit) }
    }

    /// Records that an entry is being stored now. A time before the moment of a flush means that the clock was set
    /// back; the moment is then moved back to that time.
    func store(at now: TimeInterval) {
        if now < storedBefore { changeFlushed { min($0, now) } }
    }

    private func changeFlushed(_ change: (TimeInterval) -> TimeInterval) {
        // The lock keeps two changes apart; readers do without it.
        claims.withLock { _ in
            flushed.store(change(storedBefore).bitPattern, ordering: .sequentiallyConsistent)
        }
    }
}

/// The right of running work to keep its result under a key. Removals of the key revoke this right, tier by tier.
package final class Claim: Sendable {
    /// The rights that a claim has lost. The claims of a key are linked, under the lock of the history.
    fileprivate final class State: Sendable {
        static let superseded: UInt8 = 0x80

        /// The raw value of the revoked tiers, and whether the claim is superseded.
        private let losses = Atomic<UInt8>(0)
        nonisolated(unsafe) var next: State?

        var all: some Sequence<State> { sequence(first: self) { $0.next } }
        var lost: UInt8 { losses.load(ordering: .sequentiallyConsistent) }

        /// Takes rights from this claim and from those linked to it.
        func lose(_ rights: UInt8) {
            for state in all { state.losses.bitwiseOr(rights, ordering: .sequentiallyConsistent) }
        }
    }

    let key: CacheKey
    /// The moment of ``RemovalHistory`` at which the work began.
    let begun: UInt64
    fileprivate let state = State()
    private let history: RemovalHistory
    private let outer: Claim?

    fileprivate init(_ key: CacheKey, _ history: RemovalHistory, _ outer: Claim?) {
        self.key = key
        self.history = history
        self.outer = outer
        begun = RemovalHistory.now
    }

    deinit { history.end(self) }

    // mutant Removal: `revoked.isDisjoint(with: tier) }` => `tier.isEmpty || true }`
    func allows(_ tier: CacheTiers) -> Bool { revoked.isDisjoint(with: tier) }

    private var revoked: CacheTiers {
        CacheTiers(rawValue: state.lost & ~State.superseded).union(outer?.revoked ?? [])
    }

    /// Whether the entry has not been removed from disk, and no complete one been kept, since the claim was made.
    var allowsPartial: Bool { state.lost & ~CacheTiers.memory.rawValue == 0 }

    var isLatest: Bool { state.lost & State.superseded == 0 }

    var isRevoked: Bool { !revoked.isEmpty }

    var isOutdated: Bool { revoked.isSuperset(of: [.memory, .disk]) }
}

/// The check that a tier makes, under its own lock, before it keeps an entry.
struct Permit: Sendable {
    let info: EntryInfo
    private let claim: Claim?
    /// Whether the entry is an older one, which must not replace an entry that was kept after the claim was made.
    private let isLatest: Bool

    init(_ info: EntryInfo, _ claim: Claim? = nil, isLatest: Bool = false) {
        self.info = info
        self.claim = claim
        self.isLatest = isLatest
    }

    func isGranted(in tier: CacheTiers, by history: RemovalHistory) -> Bool {
        guard history.admits(info) else { return false }
        return claim.map { $0.allows(tier) && (!isLatest || $0.isLatest) } ?? true
    }
}
