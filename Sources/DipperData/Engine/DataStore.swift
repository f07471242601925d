import Dispatch
import Foundation
import Logging
import Synchronization

struct FoundEntry: Sendable {
    let value: StoredData
    let source: ResponseSource
    /// The key of the variant; `nil` for an entry under the call's own key.
    var place: CacheKey?
    /// The task that fetches newer bytes for calls that are answered with these meanwhile.
    var revalidation: DataTask?
    /// Whether an earlier attempt may have left something for the call's own key.
    var mayHaveRemnant = true
}

/// The bytes that a stored form is made of.
struct FormBasis: Sendable {
    let key: CacheKey
    /// The right to keep what is made of them.
    let claim: Claim
    /// Returns when those that are here were stored: a form of older ones is out of date. Reads the index.
    let present: @Sendable () -> TimeInterval
}

extension EntryInfo {
    var storedDate: Date { Date(timeIntervalSince1970: stored) }

    /// Returns the key of the variant that header fields choose; `nil` if they choose this answer.
    @inline(__always)
    func place(of key: CacheKey, chosenBy fields: HTTPHeaders) -> CacheKey? {
        guard let variant, !variant.matches(fields) else { return nil }
        return key.variant(variant.selection(for: fields), family: family)
    }
}

/// The tiers that keep bytes: memory, the disk tier, if there is one, and the program's own tiers below them.
final class DataStore: Sendable {
    let memory: MemoryTier<StoredData>
    let disk: DiskTier?
    /// The failures that this process has seen, and the partial bodies of a cache without a disk tier.
    let remnants: MemoryTier<StoredData>
    let tiers: SharedTiers?
    let history: RemovalHistory
    private let removals = Mutex(RecentRemovals())
    /// Nearly always nothing has been removed.
    private let hasRemovals = Atomic(false)
    let expiries: ExpiryWatch
    let readers: Workers?
    /// Serial: Dispatch's global queues share their threads with Swift's tasks, which blocking work would hold up.
    private let thread = DispatchQueue(label: "dipper.store")
    private let defaults: StoreDefaults
    let now: @Sendable () -> Date
    /// Called with the key of each entry that takes the place of an earlier one, outside of locks.
    let onReplaced = AtomicLazyReference<Reference<@Sendable (CacheKey) -> Void>>()
    /// Whether memory may have a failure or a partial body: nearly always nobody need look.
    private let hasRemnants = Atomic(false)

    init(
        memory: MemoryTier<StoredData>, disk: DiskTier?, remnants: MemoryTier<StoredData>, tiers: SharedTiers? = nil,
        history: RemovalHistory, expiries: ExpiryWatch,
        defaults: StoreDefaults, now: @escaping @Sendable () -> Date
    ) {
        (self.memory, self.disk, self.remnants, self.tiers) = (memory, disk, remnants, tiers)
        (self.history, self.expiries, self.defaults, self.now) = (history, expiries, defaults, now)
        readers = disk.map { Workers(name: JoinableThread.name($0.options.name, "read"), threads: 2) }
    }

    // MARK: Reading

    /// Reads memory and disk on the caller's thread. An entry from disk is put into memory, if memory is asked.
    /// - Parameter call: the call whose expirations hold; `nil` for the cache's defaults.
    func peek(
        _ key: CacheKey, for call: Call? = nil, in tiers: CacheTiers = .all
    ) -> FoundEntry? {
        if tiers.contains(.memory), let value = inMemory(key, for: call) {
            return FoundEntry(value: value, source: .memory)
        }
        return readThrough(key, call, in: tiers)
    }

    private func readThrough(_ key: CacheKey, _ call: Call?, in tiers: CacheTiers) -> FoundEntry? {
        guard let disk, tiers.contains(.disk) else { return nil }
        let changes = memory.changes(of: key)
        let reader = call?.request.diskAccessExtension.map {
            Lifetime.Reader(expiration: call?.request.diskExpiration, accessExtension: $0)
        }
        guard let record = disk.entry(for: key, extendedBy: reader) else { return nil }
        if tiers.contains(.memory) { warm(record, call, unlessChangedSince: changes) }
        return FoundEntry(value: record.value, source: .disk, mayHaveRemnant: record.mayHaveRemnant)
    }

