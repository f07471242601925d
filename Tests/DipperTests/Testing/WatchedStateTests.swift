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
    func wait() async {
        let state = WatchedState(0)
        async let first = state.wait { $0 >= 1 }
        async let second = state.wait { $0 >= 2 }
        state.update { $0 = 1 }
        #expect(await first)
        state.update { $0 = 2 }
        #expect(await second)
        #expect(await state.wait { $0 == 2 })
    }

    @Test("resumes a task that is cancelled, before it waits or while it does")
    func cancelled() async {
        let state = WatchedState(0)
        let task = Task { await state.wait { $0 > 0 } }
        task.cancel()
        #expect(await !task.value)
        // A condition that holds counts for a cancelled task, too.
        let late = Task { await state.wait { $0 == 0 } }
        late.cancel()
        #expect(await late.value)
    }
}
