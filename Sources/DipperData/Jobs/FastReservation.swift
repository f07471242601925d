import Synchronization

/// Word that an urgent call may follow: until it is released no prefetch starts.
package final class FastReservation: Sendable {
    private let engine: Mutex<FetchEngine?>

    init(_ engine: FetchEngine) {
        self.engine = Mutex(engine)
        engine.apply { scheduler, _ in scheduler.reserve(.fast) }
    }

    deinit { release() }

    /// The call has been made, or will not be. Without effect the second time.
    package func release() {
        let engine = engine.withLock { exchange(&$0, with: nil) }
        engine?.apply { scheduler, actions in scheduler.release(.fast, into: &actions) }
    }
}
