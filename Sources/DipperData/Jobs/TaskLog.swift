import Foundation

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

        /// The entry as an event of a stream.
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
        var continuations: [CheckedContinuation<Outcome, Never>]
        var streams: [AsyncStream<Event>.Continuation]
        /// The last preview, which the caller releases outside the lock.
        var preview: Event.Preview?
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
        /// The number of the next entry that the hook has not heard.
        var cursor = 0
        var progressHeard = 0
        var previewHeard = 0
    }

    private(set) var outcome: Outcome?
    /// The latest entries. Earlier ones are forgotten, because a call that retries for days must not remember each
    /// failure. ``forgotten`` counts them.
    private var entries: [Entry] = []
    private var forgotten = 0
    private var listeners: [Listener] = []
    /// The latest progress. It is told after the entries that were there when it came; earlier progress is dropped.
    private var progress: TaskProgress?
    private var progressNumber = 0
    private var progressPlace = 0
    private var preview: Event.Preview?
    private var previewNumber = 0
    private var previewPlace = 0
    private var continuations: [CheckedContinuation<Outcome, Never>] = []
    var streams: [Int: AsyncStream<Event>.Continuation] = [:]
    private var nextStream = 0
    private var isDelivering = false

    /// The number of failures and retries that are remembered for hooks that are added late or cannot keep up.
    static var mostEntries: Int { 64 }

    private var entryCount: Int { forgotten + entries.count }

    private mutating func remember(_ entry: Entry) {
        if entries.count == Self.mostEntries {
            entries.removeFirst()
            forgotten += 1
        }
        entries.append(entry)
    }

    // MARK: Events

    mutating func append(_ entry: Entry) -> [AsyncStream<Event>.Continuation] {
        guard outcome == nil else { return [] }
        remember(entry)
        return Array(streams.values)
    }

    mutating func set(_ progress: TaskProgress) -> [AsyncStream<Event>.Continuation] {
        guard outcome == nil else { return [] }
        self.progress = progress
        progressNumber += 1
        progressPlace = entryCount
        return Array(streams.values)
    }

    /// Takes a preview in place of the one before.
    /// - Returns: the streams to tell, and the preview before, which the caller releases outside the lock.
    mutating func set(_ new: Event.Preview) -> (streams: [AsyncStream<Event>.Continuation], old: Event.Preview?) {
        guard outcome == nil else { return ([], nil) }
        previewNumber += 1
        previewPlace = entryCount
        return (Array(streams.values), exchange(&preview, with: new))
    }

    /// Takes the end of the task.
    /// - Returns: the continuations and streams to tell; `nil` if the task had ended before.
    mutating func end(_ result: Outcome) -> Ended? {
        guard outcome == nil else { return nil }
        outcome = result
        if case .failure(let error) = result { remember(.failure(error, isFatal: true)) }
        remember(.end(result))
        return Ended(
            continuations: exchange(&continuations, with: []),
            streams: Array(exchange(&streams, with: [:]).values), preview: exchange(&preview, with: nil))
    }

    // MARK: Listeners

    /// Returns the result if the task has ended; otherwise keeps the continuation.
    mutating func await(
        _ continuation: CheckedContinuation<Outcome, Never>
    ) -> Outcome? {
        if let outcome { return outcome }
        continuations.append(continuation)
        return nil
    }

    mutating func add(_ hook: TaskHook<Event.Output>) {
        listeners.append(Listener(hook: .events(hook)))
    }

    mutating func add(preview body: @escaping @Sendable (Event.Preview) -> Void) {
        listeners.append(Listener(hook: .preview(body)))
    }

    /// Adds a stream and tells it the present state before any other event.
    /// - Returns: the stream's number; `nil` if the task has ended, and with it the stream.
    mutating func add(_ stream: AsyncStream<Event>.Continuation, present: Event.State) -> Int? {
        if let outcome {
            stream.yield(.state(present))
            stream.yield(Entry.end(outcome).event)
            stream.finish()
            return nil
        }
        stream.yield(.state(present))
        nextStream += 1
        streams[nextStream] = stream
        return nextStream
    }

    // MARK: Delivery

    /// Claims the delivery for the caller, who must then deliver until nothing is left.
    /// - Returns: false if a delivery is under way, or if there are no hooks.
    mutating func claimDelivery() -> Bool {
        guard !isDelivering, !listeners.isEmpty else { return false }
        isDelivering = true
        return true
    }

    /// Returns a call of the next hook with news that it has not heard, in the order of the events. After `nil` the
    /// delivery must be claimed anew.
    mutating func nextCall() -> (() -> Void)? {
        while let (listener, news) = nextNews() {
            let hook = listeners[listener].hook
            switch news {
            case .entry(let place):
                listeners[listener].cursor = place + 1
                if let call = hook.call(with: entries[place - forgotten]) { return call }
            case .progress(let progress):
                listeners[listener].progressHeard = progressNumber
                if case .events(.progress(let body)) = hook { return { body(progress) } }
            case .preview(let preview):
                listeners[listener].previewHeard = previewNumber
                if case .preview(let body) = hook { return { body(preview) } }
            }
        }
        if outcome != nil, !listeners.isEmpty {
            // All hooks have heard everything. Their closures are released outside the lock.
            let done = exchange(&listeners, with: [])
            return { _ = done }
        }
        isDelivering = false
        return nil
    }

    private enum News {
        case entry(Int)
        case progress(TaskProgress)
        case preview(Event.Preview)
    }

    /// Returns the earliest news that a hook has not heard.
    private func nextNews() -> (listener: Int, news: News)? {
        var next: (place: Int, listener: Int, news: News)?
        func consider(_ place: Int, _ listener: Int, _ news: News) {
            // The places of entries are odd, so that what came between two entries is told between them.
            if place < next?.place ?? .max { next = (place, listener, news) }
        }
        for index in listeners.indices {
            let listener = listeners[index]
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
