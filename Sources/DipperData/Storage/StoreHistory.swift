import Foundation
import Synchronization

/// The removals from a store, recorded so that work that began before a removal does not bring removed entries back.
///
/// A removal is recorded here first; then the tiers are cleaned. A tier checks a ``Permit`` under its own lock before
/// it keeps an entry. The cleaning therefore finds every entry that a tier kept before the removal was recorded, and
/// the tier refuses every entry that comes later.
///
/// Three rules apply:
/// - An entry is refused if the work for it began before everything was removed.
/// - An entry is refused if it was stored before the moment of a flush.
/// - The result of a fetch is refused if its key was removed meanwhile (``Claim``).
package final class StoreHistory: Sendable {
    /// All stores of the process share it: an entry that is read from one store may be kept by another.
    private static let moments = Atomic<UInt64>(1)

    /// The present moment, which lies before every future removal of everything.
    package static var now: UInt64 { moments.load(ordering: .sequentiallyConsistent) }

    private let cleared = Atomic<UInt64>(0)
    private let flushed = Atomic<UInt64>((-TimeInterval.infinity).bitPattern)
    /// The first claim of each key; the others are linked to it.
    private let claims = Mutex<[CacheKey: Claim.Standing]>([:])

    package init() {}

    // MARK: Queries

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
            claim.standing.next = claims[key]
            claims[key] = claim.standing
        }
        return claim
    }

    fileprivate func end(_ claim: Claim) {
        claims.withLock { claims in
            let (ended, next) = (claim.standing, exchange(&claim.standing.next, with: nil))
            guard let first = claims[claim.key], first !== ended else { return claims[claim.key] = next }
            first.all.first { $0.next === ended }?.next = next
        }
    }

    // MARK: Changes

    func clear() {
        cleared.store(
            Self.moments.add(1, ordering: .sequentiallyConsistent).newValue, ordering: .sequentiallyConsistent)
        revoke(from: .all)
    }

    func revoke(from tiers: CacheTiers) {
        claims.withLock { claims in
            for first in claims.values { for standing in first.all { standing.revoke(tiers) } }
        }
    }

    /// - Parameter limit: entries stored earlier are being removed; in seconds since 1970.
    func flush(storedBefore limit: TimeInterval) {
        setFlushed { max($0, limit) }
    }

    /// Records that an entry is being stored now. A time before the moment of a flush means that the clock was set
    /// back; the moment is then moved back to that time.
    func store(at now: TimeInterval) {
        if now < storedBefore { setFlushed { min($0, now) } }
    }

    private func setFlushed(_ change: (TimeInterval) -> TimeInterval) {
        var old = flushed.load(ordering: .sequentiallyConsistent)
        while true {
            let new = change(TimeInterval(bitPattern: old)).bitPattern
            let (isDone, present) = flushed.compareExchange(
                expected: old, desired: new, ordering: .sequentiallyConsistent)
            if isDone { return }
            old = present
        }
    }

    func remove(_ key: CacheKey, from tiers: CacheTiers) {
        claims.withLock { claims in
            if let first = claims[key] { for standing in first.all { standing.revoke(tiers) } }
        }
    }

    func supersede(_ key: CacheKey) {
        claims.withLock { claims in
            if let first = claims[key] { for standing in first.all { standing.supersede() } }
        }
    }
}

/// The right of running work to keep its result under a key. Removals of the key revoke this right, tier by tier.
package final class Claim: Sendable {
    fileprivate final class Standing: Sendable {
        private let lost = Atomic<UInt8>(0)
        nonisolated(unsafe) var next: Standing?
        private static let superseded: UInt8 = 0x80

        var all: some Sequence<Standing> { sequence(first: self) { $0.next } }

        func revoke(_ tiers: CacheTiers) { lost.bitwiseOr(tiers.rawValue, ordering: .sequentiallyConsistent) }
        func supersede() { lost.bitwiseOr(Self.superseded, ordering: .sequentiallyConsistent) }

        var revoked: CacheTiers {
            .init(rawValue: lost.load(ordering: .sequentiallyConsistent) & ~Self.superseded)
        }
        var isSuperseded: Bool { lost.load(ordering: .sequentiallyConsistent) & Self.superseded != 0 }
        var isWhole: Bool { lost.load(ordering: .sequentiallyConsistent) & ~CacheTiers.memory.rawValue == 0 }
    }

    let key: CacheKey
    /// The moment of ``StoreHistory`` at which the work began.
    let begun: UInt64
    fileprivate let standing = Standing()
    private let history: StoreHistory
    private let outer: Claim?

    fileprivate init(_ key: CacheKey, _ history: StoreHistory, _ outer: Claim?) {
        self.key = key
        self.history = history
        self.outer = outer
        begun = StoreHistory.now
    }

    deinit { history.end(self) }

    // mutant Removal: `revoked.isDisjoint(with: tier) }` => `tier.isEmpty || true }`
    func allows(_ tier: CacheTiers) -> Bool { revoked.isDisjoint(with: tier) }

    private var revoked: CacheTiers { standing.revoked.union(outer?.revoked ?? []) }

    /// Whether the entry has not been removed from disk, and no complete one been kept, since the claim was made.
    var allowsPartial: Bool { standing.isWhole }

    var isLatest: Bool { !standing.isSuperseded }

    /// Whether the entry was removed from any tier while the work was running.
    var isRevoked: Bool { !revoked.isEmpty }

    /// Whether the entry was removed from memory and disk while the work was running.
    var isOutdated: Bool { revoked.isSuperset(of: [.memory, .disk]) }
}

/// The check that a tier makes, under its own lock, before it keeps an entry.
struct Permit: Sendable {
    let info: EntryInfo
    var claim: Claim?
    /// Whether the entry is an older one, which must not replace an entry that was kept after the claim was made.
    var isLatest = false

    init(_ info: EntryInfo, _ claim: Claim? = nil, isLatest: Bool = false) {
        self.info = info
        self.claim = claim
        self.isLatest = isLatest
    }

    func isGranted(in tier: CacheTiers, by history: StoreHistory) -> Bool {
        guard history.admits(info), let claim else { return history.admits(info) }
        return claim.allows(tier) && (!isLatest || claim.isLatest)
    }
}
