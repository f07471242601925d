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
    /// - Parameter isMet: the condition, which is called under the lock: it may read its argument and nothing else.
    /// - Returns: `false` if the task was cancelled first.
    @discardableResult
    package func wait(until isMet: @escaping @Sendable (Value) -> Bool) async -> Bool {
        let number = content.withLock { content in
            content.next += 1
            return content.next
        }
        return await withTaskCancellationHandler {
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
            let waiter = content.withLock { $0.waiters.removeValue(forKey: number) }
            waiter?.continuation.resume(returning: false)
        }
    }
}
