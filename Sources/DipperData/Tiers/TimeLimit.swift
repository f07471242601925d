import Synchronization

/// The outcome of an operation that has a time limit: its result, or the end of the time.
///
/// Unlike a task group, it does not wait for an operation that ignores its cancellation.
struct TimeLimit: Sendable {
    let duration: Duration
    let time: TimeSource

    /// Runs an operation in a task of its own, and returns its result. When the time has passed, cancels the task and
    /// returns ``DipperError/timedOut``.
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

    /// The first of several results.
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

        /// The first result. May be awaited once.
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
