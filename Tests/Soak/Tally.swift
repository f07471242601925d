import DipperTesting

/// Counts the ends of calls: each must end once.
final class Tally: Sendable {
    private struct State {
        var names: [Int: String] = [:]
        var next = 0
        var answered = 0
        var again: [String] = []
    }

    private let state = WatchedState(State())

    /// Registers a call; the caller must call the returned closure when the call ends.
    func begin(_ name: String) -> @Sendable (_ isAnswered: Bool) -> Void {
        let number = state.update { state in
            state.next += 1
            state.names[state.next] = name
            return state.next
        }
        return { self.end(number, name, $0) }
    }

    private func end(_ number: Int, _ name: String, _ isAnswered: Bool) {
        state.update { state in
            if state.names.removeValue(forKey: number) == nil { state.again.append(name) }
            if isAnswered { state.answered += 1 }
        }
    }

    /// Waits until no call is running. The run's watch ends the program if that takes too long.
    func idle() async { try? await state.wait(within: .seconds(86_400)) { $0.names.isEmpty } }

    var begun: Int { state.value.next }
    var answered: Int { state.value.answered }
    var open: [String] { Array(state.value.names.values) }
    var endedAgain: [String] { state.value.again }
}
