import Dipper
import Dispatch
import Synchronization

extension DataCache {
    /// Returns when nothing is left to do, as ``DipperData/DataCache/idle()``, and fails if that takes too long.
    public func idle(within limit: Duration) async throws(WaitTimeout) {
        try await WaitTimeout.limit(limit, { await self.idle() }) { "the cache still has work: \(self.queueCounts)" }
    }
}

extension ImageCache {
    /// Returns when nothing is left to do, as ``Dipper/ImageCache/idle()``, and fails if that takes too long.
    public func idle(within limit: Duration) async throws(WaitTimeout) {
        try await WaitTimeout.limit(limit, { await self.idle() }) {
            "the cache still has work: \(self.data.queueCounts)"
        }
    }
}

/// The error of a wait for an event that did not come within the limit, of the real clock, or whose task was cancelled.
///
/// ```swift
/// let transfer = try await transport.nextTransfer(within: .seconds(5))
/// // throws: "no transfer began; 1 transfers so far: http://example.org/a.json, within 5.0 seconds"
/// ```
public struct WaitTimeout: Error, CustomStringConvertible {
    /// A sentence that says what was waited for, how long, and what was there instead.
    public let description: String

    /// The time that each wait takes at most unless the test gives another: 30 seconds of the real clock.
    public static let standard = Duration.seconds(30)

    init(_ description: String) { self.description = description }

    static func limit(
        _ limit: Duration, _ action: @escaping @Sendable () async -> Void,
        orFail failure: @escaping @Sendable () -> String
    ) async throws(WaitTimeout) {
        let isDone = WatchedState(false)
        Task.detached {
            await action()
            isDone.update { $0 = true }
        }
        try await isDone.wait(within: limit, until: { $0 }) { _ in failure() }
    }
}

/// A state that several threads read and change, and that tasks wait for.
package final class WatchedState<Value: Sendable>: Sendable {
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

    package init(_ value: Value) { content = Mutex(Content(value: value)) }

    package var value: Value { content.withLock { $0.value } }

    /// Changes the state under its lock, and resumes the tasks whose conditions hold now.
    @discardableResult
    package func update<Result: Sendable>(_ change: (inout Value) -> Result) -> Result {
        let (result, met) = content.withLock { content in
            let result = change(&content.value)
            return (result, content.removeMet())
        }
        for waiter in met { waiter.continuation.resume(returning: true) }
        return result
    }

    /// Waits until a condition on the state holds.
    /// - Parameters:
    ///   - isMet: the condition, which is called under the lock: it may read its argument and nothing else.
    ///   - failure: the sentence of the error: what did not happen, without the time.
    package func wait(
        within limit: Duration = WaitTimeout.standard, until isMet: @escaping @Sendable (Value) -> Bool,
        orFail failure: @Sendable (Value) -> String = { "the state stayed \($0)" }
    ) async throws(WaitTimeout) {
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
        if !isThere { throw WaitTimeout("\(failure(value)), within \(limit)") }
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

    package func waitForArrivals(_ count: Int) async throws(WaitTimeout) {
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
