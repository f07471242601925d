internal import DipperData
package import DipperTesting
import Synchronization

/// A barrier that suspends tasks until the test opens it.
package final class Gate: Sendable {
    private struct State {
        var isOpen = false
        var inside: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())
    private let arrivals = Box(0)

    package init() {}

    package func pass() async {
        await withCheckedContinuation { continuation in
            let isOpen = state.withLock { state in
                if !state.isOpen { state.inside.append(continuation) }
                return state.isOpen
            }
            arrivals.update { $0 += 1 }
            if isOpen { continuation.resume() }
        }
    }

    /// Waits until a task has called ``pass()``.
    package func waitForArrival() async throws(WaitTimeout) { try await arrivals.wait { $0 > 0 } }

    package func open() {
        let inside = state.withLock { state in
            state.isOpen = true
            return exchange(&state.inside, with: [])
        }
        for continuation in inside { continuation.resume() }
    }
}
