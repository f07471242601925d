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
    func runBeside(_ cost: @escaping Workers.Measure, _ work: @escaping WorkBeside) {}

    final func move(to queue: FetchQueue) { change(to: Urgency(queue: queue, level: want.level)) }
    final func demote() { move(to: .slow) }
    final func setPriority(_ priority: Priority) { change(to: Urgency(want.queue, priority)) }
}

/// Work for a call, on a thread that makes objects. The loop runs the closure that it returns, unless the call has ended.
package typealias WorkBeside = @Sendable (_ isCancelled: @escaping @Sendable () -> Bool) -> (@Sendable () -> Void)?

/// The present state of a call that waits in an engine.
package struct CallStatus: Sendable {
    let queue: FetchQueue
    var attempts: Int
    package var state = TaskState.waiting
}
