/// A hold on fetches that have not begun, for a consumer that cannot take more of what is fetched. It ends when its
/// last reference is released, and does not keep the cache alive.
package final class FetchHold: Sendable {
    private weak let engine: FetchEngine?
    private let id: HolderID

    init(_ engine: FetchEngine, of queue: FetchQueue) {
        self.engine = engine
        id = engine.apply { scheduler, _ in scheduler.addHolder(of: queue) }
    }

    deinit { engine?.apply { [id] in $0.removeHolder(id, into: &$1) } }

    /// Whether the cache has been released.
    package var isOver: Bool { engine == nil }

    /// Holds fetches back, or lets them go on. Notices may overtake one another: the one with the highest number holds.
    package func tell(_ notice: ByteBudget.Notice) {
        engine?.apply { $0.hold(notice, for: id, into: &$1) }
    }
}
