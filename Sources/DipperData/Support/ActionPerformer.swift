/// The interface through which a ``StateDriver`` has actions performed: the owner of the driver, or a value that holds
/// the owner.
package protocol ActionPerformer<Action>: Sendable {
    associatedtype Action: Sendable

    /// Performs one action. No lock is held. The action may apply another event to the same driver: the actions that
    /// follow from that event are performed after those that have been decided already.
    func perform(_ action: Action)

    /// Runs a turn, in which actions are performed, on the calling thread. Performers that have work to do before or
    /// after a turn implement this method.
    func takeTurn(_ turn: () -> Void)

    /// Runs the rest, soon and once, where the actions left over from a full turn are to be performed: on a thread of
    /// the owner's, or on the queue that the actions belong to. Must not drop the rest.
    func handOver(_ rest: @escaping @Sendable () -> Void)
}

extension ActionPerformer {
    package func takeTurn(_ turn: () -> Void) { turn() }
}
