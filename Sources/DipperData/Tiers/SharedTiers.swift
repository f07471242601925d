import Foundation
import Logging
import Synchronization

/// The program's own tiers. A look-up asks one after the other, on the loop; each change goes to all, in the background. No
/// tier is called under the lock.
final class SharedTiers: Sendable {
    private struct State {
        var queues: [SharedTierQueue]
        var removals = RemovedBytes()
        var isClosed = false
    }

    /// A record that is looked up.
    private struct Wanted: Sendable {
        let key: CacheKey
        let name: String
        /// The key of the bytes that a stored form is made of; `nil` for another entry.
        let original: CacheKey?
        let begun = RemovalHistory.now
    }

    /// The size of the largest record to store or use, in bytes.
    private static let recordLimit = 8 << 20
    /// The time for which a tier keeps an entry that is stale, in seconds.
    private static let staleLife: TimeInterval = 7 * 86_400
    private static let changeTimeLimit = Duration.seconds(5)

    private let tiers: [any Tier]
    /// The tiers that live on the loop, each in its place among all.
    private let loopTiers: [(any LoopTier)?]
    private let lookUps: TierLookUps
    private let format: RecordFormat
    private let history: RemovalHistory
    private let time: TimeSource
    private let now: @Sendable () -> Date
    private let logger: Logger
    private let state: Mutex<State>
    /// For code of the program and large records, which would hold up the loop and Swift's own threads.
    private let thread = DispatchQueue(label: "dipper.tiers")

    init(
        _ tiers: [any Tier], timeLimit: Duration, format: RecordFormat, history: RemovalHistory, time: TimeSource,
        now: @escaping @Sendable () -> Date, logger: Logger
    ) {
        self.tiers = tiers
        loopTiers = tiers.map { $0 as? any LoopTier }
        lookUps = TierLookUps(timeLimit: timeLimit, time)
        self.format = format
        self.history = history
        self.time = time
        self.now = now
        self.logger = logger
        state = Mutex(State(queues: Array(repeating: SharedTierQueue(), count: tiers.count)))
    }

    // MARK: Looking up

    func run(isUrgent: Bool, _ lookUp: @escaping TierLookUps.LookUp) {
        let begin: @Loop () -> Void = { self.lookUps.begin(isUrgent: isUrgent, lookUp) }
        if Loop.isCurrent { Loop.run(begin) } else { Loop.post(handsOver: true, begin) }
    }

    /// - Parameter original: the key of the bytes that a stored form is made of; `nil` for another entry.
    @Loop func find(
        _ key: CacheKey, madeOf original: CacheKey? = nil, _ answer: @escaping @Loop (EntryRecord?) -> Void
    ) {
        find(Wanted(key: key, name: key.digest, original: original), from: 0, answer)
    }

    @Loop private func find(_ wanted: Wanted, from index: Int, _ answer: @escaping @Loop (EntryRecord?) -> Void) {
        guard index < tiers.count else { return answer(nil) }
        let take: @Loop (EntryRecord?) -> Void = { record in
            if let record, self.mayUse(record, for: wanted, from: index) { return answer(record) }
            self.find(wanted, from: index + 1, answer)
        }
        ask(for: wanted.name, in: index) { data in
            guard let data, data.count <= Self.recordLimit else { return take(nil) }
            self.decode(data, isOwn: self.loopTiers[index] != nil, begun: wanted.begun, take)
        }
    }

    /// Finds also a record that waits to be stored, and none that waits to be removed.
    @Loop private func ask(for name: String, in index: Int, _ answer: @escaping @Loop (Data?) -> Void) {
        let moment = time.now()
        let (change, isAsked) = state.withLock { state -> (TierChanges.Change?, Bool) in
            if let change = state.queues[index].changes[name] { return (change, false) }
            return (nil, state.queues[index].health.admits(at: moment))
        }
        if case .store(let record, _, _) = change { return answer(record) }
        guard isAsked else { return answer(nil) }
        let take: TierLookUps.Answer = { result in
            if let result { self.ended(result, in: index) }
            answer((try? result?.get()) ?? nil)
        }
        if let tier = loopTiers[index] {
            lookUps.ask(tier, for: name, take)
        } else {
            lookUps.ask(tiers[index], for: name, take)
        }
    }

    @Loop private func decode(
        _ data: Data, isOwn: Bool, begun: UInt64, _ answer: @escaping @Loop (EntryRecord?) -> Void
    ) {
        let decode = { @Sendable [format] in
            format.decode(data, isOwn: isOwn, begun: begun, limit: Self.recordLimit).record
        }
        if RecordFormat.isQuick(data) { return answer(decode()) }
        thread.async {
            let record = decode()
            Loop.post(handsOver: true) { answer(record) }
        }
    }

