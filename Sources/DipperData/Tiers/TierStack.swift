import DequeModule
import Foundation
import Logging
import Synchronization

/// The tiers below the disk, in the order in which they are asked, and the changes that they have yet to carry out.
///
/// Look-ups and changes run in tasks of their own. No tier is called while the lock is held.
final class TierStack: Sendable {
    struct Options: Sendable {
        var timeLimit = Duration.milliseconds(20)
        var changeTimeLimit = Duration.seconds(5)
        /// The size of the largest record that is passed on or taken over, in bytes.
        var recordLimit = 8 << 20
        /// The largest size of the records that wait to be stored in one tier, in bytes.
        var waitingLimit = 16 << 20
        /// The largest number of names that wait to be removed from one tier.
        var removalLimit = 65_536
        var mostLookUps = 32
        var format = RecordFormat()
    }

    private typealias Work = @Sendable () async -> Void

    private struct Member {
        var health = TierHealth()
        var changes: TierChanges
        /// In seconds since 1970: records from before that time count as absent.
        var hiddenBefore: TimeInterval
        var rest: Task<Void, any Error>?

        /// Whether nothing is left to do for now: changes wait while the tier rests.
        var isSettled: Bool { changes.isEmpty || (!changes.isRunning && health.restsUntil != nil) }
    }

    private struct State {
        var members: [Member]
        var lookUps = 0
        var urgent = Deque<Work>()
        var others = Deque<Work>()
        var isClosed = false
        var waiting: [CheckedContinuation<Void, Never>] = []

        mutating func takeSettled() -> [CheckedContinuation<Void, Never>] {
            members.allSatisfy(\.isSettled) ? exchange(&waiting, with: []) : []
        }
    }

    private let tiers: [any Tier]
    private let options: Options
    private let history: StoreHistory
    private let time: TimeSource
    private let now: @Sendable () -> Date
    private let logger: Logger
    private let state: Mutex<State>

    init(
        _ tiers: [any Tier], _ options: Options, history: StoreHistory, time: TimeSource,
        now: @escaping @Sendable () -> Date, logger: Logger
    ) {
        self.tiers = tiers
        self.options = options
        self.history = history
        self.time = time
        self.now = now
        self.logger = logger
        let member = Member(changes: TierChanges(limit: options.waitingLimit), hiddenBefore: -.infinity)
        state = Mutex(State(members: tiers.map { _ in member }))
    }

    // MARK: Looking up

    /// Runs a limited number of look-ups at a time; urgent ones begin first.
    func run(isUrgent: Bool, _ work: @escaping @Sendable () async -> Void) {
        let begins = state.withLock { state in
            if state.lookUps < options.mostLookUps {
                state.lookUps += 1
                return true
            }
            if isUrgent { state.urgent.append(work) } else { state.others.append(work) }
            return false
        }
        if begins { begin(work) }
    }

    private func begin(_ work: @escaping Work) {
        Task {
            var next: Work? = work
            while let work = next {
                await work()
                next = state.withLock { state in
                    let next = state.urgent.popFirst() ?? state.others.popFirst()
                    if next == nil { state.lookUps -= 1 }
                    return next
                }
            }
        }
    }

    func record(of key: CacheKey) async -> EntryRecord? {
        let name = KeyDigest.sha256(key)
        let begun = StoreHistory.now
        for number in tiers.indices {
            guard let data = await data(named: name, from: number), data.count <= options.recordLimit else { continue }
            let record = options.format.decode(data, begun: begun, limit: options.recordLimit).record
            // The tier may have been cleared, or the record removed, meanwhile.
            let hiddenBefore = state.withLock { state -> TimeInterval in
                if case .remove = state.members[number].changes[name] { return .infinity }
                return state.members[number].hiddenBefore
            }
            // mutant Tier: `red >= hiddenB` => `red >= -hiddenB`
            guard let record, record.key == key, record.value.info.stored >= hiddenBefore else { continue }
            return record
        }
        return nil
    }

    private enum Step {
        case ask, skip
        case take(Data)
    }

