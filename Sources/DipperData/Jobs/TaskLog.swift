import Foundation

/// What a kind of task tells.
package protocol TaskEvent: Sendable {
    associatedtype Output: Sendable
    associatedtype State: Sendable
    /// What there is to see before the end.
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

/// What has happened to a task, and who has heard how much of it. Decides which hook is called next; calls none.
struct TaskLog<Event: TaskEvent> {
    typealias Outcome = Result<Event.Output, DipperError>

    /// Something that every hook of its kind hears, also one that comes later.
    enum Entry: Sendable {
        case failure(DipperError, isFatal: Bool)
        case retry
        case end(Outcome)

        /// The same for a stream.
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
        /// What nobody is to see any more, to be let go of without the lock.
        var preview: Event.Preview?
    }

    private struct Listener {
        let hook: TaskHook<Event>
        /// The next entry it has not heard.
        var cursor = 0
        var progressHeard = 0
        var previewHeard = 0
    }

    private(set) var outcome: Outcome?
    /// The latest entries, and how many have been forgotten before them: a call that tries again and again for days must
    /// not remember each time.
    private var entries: [Entry] = []
    private var forgotten = 0
    private var listeners: [Listener] = []
    /// The latest progress, told after the entries that were there when it came; earlier progress is dropped.
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

    /// Failures and retries that are remembered for hooks that come late or cannot keep up.
    static var mostEntries: Int { 64 }

    private var entryCount: Int { forgotten + entries.count }

    private mutating func remember(_ entry: Entry) {
        if entries.count == Self.mostEntries {
            entries.removeFirst()
            forgotten += 1
        }
        entries.append(entry)
    }

    // MARK: News

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

    /// The preview it takes the place of is to be let go of without the lock.
    mutating func set(_ new: Event.Preview) -> (streams: [AsyncStream<Event>.Continuation], old: Event.Preview?) {
        guard outcome == nil else { return ([], nil) }
        previewNumber += 1
        previewPlace = entryCount
        return (Array(streams.values), exchange(&preview, with: new))
    }

    /// `nil` if the task had ended before.
    mutating func end(_ result: Outcome) -> Ended? {
        guard outcome == nil else { return nil }
        outcome = result
        if case .failure(let error) = result { remember(.failure(error, isFatal: true)) }
        remember(.end(result))
        return Ended(
            continuations: exchange(&continuations, with: []),
            streams: Array(exchange(&streams, with: [:]).values), preview: exchange(&preview, with: nil))
    }

    // MARK: Listening

    /// The result, if it is there; else the continuation is kept.
    mutating func await(
        _ continuation: CheckedContinuation<Outcome, Never>
    ) -> Outcome? {
        if let outcome { return outcome }
        continuations.append(continuation)
        return nil
    }

    mutating func add(_ hook: TaskHook<Event>) {
        listeners.append(Listener(hook: hook))
    }

    /// Primes the stream with the present state, before it can hear anything else. `nil` if it has ended with it.
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

    /// True for the one who is to deliver now; whoever delivers goes on until nothing is left.
    mutating func claimDelivery() -> Bool {
        guard !isDelivering, !listeners.isEmpty else { return false }
        isDelivering = true
        return true
    }

    /// The next hook to call with what it has not heard, in the order of what happened. After `nil` the delivery
    /// must be claimed anew.
    mutating func nextCall() -> (() -> Void)? {
        while let (listener, news) = nextNews() {
            let hook = listeners[listener].hook
            switch news {
            case .entry(let place):
                listeners[listener].cursor = place + 1
                if let call = hook.call(with: entries[place - forgotten]) { return call }
            case .progress(let progress):
                listeners[listener].progressHeard = progressNumber
                if case .progress(let body) = hook { return { body(progress) } }
            case .preview(let preview):
                listeners[listener].previewHeard = previewNumber
                if case .preview(let body) = hook { return { body(preview) } }
            }
        }
        if outcome != nil, !listeners.isEmpty {
            // Everyone has heard everything: the closures go, outside the lock.
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

    /// The earliest of what a listener has not heard.
    private func nextNews() -> (listener: Int, news: News)? {
        var next: (place: Int, listener: Int, news: News)?
        func consider(_ place: Int, _ listener: Int, _ news: News) {
            // Places of entries are odd: what came between two of them is told between them.
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

/// A closure that hears of a task.
package enum TaskHook<Event: TaskEvent>: Sendable {
    case end(@Sendable (Result<Event.Output, DipperError>) -> Void)
    case failure(@Sendable (DipperError, Bool) -> Void)
    case retry(@Sendable () -> Void)
    case progress(@Sendable (TaskProgress) -> Void)
    case preview(@Sendable (Event.Preview) -> Void)

    fileprivate func call(with entry: TaskLog<Event>.Entry) -> (() -> Void)? {
        switch (self, entry) {
        case (.end(let body), .end(let result)): { body(result) }
        case (.failure(let body), .failure(let error, let isFatal)): { body(error, isFatal) }
        case (.retry(let body), .retry): { body() }
        default: nil
        }
    }
}
