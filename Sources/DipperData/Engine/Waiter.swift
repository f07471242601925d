import Foundation

/// A call for bytes that memory could not answer. It waits in the fetch of its key, and tells its caller what becomes of
/// it.
final class Waiter: WaitingCall {
    private(set) var call: Call
    let isRevalidation: Bool
    var reads = false
    private(set) var fetches = false
    private var isGivenUp = false
    var wishes: FetchDemand.Wishes = []
    var fetch: Fetch?
    fileprivate var next: Waiter?
    fileprivate var previous: Waiter?
    private(set) var knownLimits: Limits?
    private(set) var viewer: Viewer?
    /// `nil` after the end.
    private var caller: (any BytesCaller)?
    /// The right to keep the answer that the call has come with.
    private var claim: Claim?

    /// Is shown the bytes received so far.
    final class Viewer: Sendable {
        let view: @Sendable (Data) -> Void
        /// Whether bytes are shown more often than a person would look.
        let isImpatient: Bool

        init(_ view: @escaping @Sendable (Data) -> Void, isImpatient: Bool) {
            (self.view, self.isImpatient) = (view, isImpatient)
        }
    }

    /// The part that only calls with a time limit or with failures have.
    @Loop
    final class Limits {
        var failures = FailureCount()
        /// The time spent on the fetch at which the call ends.
        var limit: Duration?
        var timeout: Engine.TimerID?
        var patience: Engine.TimerID?
        /// The fetch that has answered the call.
        var past: Fetch?
        /// The URL that is asked in place of the key's, and who else wants to know it.
        fileprivate var address: String?
        fileprivate var followers: [any BytesCaller] = []
    }

    nonisolated init(_ caller: some BytesCaller, _ claim: Claim? = nil, isRevalidation: Bool = false, in engine: Engine)
    {
        (call, self.caller, self.claim, self.isRevalidation) = (caller.call, caller, claim, isRevalidation)
        super.init(Urgency(queue: caller.requestedQueue, level: 0), in: engine)
    }

    var limits: Limits {
        if let known = knownLimits { return known }
        let new = Limits()
        knownLimits = new
        return new
    }

    var isOver: Bool { caller == nil }

    // MARK: The begin

    /// - Parameters:
    ///   - reads: whether the disk may answer; `nil` if the call decides.
    ///   - claim: the right to keep the answer, claimed before the tiers were asked, in place of the call's own.
    ///   - found: the entry in the tiers, if they have been asked before.
    ///   - failed: an earlier call, of whose answer the caller could make nothing.
    func join(
        reads: Bool? = nil, _ claim: Claim? = nil, found: FoundEntry? = nil,
        after failed: (waiter: Waiter?, error: DipperError)? = nil
    ) {
        guard let caller else { return }
        if let claim { self.claim = claim }
        let claim = self.claim
        if engine.isClosed { return end(.failure(engine.refusal)) }
        if isGivenUp { return end(.failure(.cancelled)) }
        want = Urgency(want.queue, caller.priority)
        ask(reads: reads ?? call.looksUp(in: engine.store))
        engine.enroll(self, claim?.isOutdated == true ? nil : found, claim, after: failed)
        engine.reconsider()
    }

    private func ask(reads: Bool) { (self.reads, fetches) = (reads, call.mayFetch) }

    /// Takes over the limits of an earlier call, and returns the fetch that has answered it.
    func goOn(after earlier: Waiter) -> Fetch? {
        guard let limits = earlier.knownLimits, let past = exchange(&limits.past, with: nil) else { return nil }
        knownLimits = limits
        return past
    }

    /// Whether it is not known yet which of two sources is asked for.
    var isUndecided: Bool { caller?.isUndecided == true }

    func turnToSubstitute() {
        guard let caller else { return }
        caller.turnToSubstitute()
        call = caller.call
        ask(reads: call.looksUp(in: engine.store))
    }

    // MARK: News

    func hear(_ news: DataTask.Event) { caller?.hear(news) }
    func ask(_ address: String) {
        claim?.ask(address)
        caller?.asks(address)
        limits.address = address
        for follower in limits.followers { follower.asks(address) }
    }

    /// Tells another caller, too, which URL is asked in place of the key's.
    func follow(_ follower: some BytesCaller) {
        if isOver { return }
        limits.followers.append(follower)
        if let address = limits.address { follower.asks(address) }
    }

    var eventID: CacheEvent.ID? { caller?.eventID }
    var wantsProgress: Bool { caller?.wantsProgress == true }

    func bodyArrives() { caller?.bodyArrives() }

    func watchBytes(isImpatient: Bool = false, _ body: @escaping @Sendable (Data) -> Void) {
        if isOver { return }
        viewer = Viewer(body, isImpatient: isImpatient)
        fetch?.want(.bytes, for: self)
    }

    func ignoreBytes() { viewer = nil }

    // MARK: The end

    /// - Parameter place: the key of the entry in the tiers; `nil` for that of the call.
    func end(
        _ result: Result<DataResponse, DipperError>, kept place: CacheKey? = nil, _ write: PendingWrite? = nil,
        attempts: Int = 0
    ) {
        guard let caller = exchange(&caller, with: nil) else { return }
        (viewer, claim) = (nil, nil)
        knownLimits?.followers = []
        caller.detach(in: want.queue, attempts: attempts)
        caller.finish(result, kept: place ?? call.key, write, in: engine)
    }

    /// Keeps the fetch that has answered the call, if the caller may come back because nothing can be made of the answer.
    func remember(_ fetch: Fetch) { if caller?.mayComeBack == true { limits.past = fetch } }

    // MARK: Changes

    override func status() -> CallStatus? {
        fetch.map { CallStatus(queue: want.queue, attempts: $0.attempts, state: $0.state) }
    }

    override func cancel() {
        if let fetch { fetch.end(self, .failure(.cancelled)) } else { isGivenUp = true }
    }

    override func change(to want: Urgency) {
        guard self.want != want, !isOver else { return }
        guard let fetch else { return self.want = want }
        let isPromoted = want.queue == .fast && self.want.queue == .slow
        fetch.change(self, to: want)
        fetch.settle()
        if isPromoted { fetch.endBackOff() }
    }

    override func wantProgress() { fetch?.want(.progress, for: self) }
}

extension Waiter: Hashable {
    nonisolated static func == (a: Waiter, b: Waiter) -> Bool { a === b }
    nonisolated func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

/// The calls that wait for a fetch, the oldest first.
@Loop
struct Waiters {
    private var first: Waiter?
    private(set) var last: Waiter?

    mutating func append(_ waiter: Waiter) {
        (waiter.previous, waiter.next) = (last, nil)
        if let last { last.next = waiter } else { first = waiter }
        last = waiter
    }

    // Each leaves by itself, so that no chain of them is released at once.
    mutating func remove(_ waiter: Waiter) {
        let (previous, next) = (waiter.previous, waiter.next)
        if let previous { previous.next = next } else { first = next }
        if let next { next.previous = previous } else { last = previous }
        (waiter.previous, waiter.next) = (nil, nil)
    }

    // No closure: each call of one would check that it runs on the loop.
    var all: [Waiter] {
        var (all, next) = ([Waiter](), first)
        while let waiter = next {
            all.append(waiter)
            next = waiter.next
        }
        return all
    }
}
