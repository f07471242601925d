package import DipperTesting

/// A thread-safe value that closures change and the test reads.
package typealias Box = WatchedState

/// A barrier that suspends tasks until the test opens it.
package final class Gate: Sendable {
    private let state = Box((arrivals: 0, isOpen: false))

    package init() {}

    /// Returns when the gate is open, even if the task is cancelled.
    package func pass() async {
        state.update { $0.arrivals += 1 }
        _ = await Task.detached { [state] in try? await state.wait(within: .seconds(600)) { $0.isOpen } }.value
    }

    package func waitForArrival() async throws { try await state.wait { $0.arrivals > 0 } }

    package func open() { state.update { $0.isOpen = true } }
}
