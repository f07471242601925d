import Foundation
import Synchronization

/// The fetch of a key: wanted by several calls, and made once.
final class Fetch: QueueEntry {
    struct Reports: OptionSet {
        let rawValue: UInt8

        static let progress = Reports(rawValue: 1)
        static let bytes = Reports(rawValue: 2)
    }

    let engine: Engine
    let key: CacheKey
    nonisolated let identity = EventIdentity()
    private var line = Waiters()
    private(set) var wants = Urgencies()
    private(set) var demand = FetchDemand()
    private var readers: Int32 = 0
    private var renewals: Int32 = 0
    var sources: FetchSources
    private(set) var knownFindings: Findings?
    private(set) var claim: Claim?
    var run: Run?
    var lease: Lease?
    var lookUp = LookUp()
    var wanted: Reports = [] {
        didSet { run?.reception.setWanted(!wanted.isEmpty) }
    }
    var isOver = false
    /// Whether the fetch is for one call, because the answer to another one for the key was for that alone.
    let isAlone: Bool
    /// Whether an urgent call of another cache waits.
    var isHurried = false

    override var isLocal: Bool { sources.isLocal }
    override var host: String { sources.lead.request.url.map(URLText.host) ?? "" }

    private let knownAlias: Reference<CacheKey>?
    /// The key of the URL alone that the first call asked for, if the fetch has another one.
    var alias: CacheKey? { knownAlias?.value }

    init(_ call: Call, _ want: Urgency, isAlone: Bool, in engine: Engine) {
        (self.engine, self.isAlone) = (engine, isAlone)
        key = call.key
        knownAlias = call.plainKey
        sources = FetchSources(call)
        super.init(want.queue, level: want.level)
    }

    /// Most fetches that wait have none, which keeps them small.
    var findings: Findings {
        if let known = knownFindings { return known }
        let new = Findings()
        knownFindings = new
        return new
    }

    var attempts: Int { knownFindings?.attempts ?? 0 }
    var failure: DipperError? { knownFindings?.failure }

    /// Takes over the attempts and failures of an earlier call, of whose answer nothing could be made.
    func goOn(for waiter: Waiter, after earlier: Waiter) {
        guard let past = waiter.goOn(after: earlier) else { return }
        if past.sources.lead === earlier.call {
            sources = past.sources
            sources.follow(waiter.call)
        }
        guard let known = past.knownFindings else { return }
        (findings.attempts, findings.budget) = (known.attempts, known.budget)
    }

    /// Runs a closure on the loop later, as a message to the engine.
    @discardableResult
    nonisolated func post(_ body: @escaping @Loop () -> Void) -> Bool { engine.post(body) }

    /// Takes the URL of the latest call for the next attempt, if rules for keys have brought calls with several together:
    /// an earlier one's signature may have expired.
    /// - Returns: whether that is another URL than before.
    @discardableResult
    func followLatestURL() -> Bool {
        let lead = sources.lead
        guard lead.request.keyRule != nil, lead.request.key == nil, sources.isFirst, let latest = line.last?.call,
            let url = latest.request.url, url.withoutFragment != lead.request.url?.withoutFragment
        else { return false }
        sources.follow(latest)
        return true
    }

    // MARK: Waiters

    /// The urgency of the most urgent call.
    var urgency: Urgency {
        var want = wants.highest
        if isHurried { want.queue = .fast }
        return want
    }

    func add(_ waiter: Waiter) {
        waiter.fetch = self
        line.append(waiter)
        wants.add(waiter.want)
        if waiter.reads { readers += 1 } else if waiter.isRevalidation { renewals += 1 }
        waiter.wishes = FetchDemand.Wishes(of: waiter.call)
        demand.add(waiter.wishes)
    }

    func remove(_ waiter: Waiter) {
        guard waiter.fetch === self else { return }
        line.remove(waiter)
        waiter.fetch = nil
        wants.remove(waiter.want)
        if waiter.reads { readers -= 1 } else if waiter.isRevalidation { renewals -= 1 }
        // What the last one has asked for holds for an answer that comes too late.
        if !wants.isEmpty { demand.remove(waiter.wishes) }
    }

    func change(_ waiter: Waiter, to want: Urgency) {
        wants.remove(waiter.want)
        waiter.want = want
        wants.add(want)
    }

    /// The waiters of now. One that leaves while they are looked at stays among them.
    var waiters: [Waiter] { line.all }

    // As in `Waiters`.
    var calls: [Call] {
        var calls: [Call] = []
        for waiter in waiters { calls.append(waiter.call) }
        return calls
    }

    /// Whether a call may join: nothing has been removed, or the fetch waits and will look again.
    var isCurrent: Bool {
        if claim?.isOutdated != true { return true }
        // mutant Removal: `isUnderWay { return` => `isUnderWay, isOver { return`
        if lookUp.isUnderWay { return false }
        return place == .parked || place == .queued || !isOnNetwork && claim?.isDropped == true
    }

    var isRead: Bool { readers > 0 }
    var needsNetwork: Bool { readers < wants.count }
    /// Whether each call takes what is on disk, or would take a newer entry.
    var takesStored: Bool { readers + renewals == wants.count }

    // MARK: The right to keep the answer

    func take(_ fresh: Claim) { if claim?.isOutdated != false { claim = fresh } }

    func takeLookedUp(_ fresh: Claim) {
        // An attempt has a claim of its own, which may be later than a removal of the entry.
        if claim == nil || fresh.isRevoked { claim = fresh }
    }

