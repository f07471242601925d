import Synchronization

/// An announcement that an urgent call may follow. No prefetch starts until it is released.
package final class FastReservation: Sendable {
    private let engine: FetchEngine
    private let isOver = Atomic(false)

    init(_ engine: FetchEngine) {
        self.engine = engine
        engine.apply { scheduler, _ in scheduler.reserve(.fast) }
    }

    deinit { release() }

    /// Ends the reservation, because the call has been made or will not be made. Without effect the second time.
    package func release() {
        guard !isOver.exchange(true, ordering: .acquiringAndReleasing) else { return }
        engine.apply { scheduler, actions in scheduler.release(.fast, into: &actions) }
    }
}
