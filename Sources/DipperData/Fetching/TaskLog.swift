import Foundation

/// What has happened to a task, and who has heard how much of it. Decides which hook is called next; calls none.
struct TaskLog {
    /// Something that every hook of its kind hears, also one that comes later.
    enum Entry: Sendable {
        case failure(DipperError, isFatal: Bool)
        case retry
        case end(Result<DataResponse, DipperError>)

        /// The same for a stream.
        var event: DataTask.Event {
            switch self {
            case .failure(let error, let isFatal): .failure(error, isFatal: isFatal)
            case .retry: .retry
            case .end(.success(let response)): .finished(response)
            case .end(.failure(let error)): .failure(error, isFatal: true)
            }
        }
    }

    enum Hook {
        case end(@Sendable (Result<DataResponse, DipperError>) -> Void)
        case failure(@Sendable (DipperError, Bool) -> Void)
        case retry(@Sendable () -> Void)
        case progress(@Sendable (TaskProgress) -> Void)
    }

    struct Ended {
        var continuations: [CheckedContinuation<Result<DataResponse, DipperError>, Never>]
        var streams: [AsyncStream<DataTask.Event>.Continuation]
    }

    private struct Listener {
        let hook: Hook
        /// The next entry it has not heard.
        var cursor = 0
        var progressHeard = 0
    }

    private(set) var outcome: Result<DataResponse, DipperError>?
    private var entries: [Entry] = []
    private var listeners: [Listener] = []
    private var progress: TaskProgress?
    private var progressNumber = 0
    private var continuations: [CheckedContinuation<Result<DataResponse, DipperError>, Never>] = []
    var streams: [Int: AsyncStream<DataTask.Event>.Continuation] = [:]
    private var nextStream = 0
    private var isDelivering = false

    // MARK: News

    mutating func append(_ entry: Entry) -> [AsyncStream<DataTask.Event>.Continuation] {
        guard outcome == nil else { return [] }
        entries.append(entry)
        return Array(streams.values)
    }

    mutating func set(_ progress: TaskProgress) -> [AsyncStream<DataTask.Event>.Continuation] {
        guard outcome == nil else { return [] }
        self.progress = progress
        progressNumber += 1
        return Array(streams.values)
    }

    /// `nil` if the task had ended before.
    mutating func end(_ result: Result<DataResponse, DipperError>) -> Ended? {
        guard outcome == nil else { return nil }
        outcome = result
        if case .failure(let error) = result { entries.append(.failure(error, isFatal: true)) }
        entries.append(.end(result))
        return Ended(
            continuations: exchange(&continuations, with: []),
            streams: Array(exchange(&streams, with: [:]).values))
    }

    // MARK: Listening

    /// The result, if it is there; else the continuation is kept.
    mutating func await(
        _ continuation: CheckedContinuation<Result<DataResponse, DipperError>, Never>
    ) -> Result<DataResponse, DipperError>? {
        if let outcome { return outcome }
        continuations.append(continuation)
        return nil
    }

    mutating func add(_ hook: Hook) {
        listeners.append(Listener(hook: hook))
    }

    /// Primes the stream with the present state, before it can hear anything else. `nil` if it has ended with it.
    mutating func add(_ stream: AsyncStream<DataTask.Event>.Continuation, present: DataTask.State) -> Int? {
        if let outcome {
            stream.yield(.state(outcome.isSuccess ? .finished : present))
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
        while let behind = listeners.indices.filter({ listeners[$0].cursor < entries.count })
            .min(by: { listeners[$0].cursor < listeners[$1].cursor })
        {
            // Progress comes before the end that follows it.
            if let call = nextProgressCall() { return call }
            let entry = entries[listeners[behind].cursor]
            listeners[behind].cursor += 1
            if let call = listeners[behind].hook.call(with: entry) { return call }
        }
        if let call = nextProgressCall() { return call }
        if outcome != nil, !listeners.isEmpty {
            // Everyone has heard everything: the closures go, outside the lock.
            let done = exchange(&listeners, with: [])
            return { _ = done }
        }
        isDelivering = false
        return nil
    }

    private mutating func nextProgressCall() -> (() -> Void)? {
        guard let progress else { return nil }
        for index in listeners.indices where listeners[index].progressHeard < progressNumber {
            listeners[index].progressHeard = progressNumber
            if case .progress(let body) = listeners[index].hook { return { body(progress) } }
        }
        return nil
    }
}

extension TaskLog.Hook {
    fileprivate func call(with entry: TaskLog.Entry) -> (() -> Void)? {
        switch (self, entry) {
        case (.end(let body), .end(let result)): { body(result) }
        case (.failure(let body), .failure(let error, let isFatal)): { body(error, isFatal) }
        case (.retry(let body), .retry): { body() }
        default: nil
        }
    }
}

extension Result {
    fileprivate var isSuccess: Bool {
        if case .success = self { true } else { false }
    }
}
