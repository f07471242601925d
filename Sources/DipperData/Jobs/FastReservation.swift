import Synchronization

/// An announcement that an urgent call may follow. No prefetch starts until it is released.
package final class FastReservation: Sendable {
    private let engine: Mutex<FetchEngine?>

    init(_ engine: FetchEngine) {
        self.engine = Mutex(engine)
        engine.apply { scheduler, _ in scheduler.reserve(.fast) }
    }

    deinit { release() }

    /// Ends the reservation, because the call has been made or will not be made. Without effect the second time.
    package func release() {
        let engine = engine.withLock { exchange(&$0, with: nil) }
        engine?.apply { scheduler, actions in scheduler.release(.fast, into: &actions) }
    }
}