    /// Looks up memory and disk, on a reader's thread, and then the tiers below: the entry, or the variant that the
    /// call's fields choose. Without either, or if it is out of date, notes what an earlier attempt has left on disk.
    func lookUp(
        _ call: Call, _ place: Workers.Place, wantsRemnant: Bool,
        _ answer: @escaping @Sendable (FoundEntry?, Remnant?, @escaping @Sendable () -> Void) -> Void
    ) -> Workers.Ticket? {
        let lookUp = readers?.add(
            place,
            untilTaken: { delivered in
                let found = self.find(call.key, call.request.headers, for: call).map { self.renewed($0, for: call) }
                // Read here, because the tiers answer on the loop.
                let remnant = wantsRemnant ? self.remnant(for: call, beside: found) : nil
                guard found == nil, let tiers = self.tiers(for: call) else { return answer(found, remnant, delivered) }
                // A tier may be slow; meanwhile the disk answers others.
                delivered()
                self.look(in: tiers, for: call, place) { below in
                    let rest = below == nil ? remnant : remnant?.failure.map(Remnant.failure)
                    answer(below, self.mayFollowFailure(call, beside: below) ? rest : nil, {})
                }
            })
        if let lookUp { return lookUp }
        let goOn = { @Sendable (found: FoundEntry?) in
            answer(found, self.failureInMemory(of: call.key).map(Remnant.failure), {})
        }
        let found = kept(for: call)
        if found == nil, let tiers = tiers(for: call) { look(in: tiers, for: call, place, goOn) } else { goOn(found) }
        return nil
    }

    /// Returns what another process has put on disk since memory took an entry that is out of date.
    private func renewed(_ found: FoundEntry, for call: Call) -> FoundEntry {
        let (info, place) = (found.value.info, found.place ?? call.key)
        guard found.source == .memory, call.use(of: info, at: now().timeIntervalSince1970) != .fresh,
            let newer = disk?.info(of: place), newer.stored > info.stored,
            let newest = readThrough(place, call, in: .all), newest.value.info.stored > info.stored
        else { return found }
        return FoundEntry(value: newest.value, source: .disk, place: found.place)
    }

    private func remnant(for call: Call, beside found: FoundEntry?) -> Remnant? {
        guard let found else { return disk?.remnant(of: call.key) }
        guard found.mayHaveRemnant, mayFollowFailure(call, beside: found) else { return nil }
        return disk?.remnant(of: call.key)?.failure.map(Remnant.failure)
    }

    /// Whether an earlier failure may be the answer to a call, because no entry is.
    private func mayFollowFailure(_ call: Call, beside found: FoundEntry?) -> Bool {
        guard let info = found?.value.info else { return true }
        return info.status >= 400 || call.use(of: info, at: now().timeIntervalSince1970) == .revalidate
    }

    /// The tiers below the disk, if a call may look there.
    private func tiers(for call: Call) -> SharedTiers? { call.mayBeShared ? tiers : nil }

    private func look(
        in tiers: SharedTiers, for call: Call, _ place: Workers.Place,
        _ answer: @escaping @Sendable (FoundEntry?) -> Void
    ) {
        tiers.run(isUrgent: place.rank == .urgent) { ended in
            let end: @Loop (FoundEntry?) -> Void = { found in
                ended()
                answer(found)
            }
            self.take(call.key, call, from: tiers) { first in
                guard let first else { return end(nil) }
                let found = FoundEntry(value: first, source: .shared)
                guard let place = first.info.place(of: call.key, chosenBy: call.request.headers) else {
                    return end(found)
                }
                self.take(place, call, from: tiers) { chosen in
                    end(chosen.map { FoundEntry(value: $0, source: .shared, place: place) } ?? found)
                }
            }
        }
    }

    @Loop private func take(
        _ key: CacheKey, _ call: Call, from tiers: SharedTiers, madeOf basis: FormBasis? = nil,
        notBefore earliest: TimeInterval = -.infinity, _ answer: @escaping @Loop (StoredData?) -> Void
    ) {
        // The claim comes first: an entry that is removed or replaced from now on is not brought back.
        let claim = history.claim(key, of: call.plainKey?.value, within: basis?.claim)
        tiers.find(key, madeOf: basis?.key) { record in
            answer(record.flatMap { self.admit($0.value, for: key, call, claim, notBefore: earliest) })
        }
    }

