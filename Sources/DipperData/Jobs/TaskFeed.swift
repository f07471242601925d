import Synchronization

/// Brings what happens to a task to those who wait for it: continuations, streams, and closures on the task's queue,
/// one closure at a time.
package struct TaskFeed<Event: TaskEvent>: ~Copyable, Sendable {
    package typealias Outcome = Result<Event.Output, DipperError>

    private let log = Mutex(TaskLog<Event>())

    package init() {}

    package var outcome: Outcome? { log.withLock { $0.outcome } }

    /// Waits for the end, or returns it.
    package func wait(_ continuation: CheckedContinuation<Outcome, Never>) {
        let result = log.withLock { $0.await(continuation) }
        if let result { continuation.resume(returning: result) }
    }

    /// All that happens from now on, after the present state. Of what nobody reads for long the latest is kept.
    /// - Parameters:
    ///   - present: the state now.
    ///   - forget: called with the stream's number when nobody reads it any more; to call ``forget(stream:)``.
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

    // MARK: News; each is true if `flush` must be called when the caller holds nothing.

    /// Ends the task, once.
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
        _ hook: TaskHook<Event>, on queue: CallbackQueue, _ flush: @escaping @Sendable () -> Void
    ) -> Bool {
        log.withLock { $0.add(hook) }
        return deliver(on: queue, flush)
    }

    private func tell(
        _ entry: TaskLog<Event>.Entry, on queue: CallbackQueue, _ flush: @escaping @Sendable () -> Void
    ) -> Bool {
        let streams = log.withLock { $0.append(entry) }
        for stream in streams { stream.yield(entry.event) }
        return deliver(on: queue, flush)
    }

    /// Sees to it that waiting news reaches the hooks.
    @inline(__always)
    private func deliver(on queue: CallbackQueue, _ flush: @escaping @Sendable () -> Void) -> Bool {
        guard log.withLock({ $0.claimDelivery() }) else { return false }
        guard let run = queue.run else { return true }
        run(flush)
        return false
    }

    /// Calls the hooks that have something to hear, one after the other, without a lock held.
    package func flush() {
        while let call = log.withLock({ $0.nextCall() }) { call() }
    }
}
