import Dispatch

/// A barrier that blocks threads until the test opens it, and at most two minutes, so that a test that fails before it
/// opens the door does not hang.
package final class Door: Sendable {
    private struct State {
        var arrivals = 0
        var staysOpen = false
    }

    private let inside = DispatchSemaphore(value: 0)
    private let state = WatchedState(State())

    package init() {}

    /// The number of calls of ``pass()`` so far.
    package var arrivals: Int { state.value.arrivals }

    package func pass() {
        state.update { $0.arrivals += 1 }
        _ = inside.wait(timeout: .now() + .seconds(120))
        // Lets the next thread pass.
        if state.value.staysOpen { inside.signal() }
    }

    /// Lets `count` threads continue: blocked ones, or the next that arrive.
    package func open(_ count: Int = 1) { for _ in 0..<count { inside.signal() } }

    /// Lets all threads continue, those that are blocked and those that arrive later.
    package func stayOpen() {
        state.update { $0.staysOpen = true }
        inside.signal()
    }
}
