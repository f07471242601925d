import Dipper
import Dispatch
import Synchronization

extension DataCache {
    /// Returns when nothing is left to do, as `idle()`, and fails if that takes too long. A call
    /// that is parked or whose transfer has no answer is something to do.
    public func idle(within limit: Duration) async throws {
        try await WaitTimeout.limit(limit, { await self.idle() }) { "the cache still has work: \(self.work)" }
    }

    /// Returns when the cache has taken in what has happened so far, such as an answer or a change of the network, and
    /// the hooks of its tasks have been called, also those of the main actor. Calls that go on are not waited for.
    ///
    /// ```swift
    /// let received = WatchedState(0)
    /// cache.getData(url).onProgress { progress in received.update { $0 = progress.received } }
    /// try await transport.nextTransfer().send(progress: 2, of: 4)
    /// try await cache.waitForHooks()
    /// #expect(received.value == 2)
    /// ```
    public func waitForHooks(within limit: Duration = WaitTimeout.standard) async throws {
        try await WaitTimeout.limit(limit, settleHooks) { "hooks had not returned" }
    }

    /// Returns as soon as at least `count` fetches are parked, for lack of a network, for a back-off or for another process, and the hooks of
    /// their tasks have been called. Fails at once if the cache shuts down before.
    ///
    /// ```swift
    /// let failures = WatchedState(0)
    /// cache.getData(url).onFail { _, _ in failures.update { $0 += 1 } }
    /// try await cache.waitForParked()     // there is no network
    /// #expect(failures.value == 1)
    /// ```
    public func waitForParked(
        _ count: Int = 1, within limit: Duration = WaitTimeout.standard
    ) async throws {
        let events = events(about: .fetches)
        let isParked = WatchedState(true)
        let failure: @Sendable () -> String = { "fewer than \(count) fetches were parked: \(self.work)" }
        let wait: @Sendable () async -> Void = {
            let isThere = await self.parks(count, events)
            isParked.update { $0 = isThere }
            await self.settleHooks()
        }
        try await WaitTimeout.limit(limit, wait, orFail: failure)
        if !isParked.value { throw WaitTimeout("the cache has shut down: \(failure())") }
    }

    /// Returns `false` if the events end before.
    private func parks(_ count: Int, _ events: CacheEvents) async -> Bool {
        if waitingFetches >= count { return true }
        for await event in events {
            switch event.kind {
            case .parked, .missed: if waitingFetches >= count { return true }
            default: break
            }
        }
        return false
    }

    private func settleHooks() async {
        await hooksSettled()
        // Closures of the main actor have been handed to it before.
        await MainActor.run {}
    }

    fileprivate var work: String {
        let counts = queueCounts
        return counts.parked > 0 && !usesRealClock ? "\(counts); \(WaitTimeout.standstill)" : "\(counts)"
    }
}

extension ImageCache {
    /// Returns when nothing is left to do, as `idle()`, and fails if that takes too long. A call
    /// that is parked or whose transfer has no answer is something to do.
    public func idle(within limit: Duration) async throws {
        try await WaitTimeout.limit(limit, { await self.idle() }) { "the cache still has work: \(self.data.work)" }
    }

    /// Returns when the cache has taken in what has happened so far, and the hooks of its tasks have been called, as the
    /// method of a data cache.
    public func waitForHooks(within limit: Duration = WaitTimeout.standard) async throws {
        try await data.waitForHooks(within: limit)
    }

    /// Returns as soon as at least `count` fetches are parked, as the method of a data cache.
    public func waitForParked(
        _ count: Int = 1, within limit: Duration = WaitTimeout.standard
    ) async throws {
        try await data.waitForParked(count, within: limit)
    }
}

extension FetchTask {
    /// Returns the bytes, the value or the picture when the call has ended and the hooks that the task had before have
    /// been called, and fails if that takes too long: `value` has no time limit.
    ///
    /// ```swift
    /// let image = try await task.value(within: .seconds(5))
    /// // throws: "within 5.0 seconds: http://example.org/a.png fast parked had not ended; a parked call goes on …"
    /// ```
    /// - Throws: the `DipperError` of the call, or a ``WaitTimeout``.
    public func value(within limit: Duration) async throws -> Value {
        let end = WatchedState<Result<Response, DipperError>?>(nil)
        onEnd { result in end.update { $0 = result } }
        try await end.wait(within: limit, until: { $0 != nil }) { _ in
            let isParked = (self as? any FedTask)?.isParkedOnTestClock == true
            return "\(self) had not ended\(isParked ? "; \(WaitTimeout.standstill)" : "")"
        }
        await MainActor.run {}
        guard let result = end.value else { throw DipperError.cancelled }
        return try result.get().value
    }
}

