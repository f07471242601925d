import Foundation
import Synchronization

/// The removals from a store, so that work that began before a removal does not bring removed entries back.
///
/// The order in which entries are asked for decides which one stays, not the order in which they arrive: what brings an
/// entry claims its key when it is asked for, and loses the right when the program removes or adds an entry later. What
/// the program adds also loses it when an answer that was asked for later arrives first.
///
/// A removal is recorded first; then the tiers are cleaned. A tier checks a ``Permit`` under its lock before it keeps
/// an entry. So the cleaning finds every earlier entry, and the tier refuses every later one. Then the removal is
/// recorded once more, because work that has claimed its right meanwhile may have read what was not yet cleaned.
package final class RemovalHistory: Sendable {
    /// Shared by all stores of the process: an entry read from one store may be kept by another.
    private static let moments = Atomic<UInt64>(1)

    /// The present moment, before every future removal of everything.
    package static var now: UInt64 { moments.load(ordering: .sequentiallyConsistent) }

    private let cleared = Atomic<UInt64>(0)
    private let flushed = Atomic<UInt64>((-TimeInterval.infinity).bitPattern)
    private let claims = Mutex(ClaimTable())
    /// The claims of work that asks another URL than that of its key, by their numbers: few.
    private let elsewhere = RareTable<UInt64, (losses: Claim.Losses, address: String)>()
    /// The number of the latest claim of all stores, by which the order of claims is known.
    private static let latest = Atomic<UInt64>(0)

    package init() {}

    /// Entries stored earlier are gone; in seconds since 1970.
    var storedBefore: TimeInterval { TimeInterval(bitPattern: flushed.load(ordering: .sequentiallyConsistent)) }

    package func admits(_ info: EntryInfo) -> Bool {
        info.begun >= cleared.load(ordering: .sequentiallyConsistent) && info.stored >= storedBefore
    }

    /// - Parameters:
    ///   - url: the key of the URL alone, for a key that does not begin with the URL.
    ///   - outer: a claim whose losses this one shares; an addition only shares that newer bytes were kept.
    ///   - isAddition: whether the program adds the entry, or one that is made of it.
    ///   - isReplacing: whether the claim takes the right from all before it, as a removal does.
    func claim(
        _ key: CacheKey, of url: CacheKey? = nil, within outer: Claim? = nil, isAddition: Bool = false,
        isReplacing: Bool = false
    ) -> Claim {
        let number = Self.latest.add(1, ordering: .relaxed).newValue
        let losses = Claim.Losses(key, url, number, isOfAddition: isAddition)
        let claim = Claim(losses, self, outer)
        claims.withLock { claims in
            if isReplacing { claims.revokeAll(of: key) }
            claims.add(losses)
        }
        return claim
    }

    func end(_ losses: Claim.Losses) {
        claims.withLock { $0.remove(losses) }
        elsewhere.remove { _ in [losses.number] }
    }

    /// Notes the URL that the work of a claim asks from now on.
    func note(_ address: String, of losses: Claim.Losses) {
        elsewhere.change { $0[losses.number] = (losses, address) }
    }

    func clear() {
        cleared.store(
            Self.moments.add(1, ordering: .sequentiallyConsistent).newValue, ordering: .sequentiallyConsistent)
        revoke(from: .all)
    }

    func revoke(from tiers: CacheTiers) {
        claims.withLock { $0.forEach { $0.add(tiers.rawValue | Claim.Losses.removed) } }
    }

    /// Takes time by the number of claims.
    func removeAll(of address: String, from tiers: CacheTiers) {
        claims.withLock { claims in
            claims.forEach { if $0.isOf(address) { $0.add(tiers.rawValue | Claim.Losses.removed) } }
        }
        elsewhere.remove { elsewhere in
            for (losses, asked) in elsewhere.values where asked == address {
                losses.add(tiers.rawValue | Claim.Losses.removed)
            }
            return []
        }
    }

    /// Records once more that the program adds an entry, now that it can be found: work that has begun meanwhile may have
    /// read the one before.
    func replace(_ key: CacheKey, by claim: Claim) {
        claims.withLock { claims in
            if claim.isRevoked { return }
            claims.forEach(of: key) { if $0 !== claim.losses { $0.add(.max) } }
        }
    }

    /// - Parameter isDrop: whether the cache drops the entry for a newer answer, which must not be kept.
    func remove(_ key: CacheKey, from tiers: CacheTiers, isDrop: Bool = false) {
        let lost = isDrop ? tiers.rawValue : tiers.rawValue | Claim.Losses.removed
        claims.withLock { $0.forEach(of: key) { $0.add(lost) } }
    }

    /// Records that an entry is being kept: what was asked for before it comes too late.
    /// - Parameter isLatest: whether the program adds the entry, which then replaces none kept after the claim was made.
    /// - Returns: `false`, and nothing is recorded, if the entry must not be kept.
    @discardableResult
    func supersede(_ key: CacheKey, by claim: Claim? = nil, isLatest: Bool = false) -> Bool {
        claims.withLock { claims in
            guard claim?.maySupersede(isLatest: isLatest) != false else { return false }
            let number = claim?.losses.number ?? .max
            claims.forEach(of: key) { other in
                if other.number <= number, !(isLatest && other.isOfAddition) { other.add(Claim.Losses.superseded) }
            }
            return true
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

/// The removals that are so recent that another process may have asked for an entry before. A value.
struct RecentRemovals: Sendable {
    /// In seconds since 1970: of everything, and of the keys of a URL by their common first line.
    private var everything = -TimeInterval.infinity
    private var keys: [Substring: TimeInterval] = [:]

    private static let most = 1_024
    /// In seconds. A longer limit counts as this.
    private static let longest: TimeInterval = 600

    /// - Parameter key: `nil` for all keys.
    mutating func add(_ key: CacheKey?, at now: TimeInterval) {
        if keys.count >= Self.most { keys = keys.filter { now - $0.value < Self.longest } }
        if let key, keys.count < Self.most { return keys[Self.name(of: key)] = now }
        (everything, keys) = (now, [:])
    }

    func has(_ key: CacheKey, within limit: TimeInterval, at now: TimeInterval) -> Bool {
        // A time that is still to come says nothing: the clock was set back.
        (0..<min(limit, Self.longest)).contains(now - max(everything, keys[Self.name(of: key)] ?? everything))
    }

    private static func name(of key: CacheKey) -> Substring {
        Substring(key.string.utf8.prefix { $0 != UInt8(ascii: "\n") })
    }
}
