import Foundation
import Synchronization

/// The right of running work to keep its result under a key. Removals of the key revoke it, tier by tier.
package final class Claim: Sendable {
    /// The rights that a claim has lost: the tiers from which the entry has been removed, and one more.
    final class Losses: Sendable {
        static let superseded: UInt8 = 0x80
        let isOfAddition: Bool
        let number: UInt64
        /// Among those of its key, so that each of thousands leaves in constant time; under the lock of the history.
        let place = Atomic(0)
        private let rights = Atomic<UInt8>(0)
        let url: CacheKey?

        init(_ url: CacheKey?, _ number: UInt64, isOfAddition: Bool) {
            (self.url, self.number, self.isOfAddition) = (url, number, isOfAddition)
        }

        var all: UInt8 { rights.load(ordering: .sequentiallyConsistent) }

        func add(_ lost: UInt8) { rights.bitwiseOr(lost, ordering: .sequentiallyConsistent) }
    }

    let key: CacheKey
    let begun: UInt64
    let losses: Losses
    private let history: RemovalHistory
    private let outer: Claim?

    init(
        _ key: CacheKey, _ url: CacheKey?, _ history: RemovalHistory, _ outer: Claim?, _ number: UInt64,
        isAddition: Bool
    ) {
        (self.key, self.history, self.outer) = (key, history, outer)
        losses = Losses(url, number, isOfAddition: isAddition)
        begun = RemovalHistory.now
    }

    deinit { history.end(self) }

    // mutant Removal: `revoked.isDisjoint(with: tier) }` => `tier.isEmpty || true }`
    func allows(_ tier: CacheTiers) -> Bool { revoked.isDisjoint(with: tier) }

    private var lost: UInt8 { losses.all | (outer?.lost ?? 0) & (losses.isOfAddition ? Losses.superseded : .max) }
    private var revoked: CacheTiers { CacheTiers(rawValue: lost & ~Losses.superseded) }

    /// Whether the entry has not been removed from disk, nor a complete one kept, since the claim was made.
    var isCurrent: Bool { isLatest && allows(.disk) }

    var isLatest: Bool { lost & Losses.superseded == 0 }

    var isRevoked: Bool { !revoked.isEmpty }

    /// Whether nothing has happened since the claim was made, so that it is as good as a new one.
    var isUntouched: Bool { lost == 0 }

    func revoke() { losses.add(.max) }

    /// Notes another URL that is asked from now on: removals of that one revoke the right, too.
    func ask(_ address: String) {
        if key.isOf(address) || losses.url?.isOf(address) == true { return }
        history.note(address, of: losses)
    }

    var isOutdated: Bool { revoked.isSuperset(of: [.memory, .disk]) }

    func maySupersede(isLatest: Bool) -> Bool { !isOutdated && (!isLatest || self.isLatest) }
}

/// The check of a tier, under its lock, before it keeps an entry.
struct Permit: Sendable {
    let info: EntryInfo
    private let claim: Claim?
    /// Whether the entry must not replace one that was kept after the claim was made.
    private let isLatest: Bool
    private let others: CacheTiers

    /// - Parameter others: further tiers from which a removal revokes the permit.
    init(_ info: EntryInfo, _ claim: Claim? = nil, isLatest: Bool = false, andIn others: CacheTiers = []) {
        self.info = info
        self.claim = claim
        self.isLatest = isLatest
        self.others = others
    }

    func isGranted(in tier: CacheTiers, by history: RemovalHistory) -> Bool {
        guard history.admits(info) else { return false }
        return claim.map { $0.allows(tier.union(others)) && (!isLatest || $0.isLatest) } ?? true
    }
}
