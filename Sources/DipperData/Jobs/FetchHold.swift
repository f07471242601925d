import Synchronization

/// Holds back fetches that have not begun, while someone cannot take more of what is fetched. Nothing is held back any more
/// once the last reference is gone; the cache is not kept by it.
package final class FetchHold: Sendable {
    private struct Target {
        weak var engine: FetchEngine?
    }

    private let target: Mutex<Target>
    private let id: HolderID

    init(_ engine: FetchEngine, of queue: FetchQueue) {
        target = Mutex(Target(engine: engine))
        id = engine.apply { scheduler, _ in scheduler.addHolder(of: queue) }
    }

    private var engine: FetchEngine? { target.withLock { $0.engine } }

    deinit { engine?.apply { [id] in $0.removeHolder(id, into: &$1) } }

    /// Whether the cache is gone.
    package var isOver: Bool { engine == nil }

    /// Holds back, or lets go. Of notices that overtake one another the one with the highest number holds.
    package func tell(_ notice: ByteBudget.Notice) {
        engine?.apply { $0.hold(notice, for: id, into: &$1) }
    }
}