    /// Keeps what a tier has in memory and on disk; `nil` if it must not be used.
    private func admit(
        _ found: StoredData, for key: CacheKey, _ call: Call, _ claim: Claim, notBefore earliest: TimeInterval
    ) -> StoredData? {
        let value = StoredData(data: found.data, info: found.info.with(audience: .everybody))
        guard history.admits(found.info), found.info.stored >= earliest,
            let record = diskRecord(value, for: key, call, stored: found.info.storedDate)
        else { return nil }
        disk?.write(record, claim: claim, isLatest: true)
        memory.insert(
            value, for: key, cost: value.cost(for: key), lifetime: memoryLifetime(call),
            permit: Permit(value.info, claim, isLatest: true))
        return value
    }

    /// Reads the partial body that an earlier attempt has left on disk, on a reader's thread.
    /// - Returns: `false`, and `answer` is not called, without a disk tier.
    func readPartial(
        of key: CacheKey, _ place: Workers.Place, _ answer: @escaping @Sendable (PartialBody?) -> Void
    ) -> Bool {
        readers?.add(place, { answer(self.disk?.partial(of: key)) }) != nil
    }

    func runOnReader(_ place: Workers.Place, _ work: @escaping @Sendable () -> Void) {
        if readers?.add(place, work) == nil { thread.async(execute: work) }
    }

    /// Looks up a stored form in memory and on disk, on a reader's thread, and then in the tiers below.
    func read(
        _ key: CacheKey, for call: Call, _ place: Workers.Place, madeOf basis: FormBasis,
        _ answer: @escaping @Sendable (StoredData?, ResponseSource) -> Void
    ) -> Workers.Ticket? {
        let lookUp = readers?.add(
            place,
            {
                if let value = self.peek(key, for: call)?.value { return answer(value, .disk) }
                guard let tiers = self.tiers(for: call) else { return answer(nil, .disk) }
                let present = basis.present()
                tiers.run(isUrgent: place.rank == .urgent) { ended in
                    self.take(key, call, from: tiers, madeOf: basis, notBefore: present) { form in
                        ended()
                        answer(form, .shared)
                    }
                }
            })
        if let lookUp { return lookUp }
        answer(inMemory(key, for: call), .disk)
        return nil
    }

    /// When the bytes of a key were stored, in seconds since 1970; minus infinity if there are none. Reads the index.
    func stored(_ key: CacheKey) -> TimeInterval {
        (memory.part(of: key) { $0.info } ?? disk?.info(of: key))?.stored ?? -.infinity
    }

    func hasEntry(
        _ key: CacheKey, _ place: Workers.Place, _ answer: @escaping @Sendable (Bool) -> Void
    ) -> Workers.Ticket? {
        if let lookUp = readers?.add(place, { answer(self.contains(key)) }) { return lookUp }
        answer(memory.contains(key))
        return nil
    }

    func find(
        _ key: CacheKey, _ fields: HTTPHeaders, for call: Call? = nil, in tiers: CacheTiers = .all
    ) -> FoundEntry? {
        guard let found = peek(key, for: call, in: tiers) else { return nil }
        guard let place = found.value.info.place(of: key, chosenBy: fields),
            var chosen = peek(place, for: call, in: tiers)
        else { return found }
        (chosen.place, chosen.mayHaveRemnant) = (place, found.mayHaveRemnant)
        return chosen
    }

    /// Finds the first tier that has a success, or the variant that the fields choose. Reads metadata alone.
    func tier(
        of key: CacheKey, _ fields: HTTPHeaders, in tiers: CacheTiers, if mayUse: (EntryInfo) -> Bool = { _ in true }
    ) -> ResponseSource? {
        let at: (CacheKey) -> (info: EntryInfo, source: ResponseSource)? = { key in
            if tiers.contains(.memory), let info = self.memory.peek(key, { $0.info }) { return (info, .memory) }
            return tiers.contains(.disk) ? self.disk?.info(of: key).map { ($0, .disk) } : nil
        }
        guard var found = at(key) else { return nil }
        if let place = found.info.place(of: key, chosenBy: fields) {
            guard let other = at(place) else { return nil }
            found = other
        }
        return found.info.mayBeShown(to: fields) && mayUse(found.info) ? found.source : nil
    }

