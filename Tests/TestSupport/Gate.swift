import Synchronization

/// A barrier that suspends tasks until the test opens it.
package final class Gate: Sendable {
    private struct State {
        var isOpen = false
        var arrived = 0
        var inside: [CheckedContinuation<Void, Never>] = []
        var watchers: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    package init() {}

    package func pass() async {
        await withCheckedContinuation { continuation in
            let (isOpen, watchers) = state.withLock { state in
                state.arrived += 1
                if !state.isOpen { state.inside.append(continuation) }
                return (state.isOpen, exchange(&state.watchers, with: []))
            }
            for watcher in watchers { watcher.resume() }
            if isOpen { continuation.resume() }
        }
    }

    /// Waits until a task has called ``pass()``.
    package func waitForArrival() async {
        await withCheckedContinuation { continuation in
            let isThere = state.withLock { state in
                if state.arrived == 0 { state.watchers.append(continuation) }
                return state.arrived > 0
            }
            if isThere { continuation.resume() }
        }
    }

    package func open() {
        let inside = state.withLock { state in
            state.isOpen = true
            return exchange(&state.inside, with: [])
        }
        for continuation in inside { continuation.resume() }
    }
}
