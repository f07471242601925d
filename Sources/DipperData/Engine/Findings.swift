import Foundation

/// The results of the look-ups and attempts of a fetch.
@Loop
final class Findings {
    private(set) var found: FoundEntry?
    var partial: PartialBody?
    /// The events of the look-up and of the attempt under way, if their begin was told.
    var lookUpEvents: CacheEvent.ID?
    var attemptEvents: CacheEvent.ID?
    /// When what the last look-up found was stored: the same once more is no answer that another cache has asked for,
    /// unless it may have confirmed that.
    var foundBefore: TimeInterval?
    /// Whether later fetches can continue the partial body: it is on disk, or among those in memory.
    var isPartialKept = false
    /// Whether the partial body is only among the kept ones: it has not been read yet, or there was no room for it here
    /// while the fetch was parked.
    private(set) var isPartialLeft = false
    /// The bytes of ``partial`` that count towards the budget of parked fetches.
    private(set) var parked = 0
    private(set) var longestDropped = 0

    var attempts = 0
    var failure: DipperError?
    /// Runs from the first attempt on, but while the fetch is held back or has no network.
    var budget = Stopwatch()
    var ways = GivenWays()
    /// How often the fetch has given its slot to others.
    var yields = 0
    /// The bytes that count towards the budget of all transfers.
    var held = 0
    /// The number of the latest hook that may wait; zero for none.
    var hook: UInt64 = 0
    var parking = Parking()

    func find(_ found: FoundEntry) {
        if self.found == nil { self.found = found }
    }

    /// - Parameter isAttempting: whether an attempt is under way, which has a partial body of its own.
    func lookedUp(_ found: FoundEntry?, isPartialLeft: Bool, isAttempting: Bool) {
        self.found = found
        if isPartialLeft, partial == nil, !isAttempting { (self.isPartialLeft, isPartialKept) = (true, true) }
    }

    /// Drops the entry and the partial body.
    func forget() {
        found = nil
        forgetPartial()
    }

    func forgetPartial() { (partial, isPartialLeft) = (nil, false) }

    /// Drops the entry if it has been removed with all others.
    func forgetCleared(_ history: RemovalHistory) {
        if let found, !history.admits(found.value.info) { self.found = nil }
    }

    // MARK: Attempts

    func complete() -> Bool {
        forgetPartial()
        return exchange(&isPartialKept, with: false)
    }

    // MARK: Parking

    /// Without room in memory, the next attempt reads the kept partial body, or starts from the first byte.
    func park(insteadOf held: Int, in bodies: inout BodyBudget) {
        let count = parked > 0 ? 0 : partial?.count ?? 0
        if bodies.park(count, insteadOf: held) { return parked += count }
        isPartialLeft = isPartialKept
        longestDropped = max(longestDropped, count)
        partial = nil
    }

    func unpark() -> Int { exchange(&parked, with: 0) }

    /// - Returns: the number of bytes that the fetch holds from now on; `nil` if it has taken none.
    func readBack(_ partial: PartialBody?) -> Int? {
        isPartialLeft = false
        guard self.partial == nil, let partial else { return nil }
        self.partial = partial
        isPartialKept = true
        return partial.count
    }
}

/// The sources of a fetch: the present one, those that are left, and those that have failed.
@Loop
struct FetchSources {
    /// The call whose URL, header fields and expirations are the fetch's: the first one, until another takes its place.
    private(set) var lead: Call
    private var known: Failed?

    private final class Failed {
        /// The place of the present source: 0 for the request's own, then its alternatives.
        var number = 0
        var earlierFailures: [DipperError] = []
        var exhausted: [Call] = []
    }

    init(_ lead: Call) { self.lead = lead }

    private var failed: Failed {
        mutating get {
            if let known { return known }
            let new = Failed()
            known = new
            return new
        }
    }

    private var number: Int { known?.number ?? 0 }
    var earlierFailures: [DipperError] { known?.earlierFailures ?? [] }

    var asked: DataRequest.Source? {
        guard number > 0 else { return lead.request.source }
        let alternatives = lead.request.alternatives
        return number <= alternatives.count ? alternatives[number - 1] : nil
    }

    var provider: (any DataProvider)? { asked?.provider }

    /// Whether the request's own source is asked, and not one of its alternatives.
    var isFirst: Bool { number == 0 }

    var url: URL? { asked.flatMap { $0.url ?? Self.noURL } }

    private static let noURL = URL(string: EntryInfo.providerAddress)

    var remaining: ArraySlice<DataRequest.Source> {
        lead.request.hasHooks ? lead.request.alternatives.dropFirst(number) : []
    }

    var isLocal: Bool { lead.isLocal(number) }

    /// Whether bytes at hand stand in for those of other sources, which have failed.
    var isStandIn: Bool { number > 0 && isLocal }

    mutating func follow(_ call: Call) { lead = call }

    mutating func begin(anewFor call: Call) {
        lead = call
        known?.number = 0
        known?.earlierFailures = []
    }

    /// - Parameter waiting: the calls of the fetch. Calls that have joined it may have alternatives of their own.
    mutating func goOn(for waiting: [Call], after failure: DipperError) -> Bool {
        let failed = failed
        if remaining.isEmpty {
            failed.exhausted.append(lead)
            let other = waiting.first { call in call.hasStandIns && !failed.exhausted.contains { $0 === call } }
            guard let other else { return false }
            (lead, failed.number) = (other, 0)
        }
        failed.number += 1
        var plain = failure
        plain.earlier = []
        failed.earlierFailures.append(plain)
        return true
    }
}