    private func data(named name: String, from number: Int) async -> Data? {
        let moment = time.now()
        let step = state.withLock { state -> Step in
            switch state.members[number].changes[name] {
            case .store(let record, _): .take(record)
            case .remove: .skip
            case nil: state.members[number].health.admits(at: moment) ? .ask : .skip
            }
        }
        switch step {
        case .skip: return nil
        case .take(let record): return record
        case .ask:
            let tier = tiers[number]
            let result = await TimeLimit(duration: options.timeLimit, time: time).run {
                try await tier.record(named: name)
            }
            ended(number, result)
            return try? result.get()
        }
    }

    // MARK: Changing

    /// In every tier, in the background.
    /// - Parameter claim: the right of work that began earlier to keep its result.
    func store(_ record: EntryRecord, claim: Claim?) {
        guard record.value.data.count <= options.recordLimit else { return }
        // What the codec refuses is not stored.
        guard let (body, trailer) = try? options.format.encode(record) else { return }
        guard body.count + trailer.count <= options.recordLimit else { return }
        let expires = record.lifetime.expires
        let expiration = expires == .infinity ? nil : Date(timeIntervalSince1970: expires)
        change(
            .store(body + trailer, until: expiration), KeyDigest.sha256(record.key),
            permit: Permit(record.value.info, claim))
    }

    /// In every tier, in the background. This process no longer finds the record when this method returns.
    func remove(_ key: CacheKey) { change(.remove, KeyDigest.sha256(key)) }

    /// Makes this process ignore the records that were stored so far. Other processes go on using them.
    func hideAll() {
        let end = now().timeIntervalSince1970.nextUp
        let dropped = state.withLock { state in
            state.members.indices.map { number in
                state.members[number].hiddenBefore = max(state.members[number].hiddenBefore, end)
                return state.members[number].changes.dropRecords()
            }
        }
        withExtendedLifetime(dropped) {}
    }

    private func change(_ change: TierChanges.Change, _ name: String, permit: Permit? = nil) {
        let end = now().timeIntervalSince1970.nextUp
        for number in tiers.indices {
            let dropped = state.withLock { state -> [TierChanges.Change] in
                guard !state.isClosed, permit?.isGranted(in: .shared, by: history) != false else { return [] }
                // A tier that rests takes no records.
                if case .store = change, state.members[number].health.restsUntil != nil { return [] }
                let dropped = state.members[number].changes.add(change, to: name)
                guard state.members[number].changes.count > options.removalLimit else { return dropped }
                // So many removals are not remembered one by one.
                state.members[number].hiddenBefore = end
                return dropped + state.members[number].changes.dropAll()
            }
            withExtendedLifetime(dropped) {}
            carryOut(number)
        }
    }

    private func carryOut(_ number: Int) {
        let moment = time.now()
        while let (name, change) = state.withLock({ state -> (String, TierChanges.Change)? in
            guard state.members[number].changes.mayBegin, state.members[number].health.admits(at: moment) else {
                return nil
            }
            return state.members[number].changes.next()
        }) {
            Task {
                let tier = tiers[number]
                let result = await TimeLimit(duration: options.changeTimeLimit, time: time).run {
                    switch change {
                    case .store(let record, let expiration):
                        try await tier.store(record, named: name, until: expiration)
                    case .remove: try await tier.removeRecord(named: name)
                    }
                }
                let isLost = if case .failure = result { true } else { false }
                let ended = state.withLock { $0.members[number].changes.ended(name, isLost: isLost) }
                withExtendedLifetime(ended) {}
                self.ended(number, result)
            }
        }
    }

    private func ended<Value>(_ number: Int, _ result: Result<Value, any Error>) {
        let moment = time.now()
        var reason: (any Error)?
        if case .failure(let error) = result { reason = error }
        let isFailure = reason != nil
        let (begins, dropped, wakes, settled) = state.withLock { state in
            var begins = false
            var dropped: [TierChanges.Change] = []
            if isFailure {
                begins = state.members[number].health.failed(at: moment)
                if begins { dropped = state.members[number].changes.dropRecords() }
            } else {
                state.members[number].health.succeeded()
            }
            let member = state.members[number]
            return (begins, dropped, member.changes.isEmpty ? nil : member.health.restsUntil, state.takeSettled())
        }
        withExtendedLifetime(dropped) {}
        if begins, let reason {
            // The text of another library's error may contain secrets, such as the password in a server's address.
            let text = (reason as? DipperError).map { "\($0)" } ?? "\(type(of: reason))"
            logger.warning("a tier fails and rests", metadata: ["tier": "\(tiers[number].name)", "error": "\(text)"])
        }
        for continuation in settled { continuation.resume() }
        if let wakes {
            let rest = Task { [weak self, time] in
                try await time.sleep(wakes)
                self?.carryOut(number)
            }
            let (old, isClosed) = state.withLock { state in
                (exchange(&state.members[number].rest, with: rest), state.isClosed)
            }
            old?.cancel()
            if isClosed { rest.cancel() }
        } else {
            carryOut(number)
        }
    }

