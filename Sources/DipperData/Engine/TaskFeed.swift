import Foundation
import Synchronization

/// Delivers a task's events to continuations, streams and closures, one closure at a time.
package struct TaskFeed<Event: TaskEvent>: ~Copyable, Sendable {
    package typealias Outcome = Result<Event.Output, DipperError>

    private let log = Mutex(TaskLog<Event>())

    package init() {}

    package var outcome: Outcome? { log.withLock { $0.outcome } }

    package func wait(_ continuation: UnsafeContinuation<Outcome, Never>) {
        let result = log.withLock { $0.await(continuation) }
        if let result { continuation.resume(returning: result) }
    }

    /// Streams the events from now on, after the present state. A reader that falls behind gets the latest ones.
    /// - Parameter forget: called with the stream's number when it is no longer read; must call ``forget(stream:)``.
    package func events(present: Event.State, forget: @escaping @Sendable (Int) -> Void) -> AsyncStream<Event> {
        AsyncStream(bufferingPolicy: .bufferingNewest(256)) { continuation in
            let number = log.withLock { $0.add(continuation, present: present) }
            guard let number else { return }
            continuation.onTermination = { _ in forget(number) }
        }
    }

    package func forget(stream number: Int) {
        _ = log.withLock { $0.remove(stream: number) }
    }

    // MARK: Events

    // Each method returns `true` if the caller must call `flush` after releasing its locks.

    /// Ends the task. Without effect on a task that has ended.
    package func end(
        _ result: Outcome, on queue: CallbackQueue, _ flush: @escaping @Sendable () -> Void
    ) -> Bool {
        let ended = log.withLock { $0.end(result) }
        guard let ended else { return false }
        if ended.isAwaited { Afterwards.wake { ended.tell(result) } }
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

    package func hear(_ news: FetchNews, on queue: CallbackQueue, _ flush: @escaping @Sendable () -> Void) -> Bool {
        switch news {
        case .failure(let error): fail(error, on: queue, flush)
        case .retry: retry(on: queue, flush)
        case .progress(let progress): self.progress(progress, on: queue, flush)
        }
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

    /// Has news delivered on the callback queue, unless a delivery is under way.
    @inline(__always)
    private func deliver(on queue: CallbackQueue, _ flush: @escaping @Sendable () -> Void) -> Bool {
        guard log.withLock({ $0.claimDelivery() }) else { return false }
        queue.pending?.begin()
        switch queue.kind {
        case .inPlace: return true
        case .dispatch(let queue): Afterwards.wake(on: queue, flush)
        case .custom(let run): Afterwards.run { run(flush) }
        }
        return false
    }

    /// Calls the hooks that have news to hear, one after the other, without holding a lock.
    /// - Parameter queue: the queue on which the news was to be delivered.
    package func flush(on queue: CallbackQueue) {
        while let call = log.withLock({ $0.nextCall() }) { call() }
        queue.pending?.end()
    }
}

/// News of the fetch that a call waits for.
package enum FetchNews: Sendable {
    /// An attempt has failed. The fetch waits and tries again.
    case failure(DipperError)
    case retry
    case progress(TaskProgress)
}

/// The events of one kind of task.
package protocol TaskEvent: Sendable {
    associatedtype Output: Sendable
    associatedtype State: Sendable
    /// The part of the result that can be seen before the end.
    associatedtype Preview: Sendable

    static func state(_ state: State) -> Self
    static func progress(_ progress: TaskProgress) -> Self
    static func preview(_ preview: Preview) -> Self
    static func failure(_ error: DipperError, isFatal: Bool) -> Self
    static var retry: Self { get }
    static func finished(_ output: Output) -> Self
}

extension TaskEvent where Preview == Never {
    package static func preview(_ preview: Never) -> Self {}
}

/// The events of a task, and how much of them each hook has heard. Decides which hook is called next, and calls none.
struct TaskLog<Event: TaskEvent> {
    typealias Outcome = Result<Event.Output, DipperError>

    /// An event that every hook of its kind hears, even if the hook is added later.
    enum Entry: Sendable {
        case failure(DipperError, isFatal: Bool)
        case retry
        case end(Outcome)

        var event: Event {
            switch self {
            case .failure(let error, let isFatal): .failure(error, isFatal: isFatal)
            case .retry: .retry
            case .end(.success(let output)): .finished(output)
            case .end(.failure(let error)): .failure(error, isFatal: true)
            }
        }
    }

    struct Ended {
        var first: UnsafeContinuation<Outcome, Never>?
        var continuations: [UnsafeContinuation<Outcome, Never>] = []
        var streams: [AsyncStream<Event>.Continuation] = []
        /// The caller releases it outside the lock.
        var preview: Event.Preview?

        var isAwaited: Bool { first != nil || !streams.isEmpty || preview != nil }

        func tell(_ result: Outcome) {
            first?.resume(returning: result)
            for continuation in continuations { continuation.resume(returning: result) }
            for stream in streams {
                stream.yield(Entry.end(result).event)
                stream.finish()
            }
        }
    }

    private enum Hook {
        case events(TaskHook<Event.Output>)
        case preview(@Sendable (Event.Preview) -> Void)

        func call(with entry: Entry) -> (() -> Void)? {
            switch (self, entry) {
            case (.events(.end(let body)), .end(let result)): { body(result) }
            case (.events(.failure(let body)), .failure(let error, let isFatal)): { body(error, isFatal) }
            case (.events(.retry(let body)), .retry): { body() }
            default: nil
            }
        }
    }

    private struct Listener {
        let hook: Hook
        var cursor = 0
        var progressHeard = 0
        var previewHeard = 0
    }

    private enum News {
        case entry(Int)
        case progress(TaskProgress)
        case preview(Event.Preview)
    }

    /// The part that a task has only if somebody listens to it, or if it has failed.
    private final class Contents {
        /// The latest entries: a call that retries for days must not remember each failure.
        var entries: [Entry] = []
        var forgotten = 0
        var listeners: [Listener] = []
        /// Told after the entries that were there when it came; earlier progress is dropped.
        var progress: TaskProgress?
        var progressNumber = 0
        var progressPlace = 0
        var preview: Event.Preview?
        var previewNumber = 0
        var previewPlace = 0
        var continuations: [UnsafeContinuation<Outcome, Never>] = []
        var streams: [Int: AsyncStream<Event>.Continuation] = [:]
        var nextStream = 0
        var isDelivering = false

        init(after outcome: Outcome?) {
            if let outcome { end(outcome) }
        }

        var entryCount: Int { forgotten + entries.count }

        func remember(_ entry: Entry) {
            if entries.count == mostEntries {
                entries.removeFirst()
                forgotten += 1
            }
            entries.append(entry)
        }

        func end(_ outcome: Outcome) {
            if case .failure(let error) = outcome { remember(.failure(error, isFatal: true)) }
            remember(.end(outcome))
        }

        func nextNews() -> (listener: Int, news: News)? {
            var next: (place: Int, listener: Int, news: News)?
            func consider(_ place: Int, _ listener: Int, _ news: News) {
                // The places of entries are odd, so that what came between two entries is told between them.
                if place < next?.place ?? .max { next = (place, listener, news) }
            }
            for (index, listener) in listeners.enumerated() {
                let cursor = max(listener.cursor, forgotten)
                if cursor < entryCount { consider(2 * cursor + 1, index, .entry(cursor)) }
                if let progress, listener.progressHeard < progressNumber {
                    consider(2 * progressPlace, index, .progress(progress))
                }
                if let preview, listener.previewHeard < previewNumber {
                    consider(2 * previewPlace, index, .preview(preview))
                }
            }
            return next.map { ($0.listener, $0.news) }
        }
    }

    private(set) var outcome: Outcome?
    private var first: UnsafeContinuation<Outcome, Never>?
    private var kept: Contents?

    private var contents: Contents {
        mutating get {
            if let kept { return kept }
            let new = Contents(after: outcome)
            kept = new
            return new
        }
    }

    /// The number of failures and retries remembered for hooks that are added late or cannot keep up.
    static var mostEntries: Int { 64 }

    private var streams: [AsyncStream<Event>.Continuation] { kept.map { Array($0.streams.values) } ?? [] }

    // MARK: Events

    mutating func append(_ entry: Entry) -> [AsyncStream<Event>.Continuation] {
        guard outcome == nil else { return [] }
        contents.remember(entry)
        return streams
    }

    mutating func set(_ progress: TaskProgress) -> [AsyncStream<Event>.Continuation] {
        guard outcome == nil, progress != contents.progress || contents.progressPlace != contents.entryCount else {
            return []
        }
        contents.progress = progress
        contents.progressNumber += 1
        contents.progressPlace = contents.entryCount
        return streams
    }

    /// - Returns: the streams to tell, and the preview before, which the caller releases outside the lock.
    mutating func set(_ new: Event.Preview) -> (streams: [AsyncStream<Event>.Continuation], old: Event.Preview?) {
        guard outcome == nil else { return ([], nil) }
        contents.previewNumber += 1
        contents.previewPlace = contents.entryCount
        return (streams, exchange(&contents.preview, with: new))
    }

    mutating func end(_ result: Outcome) -> Ended? {
        guard outcome == nil else { return nil }
        let first = exchange(&first, with: nil)
        guard let contents = kept else {
            outcome = result
            return Ended(first: first)
        }
        contents.end(result)
        outcome = result
        return Ended(
            first: first, continuations: exchange(&contents.continuations, with: []),
            streams: Array(exchange(&contents.streams, with: [:]).values),
            preview: exchange(&contents.preview, with: nil))
    }

    // MARK: Listeners

    /// Returns the result if the task has ended; otherwise keeps the continuation.
    mutating func await(_ continuation: UnsafeContinuation<Outcome, Never>) -> Outcome? {
        if let outcome { return outcome }
        if first == nil { first = continuation } else { contents.continuations.append(continuation) }
        return nil
    }

    mutating func add(_ hook: TaskHook<Event.Output>) {
        contents.listeners.append(Listener(hook: .events(hook)))
    }

    mutating func add(preview body: @escaping @Sendable (Event.Preview) -> Void) {
        contents.listeners.append(Listener(hook: .preview(body)))
    }

    /// Tells a stream the present state before any other event.
    /// - Returns: the stream's number; `nil` if the task has ended, and with it the stream.
    mutating func add(_ stream: AsyncStream<Event>.Continuation, present: Event.State) -> Int? {
        stream.yield(.state(present))
        if let outcome {
            stream.yield(Entry.end(outcome).event)
            stream.finish()
            return nil
        }
        if let progress = contents.progress, contents.progressPlace == contents.entryCount {
            stream.yield(.progress(progress))
        }
        contents.nextStream += 1
        contents.streams[contents.nextStream] = stream
        return contents.nextStream
    }

    mutating func remove(stream number: Int) -> AsyncStream<Event>.Continuation? {
        kept?.streams.removeValue(forKey: number)
    }

    // MARK: Delivery

    /// Claims the delivery for the caller, who must then deliver until nothing is left.
    /// - Returns: `false` if a delivery is under way, or if there are no hooks.
    mutating func claimDelivery() -> Bool {
        guard let contents = kept, !contents.isDelivering, !contents.listeners.isEmpty else { return false }
        contents.isDelivering = true
        return true
    }

    /// Returns the next call, in the order of the events. After `nil` the delivery must be claimed anew.
    mutating func nextCall() -> (() -> Void)? {
        let contents = contents
        while let (listener, news) = contents.nextNews() {
            let hook = contents.listeners[listener].hook
            switch news {
            case .entry(let place):
                contents.listeners[listener].cursor = place + 1
                if let call = hook.call(with: contents.entries[place - contents.forgotten]) { return call }
            case .progress(let progress):
                contents.listeners[listener].progressHeard = contents.progressNumber
                if case .events(.progress(let body)) = hook { return { body(progress) } }
            case .preview(let preview):
                contents.listeners[listener].previewHeard = contents.previewNumber
                if case .preview(let body) = hook { return { body(preview) } }
            }
        }
        if outcome != nil, !contents.listeners.isEmpty {
            // All hooks have heard everything. Their closures are released outside the lock.
            let done = exchange(&contents.listeners, with: [])
            return { _ = done }
        }
        contents.isDelivering = false
        return nil
    }
}
