import Foundation
import Synchronization

/// The right of running work to keep its result under a key. Removals of the key revoke it, tier by tier.
package final class Claim: Sendable {
    /// The part of a claim that the history knows. Its end has no effect, so it may come under the lock of the history.
    final class Losses: Sendable {
        /// The mark of a claim after which a complete entry has been kept, beside the tiers that it has lost.
        static let superseded: UInt8 = 0x80
        /// The mark of a claim from which the program has taken a tier.
        static let removed: UInt8 = 0x40

        let key: CacheKey
        /// The key of the URL alone; `nil` for a key that begins with the URL.
        private let url: Reference<CacheKey>?
        let number: UInt64
        let isOfAddition: Bool
        private let marks = Atomic<UInt8>(0)

        // Unsafe: only `ClaimTable` touches them, under the lock of the history.
        fileprivate nonisolated(unsafe) var neighbours: (next: Losses?, previous: Losses?)

        init(_ key: CacheKey, _ url: CacheKey?, _ number: UInt64, isOfAddition: Bool) {
            (self.key, self.number, self.isOfAddition) = (key, number, isOfAddition)
            self.url = url.map { Reference($0) }
        }

        var all: UInt8 { marks.load(ordering: .sequentiallyConsistent) }

        func add(_ lost: UInt8) { marks.bitwiseOr(lost, ordering: .sequentiallyConsistent) }

        /// Whether the work was asked for by a URL with this text.
        func isOf(_ address: String) -> Bool { key.isOf(address) || url?.value.isOf(address) == true }
    }

    let losses: Losses
    let begun: UInt64
    private let history: RemovalHistory
    private let outer: Claim?

    init(_ losses: Losses, _ history: RemovalHistory, _ outer: Claim?) {
        (self.losses, self.history, self.outer) = (losses, history, outer)
        begun = RemovalHistory.now
    }

    deinit { history.end(losses) }

    var key: CacheKey { losses.key }

    // mutant Removal: `revoked.isDisjoint(with: tier) }` => `tier.isEmpty || true }`
    func allows(_ tier: CacheTiers) -> Bool { revoked.isDisjoint(with: tier) }

    private var lost: UInt8 { losses.all | (outer?.lost ?? 0) & (losses.isOfAddition ? Losses.superseded : .max) }
    private var revoked: CacheTiers { CacheTiers(rawValue: lost & CacheTiers.all.rawValue) }

    /// Whether the entry has not been removed from disk, nor a complete one kept, since the claim was made.
    var isCurrent: Bool { isLatest && allows(.disk) }

    var isLatest: Bool { lost & Losses.superseded == 0 }

    var isRevoked: Bool { !revoked.isEmpty }

    /// Whether nothing has happened since the claim was made, so that it is as good as a new one.
    var isUntouched: Bool { lost == 0 }

    func revoke() { losses.add(.max) }

    /// Notes another URL that is asked from now on: removals of that one revoke the right, too.
    func ask(_ address: String) {
        if !losses.isOf(address) { history.note(address, of: losses) }
    }

    /// Whether the right was lost only to a newer answer that must not be kept.
    var isDropped: Bool { isRevoked && lost & Losses.removed == 0 }

    var isOutdated: Bool { revoked.isSuperset(of: [.memory, .disk]) }

    func maySupersede(isLatest: Bool) -> Bool { !isOutdated && (!isLatest || self.isLatest) }
}

/// The claims of a history by their keys. Those of one key are a chain, so that each of thousands leaves in constant
/// time. The table keeps no claim: each leaves it before it is freed.
struct ClaimTable: Sendable {
    private var first: [KeyHash: Claim.Losses] = [:]

    mutating func add(_ claim: Claim.Losses) {
        claim.neighbours.next = first.updateValue(claim, forKey: claim.key.hash)
        claim.neighbours.next?.neighbours.previous = claim
    }

    /// Without effect on a claim that has left already.
    mutating func remove(_ claim: Claim.Losses) {
        let (next, previous) = exchange(&claim.neighbours, with: (nil, nil))
        if let previous {
            previous.neighbours.next = next
        } else if first[claim.key.hash] === claim {
            first[claim.key.hash] = next
        }
        next?.neighbours.previous = previous
    }

    mutating func revokeAll(of key: CacheKey) {
        var next = first.removeValue(forKey: key.hash)
        while let claim = next {
            claim.add(.max)
            next = exchange(&claim.neighbours, with: (nil, nil)).next
        }
    }

    func forEach(of key: CacheKey, _ body: (Claim.Losses) -> Void) { Self.forEach(from: first[key.hash], body) }

    func forEach(_ body: (Claim.Losses) -> Void) { for first in first.values { Self.forEach(from: first, body) } }

    private static func forEach(from first: Claim.Losses?, _ body: (Claim.Losses) -> Void) {
        var next = first
        while let claim = next {
            body(claim)
            next = claim.neighbours.next
        }
    }
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
