import Foundation
import Synchronization

/// The work behind one key: the source that is fetched, its attempts and their results.
final class FetchJob: SchedulableWork {
    let key: CacheKey
    /// Whether a task wants to hear of the progress.
    let wantsProgress = Atomic(false)
    /// Whether a task wants to look at the bytes before all of them have arrived.
    let wantsBytes = Atomic(false)
    /// The bytes received of the present transfer's body.
    let received = Atomic<Int>(0)
    /// The bytes of this job that count towards the budget of all transfers.
    let held = Atomic<Int>(0)
    /// The bytes that an earlier attempt has left and that the present transfer does not continue.
    let besides = Atomic<Int>(0)
    private let bodies: BodyBudget
    /// The length of the present transfer's body, in bytes; negative if it is not known.
    let expected = Atomic<Int>(-1)
    private let state: Mutex<State>

    struct State {
        /// The call whose URL, header fields and expirations are the job's: the call that made the job, until another
        /// one takes its place.
        var lead: Call
        var queue = FetchQueue.fast
        var isThrottled = false
        var transfer: (any Transfer)?
        /// A number that grows with each transfer that begins or ends, and with each attempt. It tells late events of one transfer from events
        /// of the next.
        var transferNumber = 0
        /// Whether the attempt was held back since it began.
        var wasThrottled = false
        /// Whether no task waits for the job any more.
        var isAborted = false
        /// The bytes of ``partial`` when the attempt began.
        var inherited = 0
        /// The number of times that a transfer which was held back was broken off without counting as failed, and the
        /// bytes of ``partial`` when that count began.
        var waysGiven = (count: 0, from: 0)
        /// The URL whose host could not be reached when the last attempt failed.
        var unreachable: URL?
        /// The right to keep what is fetched, claimed at the first look-up or attempt.
        var claim: Claim?
        /// The right to use what the look-up under way finds.
        var lookUpClaim: Claim?
        /// Whether the transfer was given up because there is no way to its host.
        var isLost = false
        /// The look-up on disk that is under way.
        var lookUp: LookUp?
        /// The timer that ends the wait for the next attempt.
        var timer: TimerQueue.ID?
        var attempt: Attempt?
        /// The caller's header fields, changed as the hooks have changed what was sent last. `Vary` is judged by them.
        var sent = HTTPHeaders()
        var requested: TimeInterval = 0
        var attempts = 0
        /// The answer that the tiers had.
        var found: Found?
        /// The answer that the network delivered.
        var fetched: DataResponse?
        /// The key of a tier's entry that answered before the network could deliver.
        var keptPlace: CacheKey?
        var failure: DipperError?
        /// The number of the source that is asked: 0 for the request's own, then its alternatives.
        var source = 0
        var earlierFailures: [DipperError] = []
        /// The calls none of whose sources had the bytes.
        var exhausted: [Call] = []
        /// The beginning of the body, which an attempt that was broken off has left.
        var partial: PartialBody?
        var hasPartialOnDisk = false
        /// The bytes of ``partial`` that count towards the budget of parked jobs.
        var parked = 0
        /// Whether the partial body is on disk only, because there was no room for it in memory while the job was
        /// parked.
        var isLeftOnDisk = false
        /// The length in bytes of the longest partial body for which there was no room.
        var longestDropped = 0
        /// Whether a task accepts only what the network says now.
        var insistsOnNetwork = false
        var keepsOnDisk = false
        /// Whether a task wants the result to be kept at all.
        var keepsInMemory = false
        /// The strongest durability that a task wants.
        var durability = Durability.relaxed
        var hasTimeLimits = false
        /// The write of ``fetched``.
        var write: PendingWrite?
        var budget = TimeBudget()
        /// The pacing of progress reports.
        var progress = Pacing()
        /// The pacing of the bytes that are shown.
        var previews = Pacing()
        /// The earlier and the new bytes of a body that is continued, for tasks that look at them.
        var joined: JoinedBody?
    }