    /// A removed entry answers no later call.
    func forgetOutdated() {
        guard claim?.isOutdated == true else { return }
        claim = nil
        knownFindings?.forget()
    }

    /// Gives an attempt the right to keep its answer. Drops the entry and the partial body if the entry has been
    /// removed since the last attempt. The first attempt has the right of the look-up before it, unless an answer to an
    /// earlier fetch has dropped the entry since: this one asks after it.
    func reclaim() {
        let history = engine.store.history
        // In this order: what is revoked between the two questions counts as revoked, not as merely superseded.
        let isCurrent = claim?.isCurrent == true
        let isRevoked = claim?.isRevoked == true
        if isRevoked { findings.forget() } else { findings.forgetCleared(history) }
        // A whole entry has been kept since, so nothing older will be part of the answer.
        if isRevoked ? attempts > 0 : !isCurrent { claim = history.claim(key, of: alias) }
        guard isRevoked, attempts == 0 else { return }
        // In this order: what the program removes after the question revokes the new right.
        let fresh = history.claim(key, of: alias)
        // mutant Dedup: `claim?.isDropped == true {` => `claim == nil {`
        if claim?.isDropped == true { claim = fresh }
    }

    // MARK: Network

    var transport: any Transport { engine.transport(of: sources.lead) }

    /// The answer of the tiers, if the server may confirm it.
    var confirmable: FoundEntry? {
        guard !demand.insistsOnNetwork, let found = findings.found else { return nil }
        // The validators of an answer for one client say nothing about those for all.
        let lead = sources.lead
        return lead.freshness.isShared && lead.answer(found.value.info).isOfAnother ? nil : found
    }

    /// `nil` for a provider, which needs no network as far as is known.
    var destination: URL? {
        sources.provider == nil ? run?.attempt.sentURL ?? sources.url : nil
    }

    var state: TaskState {
        switch place {
        case .parked: .parked
        case .running where isOnNetwork: isThrottled ? .paused : .transferring
        default: .waiting
        }
    }

    var progress: TaskProgress? {
        guard let reception = run?.reception else { return nil }
        let (received, expected) = (reception.received, reception.expected)
        return received > 0 ? TaskProgress(received: received, expected: expected < 0 ? nil : expected) : nil
    }
}

/// The wishes of a fetch's calls together. Those of a call leave with it.
struct FetchDemand {
    struct Wishes: OptionSet {
        let rawValue: UInt16

        static let network = Wishes(rawValue: 1 << 0)
        static let disk = Wishes(rawValue: 1 << 1)
        static let diskRenewal = Wishes(rawValue: 1 << 2)
        static let memory = Wishes(rawValue: 1 << 3)
        static let memoryUse = Wishes(rawValue: 1 << 4)
        static let durability = Wishes(rawValue: 1 << 5)
        static let timeLimit = Wishes(rawValue: 1 << 6)
        static let ownJudgement = Wishes(rawValue: 1 << 7)
        static let ownPace = Wishes(rawValue: 1 << 8)
        static let constrainedNetwork = Wishes(rawValue: 1 << 9)

        init(rawValue: UInt16) { self.rawValue = rawValue }

        init(of call: Call) {
            self = []
            if call.insistsOnNetwork { insert(.network) }
            if call.renewsOnDisk { formUnion(call.mayKeepOnDisk ? [.disk, .diskRenewal] : .diskRenewal) }
            if call.keepsInMemory { formUnion(call.cachePolicy == .diskOnly ? .memory : [.memory, .memoryUse]) }
            if call.request.durability == .durable { insert(.durability) }
            if call.timeout != nil { insert(.timeLimit) }
            if call.hasOwnValidation { insert(.ownJudgement) }
            if call.request.progressInterval != nil { insert(.ownPace) }
            if call.request.allowsConstrainedNetwork { insert(.constrainedNetwork) }
        }
    }

    private var tally = Tally<Wishes>()

    mutating func add(_ wishes: Wishes) { tally.add(wishes) }
    mutating func remove(_ wishes: Wishes) { tally.remove(wishes) }

    private func has(_ wish: Wishes) -> Bool { tally.reduce(into: false) { $0 = $0 || $1.contains(wish) } }

    var insistsOnNetwork: Bool { has(.network) }
    var keepsOnDisk: Bool { has(.disk) }
    var renewsOnDisk: Bool { has(.diskRenewal) }
    var keepsInMemory: Bool { has(.memory) }
    var usesMemory: Bool { has(.memoryUse) }
    var durability: Durability { has(.durability) ? .durable : .relaxed }
    var hasTimeLimits: Bool { has(.timeLimit) }
    var judgesAnswers: Bool { has(.ownJudgement) }
    var hasOwnPace: Bool { has(.ownPace) }
    var allowsConstrainedNetwork: Bool { has(.constrainedNetwork) }
}

/// The transfers of a fetch that were held back and broken off without counting as failed.
struct GivenWays: Sendable {
    private var count: Int32 = 0
    private var start = 0

    /// - Returns: `false` if the attempt counts as failed, because the server breaks off after a few bytes each time.
    mutating func add(bytes: Int) -> Bool {
        if bytes - start >= Self.wayBytes { (count, start) = (0, bytes) }
        count += 1
        return count <= Self.mostWays
    }

    private static let wayBytes = 64 << 10
    private static let mostWays = 16
}