    @inline(__always)
    func kept(for call: Call) -> FoundEntry? {
        guard call.cachePolicy != .bypass, let value = inMemory(call.key, for: call) else { return nil }
        if let place = value.info.place(of: call.key, chosenBy: call.request.headers),
            let other = inMemory(place, for: call)
        {
            return FoundEntry(value: other, source: .memory, place: place)
        }
        return FoundEntry(value: value, source: .memory)
    }

    /// A call with options of its own decides how long memory keeps the entry.
    @inline(__always)
    private func inMemory(_ key: CacheKey, for call: Call?) -> StoredData? {
        guard let call, call.request.decidesMemoryLifetime else { return memory.value(for: key) }
        return memory.value(for: key, reading(call.request))
    }

    @inline(__always)
    func object(_ key: CacheKey, in memory: ObjectMemoryTier, for request: DataRequest) -> ObjectMemoryTier.Entry? {
        guard request.decidesMemoryLifetime else { return memory.entry(for: key) }
        return memory.entry(for: key, reading(request))
    }

    private func reading(
        _ request: DataRequest
    ) -> (Lifetime, _ entered: TimeInterval, _ now: TimeInterval) -> Lifetime {
        let reader = Lifetime.Reader(
            expiration: request.memoryExpiration, accessExtension: request.memoryAccessExtension)
        return { present, entered, now in present.read(by: reader, entered: entered, at: now) }
    }

    /// Returns whether an entry, or the variant that a request chooses, is on disk as it is to be. Reads the index. That
    /// an entry is durable is not known without a flush.
    func isWritten(_ key: CacheKey, for request: DataRequest) -> Bool {
        guard request.durability == .relaxed, let disk, let info = disk.info(of: key) else { return false }
        guard let place = info.place(of: key, chosenBy: request.headers) else { return !disk.isStaged(key) }
        return disk.info(of: place) != nil && !disk.isStaged(place)
    }

    func contains(_ key: CacheKey) -> Bool { memory.contains(key) || disk?.info(of: key) != nil }

    private func warm(_ record: EntryRecord, _ call: Call?, unlessChangedSince changes: UInt64) {
        let now = now()
        var lifetime = Lifetime(
            memoryExpiration(call) ?? Expiration(span: record.lifetime.span(since: record.value.info.stored)),
            extendedBy: call?.request.memoryAccessExtension ?? defaults.memoryAccessExtension, now: now)
        // Without a memory expiration, memory does not keep an entry longer than the disk.
        if memoryExpiration(call) == nil {
            lifetime.expires = record.lifetime.expires
        }
        memory.insert(
            record.value, for: record.key, cost: record.value.cost(for: record.key), lifetime: lifetime,
            permit: Permit(record.value.info), unlessChangedSince: changes)
    }

    // MARK: Changing

    func mayKeep(_ info: EntryInfo, _ call: Call) -> Bool {
        !info.isStandIn && info.audience >= .client && !call.directives.noStore
    }

    /// - Parameter known: the entry that the look-up found. If it is another variant, it stays beside the new one.
    func keep(
        _ value: StoredData, for key: CacheKey, _ call: Call, mayKeep: Bool, beside known: FoundEntry?, onDisk: Bool,
        _ durability: Durability, claim: Claim?, by fetch: CacheEvent.ID?,
        _ sharing: Sharing?, whenWritten: @escaping @Sendable (Bool) -> Void
    ) {
        let info = value.info
        var family = info.family
        var place = key
        if let variant = info.variant, let present = known?.value.info ?? memory.part(of: key, { $0.info }),
            let other = present.variant, other.names == variant.names
        {
            family = present.family
            if other != variant {
                place = key.variant(variant.selection, family: family)
            } else if let known {
                place = known.place ?? key
            }
        }
        guard mayKeep else {
            // The earlier answer is out of date, unless this one is only a failure or the request wants nothing kept.
            let isWhole = info.status < 400 && info.status != 206 && info.status != 304
            let isNews = isWhole || info.status == 404 || info.status == 410
            if isNews, !call.directives.noStore, claim?.isRevoked != true { remove(place, byProgram: false) }
            return whenWritten(false)
        }
        if family == 0, info.variant != nil { family = .random(in: 1 ... .max) }
        let kept = StoredData(
            data: value.data,
            info: info.with(
                info.fields(isShared: call.freshness.isShared), family: info.variant == nil ? 0 : family))
        add(
            kept, for: place, call, onDisk: onDisk, durability, claim: claim, by: fetch,
            variantOf: place == key ? nil : key, whenWritten: whenWritten)
        share(kept, for: place, call, stored: now(), claim, sharing)
    }