    /// The answer of the tiers to a key.
    struct Found: Sendable {
        let value: StoredData
        let source: ResponseSource
        /// The key that it is kept under: the job's, or that of a variant.
        let place: CacheKey
        /// The task that fetches newer bytes for calls that are answered with these meanwhile.
        var revalidation: DataTask?
    }

    init(_ call: Call, _ bodies: BodyBudget) {
        key = call.key
        self.bodies = bodies
        host = Self.host(call)
        state = Mutex(State(lead: call))
    }

    deinit { bodies.end(held: held.load(ordering: .relaxed), parked: state.withLock { $0.parked }) }

    /// The host of the URL that the job's first call asks for; empty if a provider brings the bytes.
    let host: String

    private static func host(_ call: Call) -> String { call.request.url?.host(percentEncoded: false) ?? "" }

    /// The moment, in the count of ``StoreHistory``, at which the work began whose result may be kept.
    var begun: UInt64 { withState { $0.claim?.begun } ?? StoreHistory.now }

    /// The progress of the present transfer; `nil` before the first byte.
    var progress: TaskProgress? {
        let received = received.load(ordering: .relaxed)
        let expected = expected.load(ordering: .relaxed)
        return received > 0 ? TaskProgress(received: received, expected: expected < 0 ? nil : expected) : nil
    }

    func withState<Result>(_ body: (inout sending State) throws -> sending Result) rethrows -> Result {
        try state.withLock(body)
    }
}

extension FetchJob.State {
    /// Begins again for a call that the last answer was not for.
    /// - Returns: what is dropped, to be released without a lock.
    mutating func begin(anewFor call: Call) -> (FetchJob.Found?, PartialBody?) {
        lead = call
        let dropped = (exchange(&found, with: nil), exchange(&partial, with: nil))
        source = 0
        earlierFailures = []
        failure = nil
        return dropped
    }

    /// Counts an attempt that was held back and broken off.
    /// - Returns: whether the attempt does not count as failed. A server that breaks off after a few bytes each time
    ///   has failed in the end.
    mutating func mayGiveWay() -> Bool {
        let count = partial?.bytes.count ?? 0
        if count - waysGiven.from >= Self.wayBytes { waysGiven = (0, count) }
        waysGiven.count += 1
        return waysGiven.count <= Self.mostWays
    }

    private static let wayBytes = 64 << 10
    private static let mostWays = 16

    /// The source that is asked now; `nil` if there is none left.
    private var asked: DataRequest.Source? {
        guard source > 0 else { return lead.request.source }
        let alternatives = lead.request.alternatives
        return source <= alternatives.count ? alternatives[source - 1] : nil
    }

    /// The provider that is asked now; `nil` if the source is a URL.
    var provider: (any DataProvider)? { asked?.provider }

    /// The URL that is asked now; `nil` if there is no source left.
    var sourceURL: URL? { asked.flatMap { $0.url ?? Self.noURL } }

    /// The URL that stands for a provider.
    static let noURL = URL(string: "provider:")

    /// The sources that have not been asked yet.
    var alternatives: ArraySlice<DataRequest.Source> {
        lead.request.hasHooks ? lead.request.alternatives.dropFirst(source) : []
    }

    /// Whether the source stands in for others that have failed. Such a source has its bytes at hand anyway, and they
    /// are not the bytes that the others would have brought.
    var isStandIn: Bool { source > 0 && lead.isLocal(source) }
}

/// The time spent on a fetch since its first attempt, without the time in which it was held back or had no network.
struct TimeBudget: Sendable {
    private var counted = Duration.zero
    private var runningSince: Duration?

    private(set) var hasStarted = false

    mutating func run(at now: Duration) {
        hasStarted = true
        if runningSince == nil { runningSince = now }
    }

    mutating func hold(at now: Duration) {
        if let runningSince { counted += now - runningSince }
        runningSince = nil
    }

    func spent(at now: Duration) -> Duration {
        counted + (runningSince.map { now - $0 } ?? .zero)
    }
}
