import Foundation
import Synchronization

/// The removals from a store, so that work that began before a removal does not bring removed entries back.
///
/// A removal is recorded first; then the tiers are cleaned. A tier checks a ``Permit`` under its lock before it keeps
/// an entry. So the cleaning finds every earlier entry, and the tier refuses every later one.
package final class RemovalHistory: Sendable {
    /// Shared by all stores of the process: an entry read from one store may be kept by another.
    private static let moments = Atomic<UInt64>(1)

    /// The present moment, before every future removal of everything.
    package static var now: UInt64 { moments.load(ordering: .sequentiallyConsistent) }

    private let cleared = Atomic<UInt64>(0)
    private let flushed = Atomic<UInt64>((-TimeInterval.infinity).bitPattern)
    private let claims = Mutex<[CacheKey: [Claim.Losses]]>([:])

    package init() {}

    /// Entries stored earlier are gone; in seconds since 1970.
    var storedBefore: TimeInterval { TimeInterval(bitPattern: flushed.load(ordering: .sequentiallyConsistent)) }

    package func admits(_ info: EntryInfo) -> Bool {
        info.begun >= cleared.load(ordering: .sequentiallyConsistent) && info.stored >= storedBefore
    }

    /// - Parameters:
    ///   - url: the key of the URL alone, for a key that does not begin with the URL.
    ///   - outer: a claim whose losses this one shares.
    func claim(_ key: CacheKey, of url: CacheKey? = nil, within outer: Claim? = nil) -> Claim {
        let claim = Claim(key, url, self, outer)
        claims.withLock { $0[key, default: []].append(claim.losses) }
        return claim
    }

    fileprivate func end(_ claim: Claim) {
        claims.withLock { claims in
            claims[claim.key]?.removeAll { $0 === claim.losses }
            if claims[claim.key]?.isEmpty == true { claims[claim.key] = nil }
        }
    }

    func clear() {
        cleared.store(
            Self.moments.add(1, ordering: .sequentiallyConsistent).newValue, ordering: .sequentiallyConsistent)
        revoke(from: .all)
    }

    func revoke(from tiers: CacheTiers) {
        claims.withLock { claims in
            for losses in claims.values.joined() { losses.add(tiers.rawValue) }
        }
    }

    func remove(_ key: CacheKey, from tiers: CacheTiers) { take(tiers.rawValue, from: key) }

    /// Takes time by the number of claims.
    func removeAll(of address: String, from tiers: CacheTiers) {
        claims.withLock { claims in
            for (key, all) in claims {
                for losses in all where key.isOf(address) || losses.url?.isOf(address) == true {
                    losses.add(tiers.rawValue)
                }
            }
        }
    }

    func supersede(_ key: CacheKey) { take(Claim.Losses.superseded, from: key) }

    private func take(_ rights: UInt8, from key: CacheKey) {
        claims.withLock { claims in
            for losses in claims[key] ?? [] { losses.add(rights) }
        }
    }

    func flush(storedBefore limit: TimeInterval) {
        changeFlushed { max($0, limit) }
    }

    /// Records that an entry is being stored now. If the clock was set back, the moment of a flush moves back as well.
    func store(at now: TimeInterval) {
        if now < storedBefore { changeFlushed { min($0, now) } }
    }

    private func changeFlushed(_ change: (TimeInterval) -> TimeInterval) {
        claims.withLock { _ in
            flushed.store(change(storedBefore).bitPattern, ordering: .sequentiallyConsistent)
        }
    }
}

/// The right of running work to keep its result under a key. Removals of the key revoke it, tier by tier.
package final class Claim: Sendable {
    /// The rights that a claim has lost: the tiers from which the entry has been removed, and one more.
    fileprivate final class Losses: Sendable {
        static let superseded: UInt8 = 0x80
        private let rights = Atomic<UInt8>(0)
        let url: CacheKey?

        init(_ url: CacheKey?) { self.url = url }

        var all: UInt8 { rights.load(ordering: .sequentiallyConsistent) }

        func add(_ lost: UInt8) { rights.bitwiseOr(lost, ordering: .sequentiallyConsistent) }
    }

    let key: CacheKey
    let begun: UInt64
    fileprivate let losses: Losses
    private let history: RemovalHistory
    private let outer: Claim?

    fileprivate init(_ key: CacheKey, _ url: CacheKey?, _ history: RemovalHistory, _ outer: Claim?) {
        self.key = key
        losses = Losses(url)
        self.history = history
        self.outer = outer
        begun = RemovalHistory.now
    }

    deinit { history.end(self) }

    // mutant Removal: `revoked.isDisjoint(with: tier) }` => `tier.isEmpty || true }`
    func allows(_ tier: CacheTiers) -> Bool { revoked.isDisjoint(with: tier) }

    private var revoked: CacheTiers {
        CacheTiers(rawValue: losses.all & ~Losses.superseded).union(outer?.revoked ?? [])
    }

    /// Whether the entry has not been removed from disk, nor a complete one kept, since the claim was made.
    var allowsPartial: Bool { losses.all & ~CacheTiers.memory.rawValue == 0 }

    var isLatest: Bool { losses.all & Losses.superseded == 0 }

    var isRevoked: Bool { !revoked.isEmpty }

    var isOutdated: Bool { revoked.isSuperset(of: [.memory, .disk]) }
}

/// The check of a tier, under its lock, before it keeps an entry.
struct Permit: Sendable {
    let info: EntryInfo
    private let claim: Claim?
    /// Whether the entry must not replace one that was kept after the claim was made.
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
