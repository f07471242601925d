import Foundation
import Logging
import Synchronization

/// The program's own tiers. A look-up asks one after the other; each change goes to all, in the background. No tier is
/// called under the lock.
final class SharedTiers: Sendable {
    private typealias LookUp = @Sendable () async -> Void

    private struct State {
        var queues: [SharedTierQueue]
        /// When entries were removed, in seconds since 1970, by their names: others may have stored forms of them.
        var removals: [String: TimeInterval] = [:]
        /// Forms of earlier bytes count as absent, because some of those removals are forgotten.
        var formsHiddenBefore = -TimeInterval.infinity
        var isClosed = false
        var runningLookUps = 0
        var urgentLookUps = Deque<LookUp>()
        var otherLookUps = Deque<LookUp>()
    }

    /// The size of the largest record to store or use, in bytes.
    private static let recordLimit = 8 << 20
    private static let mostLookUps = 32
    private static let mostRemovals = 16_384
    /// The time for which a tier keeps an entry that is stale, in seconds.
    private static let staleLife: TimeInterval = 7 * 86_400
    private static let changeTimeLimit = Duration.seconds(5)

    private let tiers: [any Tier]
    private let timeLimit: Duration
    private let format: RecordFormat
    private let history: RemovalHistory
    private let time: TimeSource
    private let now: @Sendable () -> Date
    private let logger: Logger
    private let state: Mutex<State>
    /// Swift's own threads must not be held up by a large record.
    private let decoder = DispatchQueue(label: "dipper.tiers")

    init(
        _ tiers: [any Tier], timeLimit: Duration, format: RecordFormat, history: RemovalHistory, time: TimeSource,
        now: @escaping @Sendable () -> Date, logger: Logger
    ) {
        self.tiers = tiers
        self.timeLimit = timeLimit
        self.format = format
        self.history = history
        self.time = time
        self.now = now
        self.logger = logger
        state = Mutex(State(queues: Array(repeating: SharedTierQueue(), count: tiers.count)))
    }

    // MARK: Looking up

    func run(isUrgent: Bool, _ lookUp: @escaping @Sendable () async -> Void) {
        let begins = state.withLock { state in
            if state.runningLookUps < Self.mostLookUps {
                state.runningLookUps += 1
                return true
            }
            if isUrgent { state.urgentLookUps.append(lookUp) } else { state.otherLookUps.append(lookUp) }
            return false
        }
        guard begins else { return }
        Task {
            var next: LookUp? = lookUp
            while let lookUp = next {
                await lookUp()
                next = state.withLock { state in
                    let next = state.urgentLookUps.popFirst() ?? state.otherLookUps.popFirst()
                    if next == nil { state.runningLookUps -= 1 }
                    return next
                }
            }
        }
    }

    /// - Parameter original: the key of the bytes that a stored form is made of; `nil` for another entry.
    func record(of key: CacheKey, madeOf original: CacheKey? = nil) async -> EntryRecord? {
        let name = key.digest
        let begun = RemovalHistory.now
        for index in tiers.indices {
            guard let data = await data(named: name, in: index), data.count <= Self.recordLimit else { continue }
            let record: EntryRecord? = await fromThread { answer in
                decoder.async { answer(self.format.decode(data, begun: begun, limit: Self.recordLimit).record) }
            }
            // The tier may have been cleared, or the record removed.
            let hiddenBefore = state.withLock { state in
                max(
                    state.queues[index].hiddenBefore(name),
                    original.map { max(state.removals[$0.digest] ?? -.infinity, state.formsHiddenBefore) } ?? -.infinity
                )
            }
            // mutant Tier: `red >= hiddenB` => `red >= -hiddenB`
            guard let record, record.key == key, record.value.info.stored >= hiddenBefore else { continue }
            return record
        }
        return nil
    }

    /// Finds also a record that waits to be stored, and none that waits to be removed.
    private func data(named name: String, in index: Int) async -> Data? {
        let (tier, moment) = (tiers[index], time.now())
        let (change, isAsked) = state.withLock { state -> (TierChanges.Change?, Bool) in
            if let change = state.queues[index].changes[name] { return (change, false) }
            return (nil, state.queues[index].health.admits(at: moment))
        }
        if case .store(let record, _, _) = change { return record }
        guard isAsked else { return nil }
        let result = await time.limit(timeLimit) { try await tier.record(named: name) }
        ended(result, in: index)
        return try? result.get()
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
            state.withLock { state in
                state.removals[name] = end
                guard state.removals.count > Self.mostRemovals else { return }
                // The older half is forgotten, and with it the older forms. The entries themselves are gone.
                let middle = state.removals.values.sorted()[Self.mostRemovals / 2]
                state.removals = state.removals.filter { $0.value > middle }
                state.formsHiddenBefore = max(state.formsHiddenBefore, middle)
            }
        }
        change(.remove, of: key)
    }

    private func change(_ change: TierChanges.Change, of key: CacheKey, permit: Permit? = nil) {
        let name = key.digest
        let end = afterNow
        state.withLock { state in
            guard !state.isClosed, permit?.isGranted(in: .shared, by: history) != false else { return }
            for index in tiers.indices { state.queues[index].add(change, to: name, before: end) }
        }
        for index in tiers.indices { carryOut(in: index) }
    }

    /// Makes this process ignore the records stored so far; others use them.
    func hideAll() {
        let end = afterNow
        state.withLock { state in
            for index in tiers.indices { state.queues[index].hideAll(before: end) }
        }
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

    /// - Parameter name: of a record that was changed; `nil` after a look-up.
    private func ended<Value>(_ result: Result<Value, any Error>, of name: String? = nil, in index: Int) {
        let moment = time.now()
        var failure: (any Error)? = if case .failure(let error) = result { error } else { nil }
        // A tier without room works.
        if failure as? DipperError == .notWritten { failure = nil }
        let isFailure = failure != nil
        let (begins, wakes, settled) = state.withLock { state in
            let begins = state.queues[index].ended(name, isFailure: isFailure, at: moment)
            return (begins, state.queues[index].wakes, state.queues[index].takeSettled())
        }
        if begins, let failure {
            // Another library's error may contain secrets, such as the password in a server's address.
            let text = (failure as? DipperError).map { "\($0)" } ?? "\(type(of: failure))"
            logger.warning("a tier fails and rests", metadata: ["tier": "\(tiers[index].name)", "error": "\(text)"])
        }
        for continuation in settled { continuation.resume() }
        guard let wakes else { return carryOut(in: index) }
        let rest = Task { [weak self, time] in
            try await time.sleep(wakes)
            self?.carryOut(in: index)
        }
        let (old, isClosed) = state.withLock { (exchange(&$0.queues[index].rest, with: rest), $0.isClosed) }
        old?.cancel()
        if isClosed { rest.cancel() }
    }

    /// Returns when the changes have been carried out, or wait while a tier rests.
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
    }

    func shutdown() async {
        state.withLock { $0.isClosed = true }
        await settle()
        for rest in state.withLock({ $0.queues.compactMap(\.rest) }) { rest.cancel() }
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
