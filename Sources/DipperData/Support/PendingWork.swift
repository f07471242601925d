import Synchronization

/// The closures of a cache's calls that are to be called and have not returned, for those who wait until there are none.
package final class PendingWork: Sendable {
    private struct State {
        var begun = 0
        var ended = 0
        var waiting: [CheckedContinuation<Int, Never>] = []
    }

    private let state = Mutex(State())

    func begin() { state.withLock { $0.begun += 1 } }

    func end() {
        let (waiting, begun) = state.withLock { state in
            state.ended += 1
            return (state.ended == state.begun ? exchange(&state.waiting, with: []) : [], state.begun)
        }
        for continuation in waiting { continuation.resume(returning: begun) }
    }

    /// Returns when nothing is pending.
    /// - Returns: how much had begun by then.
    func settled() async -> Int {
        await withCheckedContinuation { continuation in
            let begun = state.withLock { state -> Int? in
                if state.ended == state.begun { return state.begun }
                state.waiting.append(continuation)
                return nil
            }
            if let begun { continuation.resume(returning: begun) }
        }
    }

    /// How much has begun so far.
    var begun: Int { state.withLock { $0.begun } }
}