    /// Gives an entry to the tiers that others read, if they may see it.
    func share(
        _ value: StoredData, for key: CacheKey, _ call: Call, stored: Date, _ claim: Claim?, _ sharing: Sharing?
    ) {
        guard let tiers, call.keepsOnDisk, value.info.audience == .everybody else { return }
        let value = StoredData(data: value.data, info: value.info.shared)
        let record = EntryRecord(key: key, value: value, lifetime: diskLifetime(call, stored: stored))
        // The program's codec may be slow.
        thread.async { tiers.store(record, claim: claim, sharing) }
    }

    func freshness(
        of response: TransferResponse, _ call: Call, requested: TimeInterval, received: TimeInterval,
        after chain: RedirectChain, _ control: CacheControl
    ) -> Freshness {
        guard case .http(let byDefault, let isShared) = call.freshness.rule else { return .always(from: requested) }
        // If the server says nothing, an expiration of the caller's own holds.
        let isLimited = call.request.diskExpiration != nil || defaults.diskExpiration != nil
        let lifetime =
            isLimited ? .infinity : byDefault?.lifetime(from: Date(timeIntervalSince1970: received))
        let own = Freshness(
            status: response.status, headers: response.headers, requested: requested, received: received,
            defaultLifetime: lifetime, isShared: isShared, control)
        return chain.freshness(own, defaultLifetime: lifetime, isShared: isShared)
    }

    /// - Parameters:
    ///   - fetch: the fetch; `nil` if the value comes from the program.
    ///   - isLatest: whether the value must not replace one that was kept after the claim was made.
    ///   - isReplacing: whether work that has begun meanwhile with an earlier value keeps nothing.
    ///   - variantOf: the key that was fetched, if the value is kept under another; `nil` for the same.
    ///   - stored: the time at which the bytes came; `nil` for now.
    ///   - whenWritten: called once, with whether the value, or one in its place, is on disk.
    func add(
        _ value: StoredData, for key: CacheKey, _ call: Call, onDisk: Bool, _ durability: Durability,
        claim: Claim? = nil, isLatest: Bool = false, isReplacing: Bool = false, by fetch: CacheEvent.ID? = nil,
        variantOf fetched: CacheKey? = nil, stored: Date? = nil,
        whenWritten: (@Sendable (Bool) -> Void)? = nil
    ) {
        let now = now()
        history.store(at: now.timeIntervalSince1970)
        let record = onDisk && disk != nil ? diskRecord(value, for: key, call, stored: stored ?? now) : nil
        let takesPlace = { [history] in
            guard history.supersede(key, by: claim, isLatest: isLatest) else { return false }
            if let fetched { history.supersede(fetched, by: claim) }
            return true
        }
        guard claim?.maySupersede(isLatest: isLatest) != false,
            // The disk comes first: entries that are read from it go to memory, and must not be the version before. A
            // call that waits for the entry on disk finds the earlier one with its right, or this one.
            record.flatMap({
                disk?.write(
                    $0, durability, claim: claim, isLatest: isLatest, by: fetch, if: takesPlace, whenDone: whenWritten)
            }) ?? takesPlace()
        else {
            return settle(key, call, durability, whenDone: whenWritten ?? { _ in })
        }
        if record == nil {
            if onDisk { disk?.remove(key) }
            whenWritten?(false)
        }
        dropRemnant(of: key)
        if let fetched { dropPartial(of: fetched) }
        memory.insert(
            value, for: key, cost: value.cost(for: key), lifetime: memoryLifetime(call),
            permit: Permit(value.info, claim, isLatest: isLatest))
        if isReplacing, let claim { history.replace(key, by: claim) }
        onReplaced.load()?.value(key)
    }

