import Synchronization

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
    ///   - limit: the time after which the wait fails, of the real clock.
    ///   - isMet: the condition, which is called under the lock: it may read its argument and nothing else.
    ///   - failure: the sentence of the error: what did not happen, without the time.
    /// - Throws: `WaitTimeout` if the condition does not hold in time, or if the task is cancelled.
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
