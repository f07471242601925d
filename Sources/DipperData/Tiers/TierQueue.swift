import DequeModule
import Foundation
import Logging
import Synchronization

/// One of the program's tiers, and the changes that it has yet to carry out, each in a task. The tier is not
/// called under the lock.
final class TierQueue: Sendable {
    private struct State {
        var health = TierHealth()
        var changes = TierChanges()
        /// In seconds since 1970: earlier records count as absent.
        var hiddenBefore = -TimeInterval.infinity
        var rest: Task<Void, any Error>?
        var isClosed = false
        var waiting: [CheckedContinuation<Void, Never>] = []

        var isSettled: Bool { changes.isEmpty || (!changes.isRunning && health.restsUntil != nil) }
    }

    private static let changeTimeLimit = Duration.seconds(5)
    private static let removalLimit = 65_536

    private let tier: any Tier
    private let timeLimit: Duration
    private let history: RemovalHistory
    private let time: TimeSource
    private let logger: Logger
    private let state = Mutex(State())

    init(_ tier: any Tier, timeLimit: Duration, history: RemovalHistory, time: TimeSource, logger: Logger) {
        self.tier = tier
        self.timeLimit = timeLimit
        self.history = history
        self.time = time
        self.logger = logger
    }

    // MARK: Looking up

    /// Finds a record that waits to be stored, and none that waits to be removed.
    func data(named name: String) async -> Data? {
        let moment = time.now()
        let (change, isAsked) = state.withLock { state -> (TierChanges.Change?, Bool) in
            if let change = state.changes[name] { return (change, false) }
            return (nil, state.health.admits(at: moment))
        }
        if case .store(let record, _) = change { return record }
        guard isAsked else { return nil }
        let result = await time.limit(timeLimit) { [tier] in try await tier.record(named: name) }
        ended(result)
        return try? result.get()
    }

    func hiddenBefore(_ name: String) -> TimeInterval {
        state.withLock { state -> TimeInterval in
            if case .remove = state.changes[name] { return .infinity }
            return state.hiddenBefore
        }
    }

    // MARK: Changing

    /// - Parameter end: a moment after all stored records, in seconds since 1970.
    func add(_ change: TierChanges.Change, to name: String, before end: TimeInterval, _ permit: Permit?) {
        state.withLock { state in
            guard !state.isClosed, permit?.isGranted(in: .shared, by: history) != false else { return }
            // A tier that rests takes no records.
            if case .store = change, state.health.restsUntil != nil { return }
            state.changes.add(change, to: name)
            guard state.changes.count > Self.removalLimit else { return }
            state.hiddenBefore = end
            state.changes.dropAll()
        }
        carryOut()
    }

    func hideAll(before end: TimeInterval) {
        state.withLock { state in
            state.hiddenBefore = max(state.hiddenBefore, end)
            state.changes.dropRecords()
        }
    }

    private func carryOut() {
        let moment = time.now()
        while let (name, change) = state.withLock({ state -> (String, TierChanges.Change)? in
            guard state.changes.mayBegin, state.health.admits(at: moment) else { return nil }
            return state.changes.next()
        }) {
            Task {
                let result = await time.limit(Self.changeTimeLimit) { [tier] in
                    switch change {
                    case .store(let record, let expiration):
                        try await tier.store(record, named: name, until: expiration)
                    case .remove: try await tier.removeRecord(named: name)
                    }
                }
                let isLost = if case .failure = result { true } else { false }
                state.withLock { $0.changes.ended(name, isLost: isLost) }
                ended(result)
            }
        }
    }