    /// Writes an entry as a call wants it; see ``settle(_:_:_:whenDone:)``.
    func settle(_ key: CacheKey, _ call: Call, whenDone: @escaping @Sendable (_ isOnDisk: Bool) -> Void) {
        settle(key, call, call.mustBeDurable ? .durable : .relaxed, whenDone: whenDone)
    }

    func settle(
        _ key: CacheKey, _ call: Call, _ durability: Durability, whenDone: @escaping @Sendable (Bool) -> Void
    ) {
        guard let disk else { return whenDone(durability == .relaxed) }
        // The claim comes first: an entry that is removed or replaced from now on is not brought back.
        let claim = history.claim(key, of: call.plainKey?.value)
        let record = memory.value(for: key).flatMap { diskRecord($0, for: key, call, stored: $0.info.storedDate) }
        disk.settle(key, durability, record, claim: claim, whenDone: whenDone)
    }

    private func diskRecord(_ value: StoredData, for key: CacheKey, _ call: Call, stored: Date) -> EntryRecord? {
        let lifetime = diskLifetime(call, stored: stored)
        if lifetime.isExpired(at: now().timeIntervalSince1970) { return nil }
        return EntryRecord(key: key, value: value, lifetime: lifetime, fileExtension: call.request.fileExtension)
    }

    private func diskLifetime(_ call: Call, stored: Date) -> Lifetime {
        Lifetime(
            diskExpiration(call), extendedBy: call.request.diskAccessExtension ?? defaults.diskAccessExtension,
            now: stored)
    }

    private func diskExpiration(_ call: Call) -> Expiration {
        call.request.diskExpiration ?? defaults.diskExpiration ?? call.freshness.expiration
    }

    /// Returns how long memory keeps the answer to a call: as the request or the cache says, or as long as the disk.
    func memoryLifetime(_ call: Call, stored: Date? = nil) -> Lifetime {
        let given = memoryExpiration(call)
        let now = now()
        var lifetime = Lifetime(
            given ?? diskExpiration(call),
            extendedBy: call.request.memoryAccessExtension ?? defaults.memoryAccessExtension, now: now)
        if given == nil, let stored {
            let own = diskLifetime(call, stored: stored)
            // Hits that extend the life of the bytes also extend that of a picture made from them.
            if own.accessExtension == nil { lifetime.expires = min(lifetime.expires, own.expires) }
        }
        return lifetime
    }

    private func memoryExpiration(_ call: Call?) -> Expiration? {
        call?.cachePolicy == .diskOnly ? .expired : call?.request.memoryExpiration ?? defaults.memoryExpiration
    }

    // MARK: Failures

    /// Returns the time in seconds since 1970 until which a failure is remembered; `nil` if it is not.
    func end(
        ofFailure response: TransferResponse, _ call: Call, sent: HTTPHeaders, requested: TimeInterval,
        received: TimeInterval, after chain: RedirectChain, _ control: CacheControl
    ) -> TimeInterval? {
        let (headers, own) = (response.headers, call.failureLifetime.timeInterval)
        let isShared = call.freshness.isShared
        if call.freshness.ignoresServer {
            let isLasting = Freshness.heuristicStatuses.contains(response.status) && !call.directives.noStore
            return isLasting && own > 0 ? received + own : nil
        }
        guard own > 0,
            Storing.mayRemember(
                status: response.status, request: sent, response: headers, isShared: isShared, control)
        else { return nil }
        // A failure that says nothing is as fresh as a success would be with this default.
        let freshness = Freshness(
            status: 200, headers: headers, requested: requested, received: received, defaultLifetime: own,
            isShared: isShared, control)
        let until = chain.freshness(freshness, defaultLifetime: own, isShared: isShared).until
        return until > received ? min(until, received + max(own, Self.longestFailure)) : nil
    }

    /// In seconds.
    private static let longestFailure: TimeInterval = 3_600

