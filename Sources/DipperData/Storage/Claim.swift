import Foundation
import Synchronization

/// The right of running work to keep its result under a key. Removals of the key revoke it, tier by tier.
package final class Claim: Sendable {
    /// The mark of a claim after which a complete entry has been kept, beside the tiers that it has lost.
    static let superseded: UInt8 = 0x80

    let key: CacheKey
    /// The key of the URL alone; `nil` for a key that begins with the URL.
    private let url: Reference<CacheKey>?
    let number: UInt64
    let begun: UInt64
    let isOfAddition: Bool
    private let losses = Atomic<UInt8>(0)
    private let history: RemovalHistory
    private let outer: Claim?

    // Unsafe: only `ClaimTable` touches them, under the lock of the history.
    fileprivate nonisolated(unsafe) var isListed = false
    fileprivate nonisolated(unsafe) var next: Unmanaged<Claim>?
    fileprivate nonisolated(unsafe) var previous: Unmanaged<Claim>?

    init(
        _ key: CacheKey, _ url: CacheKey?, _ history: RemovalHistory, _ outer: Claim?, _ number: UInt64,
        isAddition: Bool
    ) {
        (self.key, self.history, self.outer, self.number) = (key, history, outer, number)
        self.url = url.map { Reference($0) }
        isOfAddition = isAddition
        begun = RemovalHistory.now
    }

    deinit { history.end(self) }

    func lose(_ lost: UInt8) { losses.bitwiseOr(lost, ordering: .sequentiallyConsistent) }

    // mutant Removal: `revoked.isDisjoint(with: tier) }` => `tier.isEmpty || true }`
    func allows(_ tier: CacheTiers) -> Bool { revoked.isDisjoint(with: tier) }

    private var lost: UInt8 {
        losses.load(ordering: .sequentiallyConsistent)
            | (outer?.lost ?? 0) & (isOfAddition ? Self.superseded : .max)
    }
    private var revoked: CacheTiers { CacheTiers(rawValue: lost & ~Self.superseded) }

    /// Whether the entry has not been removed from disk, nor a complete one kept, since the claim was made.
    var isCurrent: Bool { isLatest && allows(.disk) }

    var isLatest: Bool { lost & Self.superseded == 0 }

    var isRevoked: Bool { !revoked.isEmpty }

    /// Whether nothing has happened since the claim was made, so that it is as good as a new one.
    var isUntouched: Bool { lost == 0 }

    func revoke() { lose(.max) }

    /// Whether the work was asked for by a URL with this text.
    func isOf(_ address: String) -> Bool { key.isOf(address) || url?.value.isOf(address) == true }

    /// Notes another URL that is asked from now on: removals of that one revoke the right, too.
    func ask(_ address: String) {
        if !isOf(address) { history.note(address, of: self) }
    }

    var isOutdated: Bool { revoked.isSuperset(of: [.memory, .disk]) }

    func maySupersede(isLatest: Bool) -> Bool { !isOutdated && (!isLatest || self.isLatest) }
}

/// The claims of a history by their keys. Those of one key are a chain, so that each of thousands leaves in constant
/// time. The table does not keep its claims: each leaves it before it is freed.
struct ClaimTable: Sendable {
    private var first: [KeyHash: Unmanaged<Claim>] = [:]

    mutating func add(_ claim: Claim) {
        claim.next = first.updateValue(.passUnretained(claim), forKey: claim.key.hash)
        claim.next?._withUnsafeGuaranteedRef { $0.previous = .passUnretained(claim) }
        claim.isListed = true
    }

    mutating func remove(_ claim: Claim) {
        guard claim.isListed else { return }
        let (previous, next) = (claim.previous, claim.next)
        if let previous {
            previous._withUnsafeGuaranteedRef { $0.next = next }
        } else {
            first[claim.key.hash] = next
        }
        next?._withUnsafeGuaranteedRef { $0.previous = previous }
        Self.unlink(claim)
    }

    mutating func removeAll(of key: CacheKey, _ body: (Claim) -> Void) {
        Self.forEach(from: first.removeValue(forKey: key.hash)) { claim in
            Self.unlink(claim)
            body(claim)
        }
    }

    func forEach(of key: CacheKey, _ body: (Claim) -> Void) { Self.forEach(from: first[key.hash], body) }

    func forEach(_ body: (Claim) -> Void) { for first in first.values { Self.forEach(from: first, body) } }

    private static func forEach(from first: Unmanaged<Claim>?, _ body: (Claim) -> Void) {
        var next = first
        while let claim = next {
            next = claim._withUnsafeGuaranteedRef { claim in
                let next = claim.next
                body(claim)
                return next
            }
        }
    }

    private static func unlink(_ claim: Claim) { (claim.isListed, claim.previous, claim.next) = (false, nil, nil) }
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
