import Foundation
import Synchronization

/// The work behind one key: what is fetched, its attempts, and what came of them.
final class FetchJob: SchedulableWork {
    let key: CacheKey
    /// Someone wants to hear how far the transfer has come.
    let wantsProgress = Atomic(false)
    /// Someone wants to look at the bytes before all are there.
    let wantsBytes = Atomic(false)
    /// Bytes of the present transfer's body.
    let received = Atomic<Int>(0)
    /// Bytes that count towards what all transfers may hold.
    let held = Atomic<Int>(0)
    /// Bytes that an earlier attempt has left and the present transfer does not continue.
    let besides = Atomic<Int>(0)
    private let bodies: BodyBudget
    /// How many bytes the present transfer's body will have; negative if nobody has said.
    let expected = Atomic<Int>(-1)
    private let state: Mutex<State>

    struct State {
        /// The call whose URL, headers and expirations are the job's: the first that waits for it.
        var lead: Call
        var queue = FetchQueue.fast
        var isThrottled = false
        var transfer: (any Transfer)?
        /// Grows with each transfer that begins or ends: tells late news of one from news of the next.
        var transferNumber = 0
        /// An attempt has begun and not ended.
        var isTransferring = false
        /// The transfer was held back since it began.
        var wasThrottled = false
        /// Nobody waits for the job any more.
        var isAborted = false
        /// Bytes of ``partial`` when the transfer began.
        var inherited = 0
        /// How often a transfer that was held back was broken off without counting as failed, and the bytes of ``partial``
        /// when that count began.
        var waysGiven = (count: 0, from: 0)
        /// Who could not be reached when the last attempt failed.
        var unreachable: URL?
        /// The right to keep what is fetched, since the look at the tiers or the first attempt.
        var claim: Claim?
        /// The transfer was given up because there is no way to its host.
        var isLost = false
        /// The look at the disk that is under way.
        var lookUp: LookUp?
        /// Ends the wait for the next attempt.
        var timer: TimerQueue.ID?
        var attempt: Attempt?
        /// The caller's fields, changed as the hooks have changed what was sent last: what `Vary` is judged by.
        var sent = HTTPHeaders()
        var requested: TimeInterval = 0
        var attempts = 0
        /// What the tiers had.
        var found: Found?
        /// What the network delivered.
        var fetched: DataResponse?
        /// The key of what a tier had, if that came before what the network would have delivered.
        var keptPlace: CacheKey?
        var failure: DipperError?
        /// The source that is asked: 0 for the request's own, then its alternatives.
        var source = 0
        var earlierFailures: [DipperError] = []
        /// Calls none of whose sources had it.
        var exhausted: [Call] = []
        /// The beginning of the body, left by an attempt that was broken off.
        var partial: PartialBody?
        var hasPartialOnDisk = false
        /// Bytes of ``partial`` that count while the job waits.
        var parked = 0
        /// There was no room for the beginning of the body while the job waited: the disk has it.
        var isLeftOnDisk = false
        /// The most bytes for which there was no room.
        var longestDropped = 0
        /// Someone will have nothing but what the network says now.
        var insistsOnNetwork = false
        var keepsOnDisk = false
        /// Someone wants what is fetched to be kept at all.
        var keepsInMemory = false
        /// Someone wants it on the device, not just with the system.
        var durability = Durability.relaxed
        var hasTimeLimits = false
        /// Calls whose end waits for the disk write.
        var isWritten = true
        var isOnDisk = true
        var whenWritten: [@Sendable (Bool) -> Void] = []
        var budget = TimeBudget()
        /// When progress is told next.
        var progress = Pacing()
        /// When the bytes so far are shown next.
        var previews = Pacing()
        /// The earlier and the new bytes of a body that is continued, for those who look on.
        var joined: JoinedBody?
    }

    /// What the tiers had for a key.
    struct Found: Sendable {
        let value: StoredData
        let source: ResponseSource
        /// The key it is kept under: the job's, or that of a variant.
        let place: CacheKey
        /// Fetches newer bytes for those who are answered with these meanwhile.
        var revalidation: DataTask?
    }

    init(_ call: Call, _ bodies: BodyBudget) {
        key = call.key
        self.bodies = bodies
        host = Self.host(call)
        state = Mutex(State(lead: call))
    }

    deinit { bodies.end(held: held.load(ordering: .relaxed), parked: state.withLock { $0.parked }) }

    /// Of the source asked first.
    let host: String

    private static func host(_ call: Call) -> String { call.request.url?.host(percentEncoded: false) ?? "" }

    /// When the work began whose result may be kept: a moment of ``StoreHistory``.
    var begun: UInt64 { withState { $0.claim?.begun } ?? StoreHistory.now }

    /// How far the present transfer has come; `nil` before the first byte.
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
    /// Goes on for those whom the last answer was not for.
    mutating func begin(anewFor call: Call) {
        lead = call
        found = nil
        partial = nil
        source = 0
        earlierFailures = []
        failure = nil
    }

    /// Whether an attempt that was held back and broken off counts for nothing. A server that breaks off after a few bytes
    /// each time has failed in the end.
    mutating func mayGiveWay() -> Bool {
        let count = partial?.bytes.count ?? 0
        if count - waysGiven.from >= Self.wayBytes { waysGiven = (0, count) }
        waysGiven.count += 1
        return waysGiven.count <= Self.mostWays
    }

    private static let wayBytes = 64 << 10
    private static let mostWays = 16

    /// Who is asked now; `nil` if there is none left.
    private var asked: DataRequest.Source? {
        guard source > 0 else { return lead.request.source }
        let alternatives = lead.request.alternatives
        return source <= alternatives.count ? alternatives[source - 1] : nil
    }

    /// Who brings the bytes in place of a URL.
    var provider: (any DataProvider)? { asked?.provider }

    /// The URL that is asked now; `nil` if there is none left.
    var sourceURL: URL? { asked.flatMap { $0.url ?? Self.noURL } }

    /// Stands for a provider.
    static let noURL = URL(string: "provider:")

    /// The sources that are left.
    var alternatives: ArraySlice<DataRequest.Source> {
        lead.request.hasHooks ? lead.request.alternatives.dropFirst(source) : []
    }

    /// What is asked has the bytes at hand anyway, and is asked only because others have failed: what it brings is not
    /// what they would have brought.
    var isStandIn: Bool { source > 0 && provider?.isLocal == true }
}

/// Time spent on a fetch since its first attempt, without the time it was held back or had no network.
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