    func keepFailure(
        _ info: EntryInfo, for key: CacheKey, claim: Claim, whenWritten: @escaping @Sendable (Bool) -> Void
    ) {
        let value = StoredData(data: Data(), info: info)
        let lifetime = Lifetime(expires: info.freshness.until, accessExtension: nil)
        let record = EntryRecord(key: key, value: value, lifetime: lifetime)
        if let disk { disk.keepFailure(record, claim: claim, whenDone: whenWritten) } else { whenWritten(false) }
        keepRemnant(record, claim, andIn: disk == nil ? [] : .disk)
    }

    private func keepRemnant(_ record: EntryRecord, _ claim: Claim, andIn others: CacheTiers = []) {
        // First, so that a removal that does not see it has revoked the claim.
        hasRemnants.store(true, ordering: .sequentiallyConsistent)
        let value = record.value
        remnants.insert(
            value, for: record.key, cost: value.cost(for: record.key), lifetime: record.lifetime,
            permit: Permit(value.info, claim, isLatest: true, andIn: others))
    }

    private func dropRemnant(of key: CacheKey) {
        if hasRemnants.load(ordering: .sequentiallyConsistent) { remnants.remove(key) }
    }

    /// Whether what is removed from some tiers is forgotten here as well: beside a disk tier, memory has what the disk has.
    private func haveRemnants(_ tiers: CacheTiers) -> Bool {
        hasRemnants.load(ordering: .sequentiallyConsistent)
            && (tiers.contains(.memory) || disk != nil && tiers.contains(.disk))
    }

    /// The failure that this process has seen, also if it is on disk.
    func failureInMemory(of key: CacheKey) -> EntryInfo? {
        guard hasRemnants.load(ordering: .relaxed) else { return nil }
        return remnants.peek(key) { $0.info }.flatMap { Remnant($0).failure }
    }

    // MARK: Partial bodies

    /// - Parameters:
    ///   - isArriving: whether the rest is on its way.
    ///   - claim: tells whether the entry was removed, or a complete one kept, since the fetch began.
    func keepPartial(
        _ partial: PartialBody, for key: CacheKey, asked: String?, isArriving: Bool, claim: Claim,
        whenDone: @escaping @Sendable () -> Void
    ) {
        disk?.keepPartial(partial, for: key, asked: asked, isArriving: isArriving, claim: claim)
        guard disk == nil, !isArriving else { return whenDone() }
        let keep = { @Sendable [self] in
            keepRemnant(EntryRecord(partial, for: key, asked: asked, now: now(), body: partial.unpooled), claim)
            whenDone()
        }
        // Joining parts takes time by their size.
        if partial.isJoined { keep() } else { thread.async(execute: keep) }
    }

    func partialInMemory(of key: CacheKey) -> PartialBody? {
        // Reading does not count as a use: the oldest partial body leaves first.
        remnants.peek(key) { copy $0 }.flatMap(PartialBody.init)
    }

    func dropPartial(of key: CacheKey) {
        disk?.dropPartial(of: key)
        dropRemnant(of: key)
    }

    // MARK: Removing

    /// Notes that what another process has asked for before is not for the calls of this one.
    private func note(_ key: CacheKey?, _ tiers: CacheTiers) {
        guard !tiers.isDisjoint(with: [.disk, .shared]) else { return }
        let now = now().timeIntervalSince1970
        removals.withLock { $0.add(key, at: now) }
        hasRemovals.store(true, ordering: .releasing)
    }

    /// - Parameter url: the key of the URL alone, for a key that does not begin with the URL.
    func hasRemoved(
        _ key: @autoclosure () -> CacheKey, of url: @autoclosure () -> CacheKey?, within limit: Duration
    ) -> Bool {
        guard hasRemovals.load(ordering: .acquiring) else { return false }
        let (keys, now) = ([key(), url()].compactMap { $0 }, now().timeIntervalSince1970)
        return removals.withLock { removals in
            keys.contains { removals.has($0, within: limit.timeInterval, at: now) }
        }
    }

    func hasRemoved(_ info: EntryInfo, within limit: Duration) -> Bool {
        hasRemoved(CacheKey(verbatim: info.url), of: info.asked.map { CacheKey(verbatim: $0) }, within: limit)
    }

    /// - Parameter byProgram: whether the program removes the entry, and not the cache, which drops it for a newer answer.
    func remove(_ key: CacheKey, from tiers: CacheTiers = .all, byProgram: Bool = true) {
        if byProgram { note(key, tiers) }
        history.remove(key, from: tiers, isDrop: !byProgram)
        clean(key, tiers, hidesForms: byProgram)
        history.remove(key, from: tiers, isDrop: !byProgram)
    }

