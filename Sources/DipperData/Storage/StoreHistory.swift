import Foundation
import Synchronization

/// The removals from a store, as work that began before them must see them, so that nothing that was removed comes back.
///
/// A removal is noted here first, then the tiers are cleaned. A tier asks under its own lock whether it may keep
/// something (``Permit``): what it takes before the removal is noted is found by the cleaning, and what comes later is
/// refused.
///
/// Three rules: what began before everything was removed is not kept; nor is what was stored before the moment of a
/// flush; and what is being fetched for a key is not kept if the key was removed meanwhile (``Claim``).
package final class StoreHistory: Sendable {
    /// Counts removals of everything, in all stores of the process: what is read from one may be kept by another.
    private static let moments = Atomic<UInt64>(1)

    /// The present moment. It lies before every removal of everything that is still to come.
    package static var now: UInt64 { moments.load(ordering: .sequentiallyConsistent) }

    private let cleared = Atomic<UInt64>(0)
    private let flushed = Atomic<UInt64>((-TimeInterval.infinity).bitPattern)
    private let claims = Mutex<[CacheKey: [Claim.Standing]]>([:])

    package init() {}

    // MARK: Asking

    /// Entries stored before this moment are gone. Seconds since 1970.
    var storedBefore: TimeInterval { TimeInterval(bitPattern: flushed.load(ordering: .sequentiallyConsistent)) }

    /// Whether an entry, or what was made of it, may still be kept.
    package func admits(_ info: EntryInfo) -> Bool {
        info.begun >= cleared.load(ordering: .sequentiallyConsistent) && info.stored >= storedBefore
    }

    /// Begins work that will bring an entry for the key.
    func claim(_ key: CacheKey) -> Claim {
        let claim = Claim(key, self)
        claims.withLock { $0[key, default: []].append(claim.standing) }
        return claim
    }

    fileprivate func end(_ claim: Claim) {
        claims.withLock { claims in
            claims[claim.key]?.removeAll { $0 === claim.standing }
            if claims[claim.key]?.isEmpty == true { claims[claim.key] = nil }
        }
    }

    // MARK: Noting

    /// Everything is being removed.
    func clear() {
        cleared.store(
            Self.moments.add(1, ordering: .sequentiallyConsistent).newValue, ordering: .sequentiallyConsistent)
        claims.withLock { claims in
            for standing in claims.values.joined() { standing.revoke(.all) }
        }
    }

    /// Entries stored before the moment are being removed.
    func flush(storedBefore limit: TimeInterval) {
        setFlushed { max($0, limit) }
    }

    /// Something is being stored now. If that is before the moment of a flush, the clock has been set back.
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

    /// The entry of a key is being removed.
    func remove(_ key: CacheKey, from tiers: CacheTiers) {
        claims.withLock { claims in
            for standing in claims[key] ?? [] { standing.revoke(tiers) }
        }
    }

    /// A whole entry is being kept under the key.
    func supersede(_ key: CacheKey) {
        claims.withLock { claims in
            for standing in claims[key] ?? [] { standing.supersede() }
        }
    }
}

/// The right of work that is under way to have its result kept under a key. Removals of the key take it away, tier by
/// tier.
final class Claim: Sendable {
    /// The tiers that a claim has lost, and whether a later write has taken its place.
    fileprivate final class Standing: Sendable {
        private let lost = Atomic<UInt8>(0)
        private static let superseded: UInt8 = 0x80

        func revoke(_ tiers: CacheTiers) { lost.bitwiseOr(tiers.rawValue, ordering: .sequentiallyConsistent) }
        func supersede() { lost.bitwiseOr(Self.superseded, ordering: .sequentiallyConsistent) }

        var revoked: CacheTiers {
            .init(rawValue: lost.load(ordering: .sequentiallyConsistent) & ~Self.superseded)
        }
        var isSuperseded: Bool { lost.load(ordering: .sequentiallyConsistent) & Self.superseded != 0 }
        var isWhole: Bool { lost.load(ordering: .sequentiallyConsistent) & ~CacheTiers.memory.rawValue == 0 }
    }

    let key: CacheKey
    /// When the work began: a moment of ``StoreHistory``.
    let begun: UInt64
    fileprivate let standing = Standing()
    private let history: StoreHistory

    fileprivate init(_ key: CacheKey, _ history: StoreHistory) {
        self.key = key
        self.history = history
        begun = StoreHistory.now
    }

    deinit { history.end(self) }

    /// Whether an entry may be kept in a tier.
    func allows(_ tier: CacheTiers) -> Bool { standing.revoked.isDisjoint(with: tier) }

    /// Whether the beginning of a body may be kept on disk: the entry has not been removed from there, and no whole one
    /// has been kept since.
    var allowsPartial: Bool { standing.isWhole }

    /// Whether no other entry has been kept since.
    var isLatest: Bool { !standing.isSuperseded }

    /// Whether the entry was removed while the work was under way.
    var isRevoked: Bool { !standing.revoked.isEmpty }
}

/// Whether something may still be kept: asked by a tier under its own lock.
struct Permit: Sendable {
    let info: EntryInfo
    var claim: Claim?
    /// The entry is an old one, and must not take the place of one that was kept since the claim was made.
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