    /// The tier may have been cleared, or the record removed.
    private func mayUse(_ record: EntryRecord, for wanted: Wanted, from index: Int) -> Bool {
        guard record.key == wanted.key else { return false }
        let hiddenBefore = state.withLock { state in
            max(
                state.queues[index].hiddenBefore(wanted.name),
                wanted.original.map { state.removals.hideForms(of: $0.digest) } ?? -.infinity)
        }
        // mutant Tier: `red >= hiddenB` => `red >= -hiddenB`
        return record.value.info.stored >= hiddenBefore
    }

    // MARK: Changing

    /// - Parameter sharing: is told, and let go of by then, when a tier has the record.
    func store(_ record: EntryRecord, claim: Claim?, _ sharing: Sharing?) {
        guard record.value.data.count <= Self.recordLimit, let (body, trailer) = try? format.encode(record),
            body.count + trailer.count <= Self.recordLimit
        else { return }
        // A stale entry can be confirmed, but not for ever.
        let info = record.value.info
        let expires = min(record.lifetime.expires, max(info.stored, info.freshness.until) + Self.staleLife)
        let expiration = expires == .infinity ? nil : Date(timeIntervalSince1970: expires)
        change(
            .store(body + trailer, until: expiration, sharing), of: record.key, permit: Permit(info, claim))
    }

    /// This process finds the record no longer.
    /// - Parameter hidesForms: whether it also ignores the forms that others have made of the bytes until now.
    func remove(_ key: CacheKey, hidesForms: Bool) {
        if hidesForms, !key.isDerived {
            let (name, end) = (key.digest, afterNow)
            let forgotten = state.withLock { $0.removals.add(name, at: end) }
            withExtendedLifetime(forgotten) {}
        }
        change(.remove, of: key)
    }

    private func change(_ change: TierChanges.Change, of key: CacheKey, permit: Permit? = nil) {
        let name = key.digest
        let end = afterNow
        let dropped = state.withLock { state -> [TierChanges] in
            guard !state.isClosed, permit?.isGranted(in: .shared, by: history) != false else { return [] }
            return tiers.indices.compactMap { state.queues[$0].add(change, to: name, before: end) }
        }
        withExtendedLifetime(dropped) {}
        for index in tiers.indices { carryOut(in: index) }
    }

    /// Makes this process ignore the records stored so far; others use them.
    func hideAll() {
        let end = afterNow
        let dropped = state.withLock { state in tiers.indices.map { state.queues[$0].hideAll(before: end) } }
        withExtendedLifetime(dropped) {}
    }

    /// In seconds since 1970: later records are not before that time.
    private var afterNow: TimeInterval { now().timeIntervalSince1970.nextUp }

    private func carryOut(in index: Int) {
        let (tier, moment) = (tiers[index], time.now())
        while let (name, change) = state.withLock({ $0.queues[index].next(at: moment) }) {
            var sharing: Sharing?
            let work: @Sendable () async throws -> Void
            switch change {
            case .store(let record, let expiration, let present):
                sharing = present
                work = { try await tier.store(record, named: name, until: expiration) }
            case .remove: work = { try await tier.removeRecord(named: name) }
            }
            // Not kept by work that never ends.
            Task { [sharing] in
                let result = await time.limit(Self.changeTimeLimit, work)
                if case .success = result { sharing?.isDone.store(true, ordering: .relaxed) }
                ended(result, of: name, in: index)
            }
        }
    }

    /// Notes at once whether the tier works, so that the next question knows. What follows runs code of the program.
    /// - Parameter name: of a record that was changed; `nil` after a look-up.
    private func ended<Value>(_ result: Result<Value, any Error>, of name: String? = nil, in index: Int) {
        let moment = time.now()
        var failure: (any Error)? = if case .failure(let error) = result { error } else { nil }
        // A tier without room works.
        if failure as? DipperError == .notWritten { failure = nil }
        let isFailure = failure != nil
        let (dropped, hasWaiting) = state.withLock { state in
            (state.queues[index].ended(name, isFailure: isFailure, at: moment), state.queues[index].hasWaiting)
        }
        guard dropped != nil || hasWaiting else { return }
        thread.async { [self, failure] in
            if let failure, dropped != nil {
                // Another library's error may contain secrets, such as the password in a server's address.
                let text = (failure as? DipperError).map { "\($0)" } ?? "\(type(of: failure))"
                logger.warning(
                    "a tier fails and rests", metadata: ["tier": "\(tiers[index].name)", "error": "\(text)"])
            }
            goOn(in: index)
        }
    }