/// The error of a wait for an event that did not come within the limit, of the real clock, or cannot come any more, or
/// whose task was cancelled.
///
/// ```swift
/// let transfer = try await transport.nextTransfer(within: .seconds(5))
/// // throws: "within 5.0 seconds: no transfer began; 1 transfers so far: http://example.org/a.json; …"
/// ```
public struct WaitTimeout: Error, CustomStringConvertible {
    /// A sentence that says what was waited for, how long, and what was there instead.
    public let description: String

    /// The time that each wait takes at most unless the test gives another: 30 seconds of the real clock.
    public static let standard = Duration.seconds(30)

    init(_ description: String) { self.description = description }

    static let standstill =
        "a parked call goes on when the network is up and the test calls advance(by:) of its ManualClock"

    static func limit(
        _ limit: Duration, _ action: @escaping @Sendable () async -> Void,
        orFail failure: @escaping @Sendable () -> String
    ) async throws {
        let isDone = WatchedState(false)
        let task = Task.detached {
            await action()
            isDone.update { $0 = true }
        }
        defer { task.cancel() }
        try await isDone.wait(within: limit, until: { $0 }) { _ in failure() }
    }
}

/// A state of a test that hooks change, on any thread, and that the test waits for.
///
/// ```swift
/// let log = WatchedState<[String]>([])
/// cache.getData(url).onFail { error, _ in log.update { $0.append("\(error)") } }
/// try await log.wait { $0.count == 1 }
/// ```
public final class WatchedState<Value: Sendable>: Sendable {
    private struct Waiter {
        let isMet: @Sendable (Value) -> Bool
        let continuation: CheckedContinuation<Bool, Never>
    }

    private struct Content {
        var value: Value
        var waiters: [Int: Waiter] = [:]
        var next = 0

        mutating func removeMet() -> [Waiter] {
            guard !waiters.isEmpty else { return [] }
            let met = waiters.filter { $0.value.isMet(value) }
            for number in met.keys { waiters[number] = nil }
            return Array(met.values)
        }
    }

    private let content: Mutex<Content>

    /// Creates a state.
    public init(_ value: Value) { content = Mutex(Content(value: value)) }

    /// The state now.
    public var value: Value { content.withLock { $0.value } }

    /// Changes the state under its lock, and resumes the tasks whose conditions hold now.
    @discardableResult
    public func update<Result: Sendable>(_ change: (inout Value) -> Result) -> Result {
        let (result, met) = content.withLock { content in
            let result = change(&content.value)
            return (result, content.removeMet())
        }
        for waiter in met { waiter.continuation.resume(returning: true) }
        return result
    }

    /// Returns as soon as a condition on the state holds. The condition is called under the lock: it may read its
    /// argument and nothing else. `failure` returns the sentence of the error: what did not happen, without the time.
    public func wait(
        within limit: Duration = WaitTimeout.standard, until isMet: @escaping @Sendable (Value) -> Bool,
        orFail failure: @Sendable (Value) -> String = { "the state stayed \($0)" }
    ) async throws {
        let number = content.withLock { content in
            content.next += 1
            return content.next
        }
        let timer = Task.detached { [weak self] in
            try await Task.sleep(for: limit)
            self?.giveUp(number)
        }
        defer { timer.cancel() }
        let isThere = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let result: Bool? = content.withLock { content in
                    if isMet(content.value) { return true }
                    if Task.isCancelled { return false }
                    content.waiters[number] = Waiter(isMet: isMet, continuation: continuation)
                    return nil
                }
                if let result { continuation.resume(returning: result) }
            }
        } onCancel: {
            giveUp(number)
        }
        if !isThere { throw WaitTimeout("within \(limit): \(failure(value))") }
    }

    private func giveUp(_ number: Int) {
        let waiter = content.withLock { $0.waiters.removeValue(forKey: number) }
        waiter?.continuation.resume(returning: false)
    }
}

/// A barrier that blocks threads until the test opens it, at most two minutes: a test that fails must not hang.
package final class Door: Sendable {
    private struct State {
        var arrivals = 0
        var staysOpen = false
    }

    private let inside = DispatchSemaphore(value: 0)
    private let state = WatchedState(State())

    package init() {}

    package var arrivals: Int { state.value.arrivals }

    package func waitForArrivals(_ count: Int) async throws {
        try await state.wait(until: { $0.arrivals >= count }) { "\($0.arrivals) of \(count) have arrived at a door" }
    }

    package func pass() {
        state.update { $0.arrivals += 1 }
        _ = inside.wait(timeout: .now() + .seconds(120))
        // Lets the next thread pass.
        if state.value.staysOpen { inside.signal() }
    }

    /// Lets `count` threads continue: blocked ones, or the next that arrive.
    package func open(_ count: Int = 1) { for _ in 0..<count { inside.signal() } }

    package func stayOpen() {
        state.update { $0.staysOpen = true }
        inside.signal()
    }
}
