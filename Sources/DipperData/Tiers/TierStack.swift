import DequeModule
import Foundation
import Logging
import Synchronization

final class TierStack: Sendable {
    private typealias LookUp = @Sendable () async -> Void

    private struct LookUps {
        var running = 0
        var urgent = Deque<LookUp>()
        var others = Deque<LookUp>()
    }

    /// The size of the largest record to store or use, in bytes.
    private static let recordLimit = 8 << 20
    private static let mostLookUps = 32

    private let tiers: [TierQueue]
    private let format: RecordFormat
    private let now: @Sendable () -> Date
    private let lookUps = Mutex(LookUps())

    init(
        _ tiers: [any Tier], timeLimit: Duration, format: RecordFormat, history: RemovalHistory, time: TimeSource,
        now: @escaping @Sendable () -> Date, logger: Logger
    ) {
        self.tiers = tiers.map {
            TierQueue($0, timeLimit: timeLimit, history: history, time: time, logger: logger)
        }
        self.format = format
        self.now = now
    }

    // MARK: Looking up

    func run(isUrgent: Bool, _ lookUp: @escaping @Sendable () async -> Void) {
        let begins = lookUps.withLock { lookUps in
            if lookUps.running < Self.mostLookUps {
                lookUps.running += 1
                return true
            }
            if isUrgent { lookUps.urgent.append(lookUp) } else { lookUps.others.append(lookUp) }
            return false
        }
        guard begins else { return }
        Task {
            var next: LookUp? = lookUp
            while let lookUp = next {
                await lookUp()
                next = lookUps.withLock { lookUps in
                    let next = lookUps.urgent.popFirst() ?? lookUps.others.popFirst()
                    if next == nil { lookUps.running -= 1 }
                    return next
                }
            }
        }
    }

    func record(of key: CacheKey) async -> EntryRecord? {
        let name = key.digest
        let begun = RemovalHistory.now
        for tier in tiers {
            guard let data = await tier.data(named: name), data.count <= Self.recordLimit else { continue }
            let record = format.decode(data, begun: begun, limit: Self.recordLimit).record
            // The tier may have been cleared, or the record removed.
            let hiddenBefore = tier.hiddenBefore(name)
            // mutant Tier: `red >= hiddenB` => `red >= -hiddenB`
            guard let record, record.key == key, record.value.info.stored >= hiddenBefore else { continue }
            return record
        }
        return nil
    }

    // MARK: Changing

    /// In every tier, in the background.
    func store(_ record: EntryRecord, claim: Claim?) {
        guard record.value.data.count <= Self.recordLimit, let (body, trailer) = try? format.encode(record),
            body.count + trailer.count <= Self.recordLimit
        else { return }
        let expires = record.lifetime.expires
        let expiration = expires == .infinity ? nil : Date(timeIntervalSince1970: expires)
        change(
            .store(body + trailer, until: expiration), of: record.key, permit: Permit(record.value.info, claim))
    }

    /// In every tier, in the background; this process finds the record no longer.
    func remove(_ key: CacheKey) { change(.remove, of: key) }

    private func change(_ change: TierChanges.Change, of key: CacheKey, permit: Permit? = nil) {
        let name = key.digest
        let end = afterNow
        for tier in tiers { tier.add(change, to: name, before: end, permit) }
    }

    /// Makes this process ignore the records stored so far; others use them.
    func hideAll() {
        let end = afterNow
        for tier in tiers { tier.hideAll(before: end) }
    }

    /// In seconds since 1970: later records are not before that time.
    private var afterNow: TimeInterval { now().timeIntervalSince1970.nextUp }

    /// Returns when the changes have been carried out, or wait while a tier rests.
    func settle() async {
        for tier in tiers { await tier.settle() }
    }

    func shutdown() async {
        for tier in tiers { tier.close() }
        await settle()
        for tier in tiers { tier.endRest() }
    }
}