    // MARK: End

    /// Returns when the changes have been carried out, apart from those that wait for a tier that rests.
    func settle() async {
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            let isSettled = state.withLock { state in
                if state.members.allSatisfy(\.isSettled) { return true }
                state.waiting.append(continuation)
                return false
            }
            if isSettled { continuation.resume() }
        }
    }

    func shutdown() async {
        state.withLock { $0.isClosed = true }
        await settle()
        for rest in state.withLock({ $0.members.compactMap(\.rest) }) { rest.cancel() }
    }
}

/// The rule that lets a failing tier rest. A value; times are those of the cache's clock.
struct TierHealth: Sendable {
    static let tolerance = 3
    static let shortestRest = Duration.seconds(1)
    static let longestRest = Duration.seconds(60)

    private var failures = 0
    private var rest = Duration.zero
    private(set) var restsUntil: Duration?
    private var isTrying = false

    /// After a rest one operation tries the tier, and the others wait for its outcome.
    mutating func admits(at now: Duration) -> Bool {
        guard let restsUntil else { return true }
        guard now >= restsUntil, !isTrying else { return false }
        isTrying = true
        return true
    }

    mutating func succeeded() { self = TierHealth() }

    /// - Returns: whether the tier begins to rest with this failure.
    mutating func failed(at now: Duration) -> Bool {
        if restsUntil != nil {
            // Operations that began before the rest say nothing new.
            guard isTrying else { return false }
            isTrying = false
            rest = min(rest * 2, Self.longestRest)
            restsUntil = now + rest
            return false
        }
        failures += 1
        // mutant Tier: `res >= Self.tolerance else {` => `res >= 1_000 else {`
        guard failures >= Self.tolerance else { return false }
        rest = Self.shortestRest
        restsUntil = now + rest
        return true
    }
}

/// Unlike a task group, does not wait for an operation that ignores its cancellation.
struct TimeLimit: Sendable {
    let duration: Duration
    let time: TimeSource

    /// When the time has passed, cancels the operation's task and returns ``DipperError/timedOut``.
    func run<Value: Sendable>(
        _ operation: @escaping @Sendable () async throws -> Value
    ) async -> Result<Value, any Error> {
        let outcome = Outcome<Value>()
        // Clocks trap if a sum does not fit.
        let due = time.now() + min(duration, .seconds(1_000_000_000))
        let timer = Task {
            try await time.sleep(due)
            outcome.give(.failure(DipperError.timedOut))
        }
        let task = Task<Void, Never> {
            do {
                outcome.give(.success(try await operation()))
            } catch {
                outcome.give(.failure(error))
            }
        }
        let result = await outcome.value
        timer.cancel()
        task.cancel()
        return result
    }

    private final class Outcome<Value: Sendable>: Sendable {
        private enum State {
            case open
            case awaited(CheckedContinuation<Result<Value, any Error>, Never>)
            case given(Result<Value, any Error>)
        }

        private let state = Mutex(State.open)

        func give(_ result: Result<Value, any Error>) {
            let continuation = state.withLock { state -> CheckedContinuation<Result<Value, any Error>, Never>? in
                switch state {
                case .open: state = .given(result)
                case .awaited(let continuation):
                    state = .given(result)
                    return continuation
                case .given: break
                }
                return nil
            }
            continuation?.resume(returning: result)
        }

        var value: Result<Value, any Error> {
            get async {
                await withCheckedContinuation { continuation in
                    let result = state.withLock { state -> Result<Value, any Error>? in
                        if case .given(let result) = state { return result }
                        state = .awaited(continuation)
                        return nil
                    }
                    if let result { continuation.resume(returning: result) }
                }
            }
        }
    }
}
