import Synchronization

/// The feed of a task. It delivers the task's events to continuations, to streams, and to closures on the task's
/// callback queue, one closure at a time.
package struct TaskFeed<Event: TaskEvent>: ~Copyable, Sendable {
    package typealias Outcome = Result<Event.Output, DipperError>

    private let log = Mutex(TaskLog<Event>())

    package init() {}

    package var outcome: Outcome? { log.withLock { $0.outcome } }

    /// Waits for the end of the task. The continuation resumes at once if the task has ended.
    package func wait(_ continuation: CheckedContinuation<Outcome, Never>) {
        let result = log.withLock { $0.await(continuation) }
        if let result { continuation.resume(returning: result) }
    }

    /// Returns a stream of the events from now on, after the present state. If the reader falls behind, the stream
    /// keeps the latest events.
    /// - Parameters:
    ///   - present: the state now.
    ///   - forget: called with the stream's number when the stream is no longer read; must call ``forget(stream:)``.
    package func events(present: Event.State, forget: @escaping @Sendable (Int) -> Void) -> AsyncStream<Event> {
        AsyncStream(bufferingPolicy: .bufferingNewest(256)) { continuation in
            let number = log.withLock { $0.add(continuation, present: present) }
            guard let number else { return }
            continuation.onTermination = { _ in forget(number) }
        }
    }

    package func forget(stream number: Int) {
        _ = log.withLock { $0.streams.removeValue(forKey: number) }
    }

    // MARK: Events

    // Each method returns `true` if the caller must call `flush` after releasing its locks.

    /// Ends the task. Without effect on a task that has ended.
    package func end(
        _ result: Outcome, on queue: CallbackQueue, _ flush: @escaping @Sendable () -> Void
    ) -> Bool {
        let ended = log.withLock { $0.end(result) }
        guard let ended else { return false }
        for continuation in ended.continuations { continuation.resume(returning: result) }
        for stream in ended.streams {
            stream.yield(TaskLog<Event>.Entry.end(result).event)
            stream.finish()
        }
        return deliver(on: queue, flush)
    }

    package func fail(
        _ error: DipperError, on queue: CallbackQueue, _ flush: @escaping @Sendable () -> Void
    ) -> Bool {
        tell(.failure(error, isFatal: false), on: queue, flush)
    }

    package func retry(on queue: CallbackQueue, _ flush: @escaping @Sendable () -> Void) -> Bool {
        tell(.retry, on: queue, flush)
    }

    package func progress(
        _ progress: TaskProgress, on queue: CallbackQueue, _ flush: @escaping @Sendable () -> Void
    ) -> Bool {
        let streams = log.withLock { $0.set(progress) }
        for stream in streams { stream.yield(.progress(progress)) }
        return deliver(on: queue, flush)
    }

    package func preview(
        _ preview: Event.Preview, on queue: CallbackQueue, _ flush: @escaping @Sendable () -> Void
    ) -> Bool {
        let set = log.withLock { $0.set(preview) }
        for stream in set.streams { stream.yield(.preview(preview)) }
        return deliver(on: queue, flush)
    }

    package func add(
        _ hook: TaskHook<Event.Output>, on queue: CallbackQueue, _ flush: @escaping @Sendable () -> Void
    ) -> Bool {
        log.withLock { $0.add(hook) }
        return deliver(on: queue, flush)
    }

    package func add(
        preview body: @escaping @Sendable (Event.Preview) -> Void, on queue: CallbackQueue,
        _ flush: @escaping @Sendable () -> Void
    ) -> Bool {
        log.withLock { $0.add(preview: body) }
        return deliver(on: queue, flush)
    }

    private func tell(
        _ entry: TaskLog<Event>.Entry, on queue: CallbackQueue, _ flush: @escaping @Sendable () -> Void
    ) -> Bool {
        let streams = log.withLock { $0.append(entry) }
        for stream in streams { stream.yield(entry.event) }
        return deliver(on: queue, flush)
    }

    /// Delivers news to the hooks on the callback queue, unless a delivery is under way.
    @inline(__always)
    private func deliver(on queue: CallbackQueue, _ flush: @escaping @Sendable () -> Void) -> Bool {
        guard log.withLock({ $0.claimDelivery() }) else { return false }
        guard let run = queue.run else { return true }
        Afterwards.run { run(flush) }
        return false
    }

    /// Calls the hooks that have news to hear, one after the other, without holding a lock.
    package func flush() {
        while let call = log.withLock({ $0.nextCall() }) { call() }
    }
}