    private func ended<Value>(_ result: Result<Value, any Error>) {
        let moment = time.now()
        let failure: (any Error)? = if case .failure(let error) = result { error } else { nil }
        let isFailure = failure != nil
        let (begins, wakes, settled) = state.withLock { state in
            var begins = false
            if isFailure {
                begins = state.health.failed(at: moment)
                if begins { state.changes.dropRecords() }
            } else {
                state.health.succeeded()
            }
            let settled = state.isSettled ? exchange(&state.waiting, with: []) : []
            return (begins, state.changes.isEmpty ? nil : state.health.restsUntil, settled)
        }
        if begins, let failure {
            // Another library's error may contain secrets, such as the password in a server's address.
            let text = (failure as? DipperError).map { "\($0)" } ?? "\(type(of: failure))"
            logger.warning("a tier fails and rests", metadata: ["tier": "\(tier.name)", "error": "\(text)"])
        }
        for continuation in settled { continuation.resume() }
        guard let wakes else { return carryOut() }
        let rest = Task { [weak self, time] in
            try await time.sleep(wakes)
            self?.carryOut()
        }
        let (old, isClosed) = state.withLock { (exchange(&$0.rest, with: rest), $0.isClosed) }
        old?.cancel()
        if isClosed { rest.cancel() }
    }

    func settle() async {
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            let isSettled = state.withLock { state in
                if state.isSettled { return true }
                state.waiting.append(continuation)
                return false
            }
            if isSettled { continuation.resume() }
        }
    }

    func close() { state.withLock { $0.isClosed = true } }

    func endRest() { state.withLock { $0.rest }?.cancel() }
}

/// The changes that a tier has yet to carry out, the latest of each name: in order, a few at a time, one of each name.
struct TierChanges: Sendable {
    enum Change: Sendable {
        case store(Data, until: Date?)
        case remove

        /// In bytes; 1 for an empty record, so that it counts as a record.
        fileprivate var size: Int { if case .store(let record, _) = self { max(1, record.count) } else { 0 } }
    }

    private static let mostRunning = 4
    /// The largest size of all records that wait or are being stored, in bytes.
    private static let limit = 16 << 20

    /// May hold names that no longer wait.
    private var order = Deque<String>()
    private var waiting: [String: Change] = [:]
    private var running: [String: Change] = [:]
    private var size = 0

    var isEmpty: Bool { waiting.isEmpty && running.isEmpty }
    var isRunning: Bool { !running.isEmpty }
    var mayBegin: Bool { running.count < Self.mostRunning && !waiting.isEmpty }
    var count: Int { waiting.count }

    subscript(name: String) -> Change? { waiting[name] ?? running[name] }

    mutating func add(_ change: Change, to name: String) {
        let replaced = waiting.removeValue(forKey: name)
        size -= replaced?.size ?? 0
        guard size + change.size <= Self.limit else { return }
        size += change.size
        if replaced == nil { order.append(name) }
        waiting[name] = change
    }

    mutating func next() -> (name: String, change: Change)? {
        while let index = order.firstIndex(where: { running[$0] == nil }) {
            let name = order.remove(at: index)
            guard let change = waiting.removeValue(forKey: name) else { continue }
            running[name] = change
            return (name, change)
        }
        return nil
    }

    /// - Parameter isLost: whether the tier has failed. A removal is tried again, unless another change of the name
    ///   waits.
    mutating func ended(_ name: String, isLost: Bool) {
        guard let change = running.removeValue(forKey: name) else { return }
        size -= change.size
        if isLost, case .remove = change, waiting[name] == nil {
            waiting[name] = .remove
            order.append(name)
        }
    }

    mutating func dropRecords() {
        for (name, change) in waiting where change.size > 0 {
            size -= change.size
            waiting[name] = nil
        }
        order.removeAll { waiting[$0] == nil }
    }

    mutating func dropAll() {
        size = running.values.reduce(0) { $0 + $1.size }
        waiting = [:]
        order = []
    }
}

/// The rule that lets a failing tier rest. Times are those of the cache's clock.
struct TierHealth: Sendable {
    private static let tolerance = 3
    private static let shortestRest = Duration.seconds(1)
    private static let longestRest = Duration.seconds(60)

    private var failures = 0
    private var rest = Duration.zero
    private(set) var restsUntil: Duration?
    private var isTrying = false

    /// After a rest one operation tries the tier, and others must wait for its outcome.
    mutating func admits(at now: Duration) -> Bool {
        guard let restsUntil else { return true }
        guard now >= restsUntil, !isTrying else { return false }
        isTrying = true
        return true
    }

    mutating func succeeded() { self = TierHealth() }

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