    /// Removes an entry whose removal is recorded.
    /// - Parameter hidesForms: whether the forms that other caches have made of it until now are not used here.
    func clean(_ key: CacheKey, _ tiers: CacheTiers, hidesForms: Bool = true) {
        if tiers.contains(.disk) {
            disk?.remove(key)
            disk?.dropPartial(of: key)
        }
        if haveRemnants(tiers) { remnants.remove(key) }
        if tiers.contains(.memory) {
            memory.remove(key)
            onReplaced.load()?.value(key)
        }
        if tiers.contains(.shared) { self.tiers?.remove(key, hidesForms: hidesForms) }
    }

    /// Removes an entry that another cache has brought back after its removal. What is being fetched now may be kept.
    func removeAgain(_ key: CacheKey) {
        disk?.remove(key)
        memory.remove(key)
        tiers?.remove(key, hidesForms: true)
    }

    func removeDerived(of key: CacheKey, from tiers: CacheTiers = .all) {
        for form in sharedForms(of: key, tiers) { self.tiers?.remove(form, hidesForms: true) }
        if tiers.contains(.disk) { disk?.removeDerived(of: key) }
        if tiers.contains(.memory) { memory.removeDerived(of: key) }
    }

    /// The keys of the stored forms that this cache has made of an entry, if they are to be removed from the shared tiers.
    private func sharedForms(of key: CacheKey, _ tiers: CacheTiers) -> [CacheKey] {
        guard tiers.contains(.shared), self.tiers != nil, let disk else { return [] }
        // Those to be written first: they may be on disk a moment later.
        return disk.stagedDerivedKeys(of: key) + disk.derivedKeys(of: key, limit: 1_000)
    }

    /// Removes the entries whose URL, as asked for or after redirects, has this text, whatever their keys. The shared
    /// tiers cannot be searched by URL: they lose the entry of the URL alone, and those that memory has.
    func removeAll(of address: String, from tiers: CacheTiers) {
        note(CacheKey(verbatim: address), tiers)
        history.removeAll(of: address, from: tiers)
        var keys = [CacheKey(verbatim: address)]
        let forms = sharedForms(of: keys[0], tiers)
        if tiers.contains(.disk) { disk?.removeAll(of: address) }
        if haveRemnants(tiers) { remnants.removeAll(of: address) }
        if tiers.contains(.memory) {
            keys = memory.removeAll(of: address)
            if let onReplaced = onReplaced.load()?.value { for key in keys { onReplaced(key) } }
        }
        history.removeAll(of: address, from: tiers)
        if tiers.contains(.shared) { for key in keys + forms { self.tiers?.remove(key, hidesForms: true) } }
    }

    func clear() {
        note(nil, .all)
        history.clear()
        disk?.clear()
        clearMemory()
        tiers?.hideAll()
        history.clear()
    }

    func clearMemory() {
        memory.removeAll()
        remnants.removeAll()
    }

    func clearDisk() {
        note(nil, .disk)
        history.revoke(from: .disk)
        disk?.clear()
        if haveRemnants(.disk) { remnants.removeAll() }
    }

    /// Removes expired entries, and entries stored before `limit` (seconds since 1970). Readers no longer see them when
    /// this method returns.
    func flush(storedBefore limit: TimeInterval) {
        history.flush(storedBefore: limit)
        disk?.remove(storedBefore: limit)
        memory.removeExpired(storedBefore: limit)
        remnants.removeExpired(storedBefore: limit)
    }

    func setPressure(_ pressure: MemoryPressure) {
        memory.setPressure(pressure)
        // A partial body only shortens a later transfer, so the entries come first.
        remnants.setPressure(pressure == .normal ? .normal : .severe)
    }

    /// Returns when all changes asked for before have been carried out, except those that wait for a tier that rests.
    func synchronize() async {
        await disk?.synchronize()
        await thread.finish()
        await tiers?.settle()
    }

    func shutdown() async {
        await readers?.shutdown()
        await thread.finish()
        await tiers?.shutdown()
        await disk?.shutdown()
    }
}
