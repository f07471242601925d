import Synchronization

/// Counts the ends of calls: each must end once.
final class Tally: Sendable {
    private struct State {
        var names: [Int: String] = [:]
        var next = 0
        var answered = 0
        /// Calls that ended a second time.
        var again: [String] = []
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    /// Registers a call; the caller must call the returned closure when the call ends.
    func begin(_ name: String) -> @Sendable (_ isAnswered: Bool) -> Void {
        let number = state.withLock { state in
            state.next += 1
            state.names[state.next] = name
            return state.next
        }
        return { self.end(number, name, $0) }
    }

    private func end(_ number: Int, _ name: String, _ isAnswered: Bool) {
        let waiting = state.withLock { state -> [CheckedContinuation<Void, Never>] in
            if state.names.removeValue(forKey: number) == nil { state.again.append(name) }
            if isAnswered { state.answered += 1 }
            guard state.names.isEmpty else { return [] }
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    /// Waits until no call is running.
    func idle() async {
        await withCheckedContinuation { continuation in
            let isIdle = state.withLock { state in
                if state.names.isEmpty { return true }
                state.waiting.append(continuation)
                return false
            }
            if isIdle { continuation.resume() }
        }
    }

    var begun: Int { state.withLock { $0.next } }
    /// The number of calls that ended with an answer.
    var answered: Int { state.withLock { $0.answered } }
    var open: [String] { state.withLock { Array($0.names.values) } }
    var endedAgain: [String] { state.withLock { $0.again } }
}