    private func goOn(in index: Int) {
        let (wakes, settled) = state.withLock { ($0.queues[index].wakes, $0.queues[index].takeSettled()) }
        for continuation in settled { continuation.resume() }
        guard let wakes else { return carryOut(in: index) }
        let rest = Task { [weak self, time] in
            try await time.sleep(wakes)
            self?.carryOut(in: index)
        }
        let (old, isStopped) = state.withLock { state in
            (exchange(&state.queues[index].rest, with: rest), state.queues[index].isStopped)
        }
        old?.cancel()
        if isStopped { rest.cancel() }
    }

    /// Returns when the changes have been carried out, or wait while a tier rests, and the program has heard of the rest.
    func settle() async {
        for index in tiers.indices {
            await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
                let settled = state.withLock { state in
                    state.queues[index].settling.append(continuation)
                    return state.queues[index].takeSettled()
                }
                for continuation in settled { continuation.resume() }
            }
        }
        await thread.finish()
    }

    func shutdown() async {
        state.withLock { $0.isClosed = true }
        await settle()
        let rests = state.withLock { state in
            for index in tiers.indices { state.queues[index].isStopped = true }
            return state.queues.compactMap(\.rest)
        }
        for rest in rests { rest.cancel() }
        // A rest may have ended since, and a change begun.
        await settle()
        // What the tiers answer from now on counts for nothing.
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            let close: @Loop () -> Void = { [lookUps] in
                lookUps.close()
                continuation.resume()
            }
            if !Loop.post(waits: false, close) { continuation.resume() }
        }
    }
}

/// When bytes were removed, in seconds since 1970, by their names: others may have stored forms of them.
private struct RemovedBytes: Sendable {
    private static let most = 8_192

    private var latest: [String: TimeInterval] = [:]
    private var earlier: [String: TimeInterval] = [:]
    /// The ends of the latest removals, of the earlier ones, and of those that are forgotten.
    private var ends = (latest: -Double.infinity, earlier: -Double.infinity, forgotten: -Double.infinity)

    /// - Returns: removals that are forgotten, to be freed outside of locks.
    mutating func add(_ name: String, at end: TimeInterval) -> [String: TimeInterval] {
        latest[name] = end
        ends.latest = max(ends.latest, end)
        guard latest.count >= Self.most else { return [:] }
        ends = (-.infinity, ends.latest, max(ends.forgotten, ends.earlier))
        return exchange(&earlier, with: exchange(&latest, with: [:]))
    }

    /// Returns the time before which forms of some bytes count as absent. Those of forgotten removals are hidden with all
    /// older forms.
    func hideForms(of name: String) -> TimeInterval {
        max(latest[name] ?? earlier[name] ?? -.infinity, ends.forgotten)
    }
}

/// Tells whether a tier has a record, once no tier is about to store it any more: however it is dropped, it ends here.
final class Sharing: Sendable {
    fileprivate let isDone = Atomic(false)
    private let tell: @Sendable (_ isDone: Bool) -> Void

    init(_ tell: @escaping @Sendable (_ isDone: Bool) -> Void) { self.tell = tell }

    // Perhaps under a lock.
    deinit { Loop.post { [tell, isDone = isDone.load(ordering: .relaxed)] in tell(isDone) } }
}

extension TimeSource {
    /// Runs an operation; after `duration` cancels it and returns ``DipperError/timedOut``. Unlike a task group, does
    /// not wait for an operation that ignores its cancellation.
    fileprivate func limit<Value: Sendable>(
        _ duration: Duration, _ operation: @escaping @Sendable () async throws -> Value
    ) async -> Result<Value, any Error> {
        // Clocks trap if a sum does not fit.
        let due = now() + min(duration, .seconds(1_000_000_000))
        let (results, continuation) = AsyncStream.makeStream(of: Result<Value, any Error>.self)
        let task = Task<Void, Never> {
            do {
                continuation.yield(.success(try await operation()))
            } catch {
                continuation.yield(.failure(error))
            }
        }
        let timer = Task {
            try await sleep(due)
            continuation.yield(.failure(DipperError.timedOut))
        }
        defer {
            timer.cancel()
            task.cancel()
        }
        var iterator = results.makeAsyncIterator()
        return await iterator.next() ?? .failure(CancellationError())
    }
}
