/// A call as the engine in which it waits knows it: how urgent it is, and how it is changed.
@Loop
package class WaitingCall {
    final nonisolated let engine: Engine
    final var want: Urgency

    nonisolated init(_ want: Urgency, in engine: Engine) { (self.want, self.engine) = (want, engine) }

    /// `nil` if the call does not wait.
    func status() -> CallStatus? { nil }
    func cancel() {}
    func change(to want: Urgency) {}
    func wantProgress() {}
    func wantPreviews() {}

    final func move(to queue: FetchQueue) { change(to: Urgency(queue: queue, level: want.level)) }
    final func demote() { move(to: .slow) }
    final func setPriority(_ priority: Priority) { change(to: Urgency(want.queue, priority)) }
}

/// The present state of a call that waits in an engine.
package struct CallStatus: Sendable {
    let queue: FetchQueue
    var attempts: Int
    package var state = TaskState.waiting
}
