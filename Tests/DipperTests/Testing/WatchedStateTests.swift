import DipperTesting
import Testing

@Suite("The state of a fake", .timeLimit(.minutes(5)))
struct WatchedStateTests {
    @Test("is what it was changed to, and a change returns its result")
    func update() {
        let state = WatchedState([1, 2])
        #expect(state.update { $0.removeLast() } == 2)
        #expect(state.value == [1])
    }

    @Test("resumes a task as soon as its condition holds, whether the change comes before the wait or after it")
    func wait() async throws {
        let state = WatchedState(0)
        async let first: () = state.wait { $0 >= 1 }
        async let second: () = state.wait { $0 >= 2 }
        state.update { $0 = 1 }
        try await first
        state.update { $0 = 2 }
        try await second
        try await state.wait { $0 == 2 }
    }

    @Test("fails when the time is over or the task is cancelled, unless the condition holds, and says what was there")
    func timeout() async throws {
        let state = WatchedState(7)
        let error = await #expect(throws: WaitTimeout.self) {
            try await state.wait(within: .milliseconds(1), until: { $0 > 7 }) { "the number stayed \($0)" }
        }
        #expect(error?.description.hasPrefix("the number stayed 7") == true)
        let cancelled = Task { try await state.wait(until: { $0 > 7 }) }
        cancelled.cancel()
        await #expect(throws: WaitTimeout.self) { try await cancelled.value }
        // A condition that holds counts for a cancelled task, too.
        let late = Task { try await state.wait(until: { $0 == 7 }) }
        late.cancel()
        try await late.value
    }
}
