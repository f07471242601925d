import Foundation
import Synchronization

/// Delivers a task's events to continuations, streams and closures, one closure at a time.
///
/// Each closure `flush` that a method takes must call ``flush(on:)``. It runs on the callback queue.
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

    package func end(_ result: Outcome, on queue: CallbackQueue, _ flush: @escaping @Sendable () -> Void) {
        let ended = log.withLock { $0.end(result) }
        guard let ended else { return }
        if ended.isAwaited { Afterwards.wake { ended.tell(result) } }
        deliver(on: queue, flush)
    }

    package func hear(_ news: FetchNews, on queue: CallbackQueue, _ flush: @escaping @Sendable () -> Void) {
        switch news {
        case .failure(let error): tell(.failure(error, isFatal: false), on: queue, flush)
        case .retry: tell(.retry, on: queue, flush)
        case .progress(let progress): tell(.progress(progress), on: queue, flush)
        }
    }

    package func preview(
        _ preview: Event.Preview, on queue: CallbackQueue, _ flush: @escaping @Sendable () -> Void
    ) {
        tell(.preview(preview), on: queue, flush)
    }

    private func tell(
        _ item: TaskLog<Event>.Item, on queue: CallbackQueue, _ flush: @escaping @Sendable () -> Void
    ) {
        let (streams, replaced) = log.withLock { $0.add(item) }
        withExtendedLifetime(replaced) {}
        for stream in streams { stream.yield(item.event) }
        deliver(on: queue, flush)
    }

    package func add(
        _ hook: TaskHook<Event.Output>, on queue: CallbackQueue, _ flush: @escaping @Sendable () -> Void
    ) {
        log.withLock { $0.listen(.events(hook)) }
        deliver(on: queue, flush)
    }

    package func add(
        preview body: @escaping @Sendable (Event.Preview) -> Void, on queue: CallbackQueue,
        _ flush: @escaping @Sendable () -> Void
    ) {
        log.withLock { $0.listen(.preview(body)) }
        deliver(on: queue, flush)
    }

    @inline(__always)
    private func deliver(on queue: CallbackQueue, _ flush: @escaping @Sendable () -> Void) {
        guard log.withLock({ $0.claimDelivery() }) else { return }
        queue.pending?.begin()
        switch queue.kind {
        case .inPlace: Afterwards.run(flush)
        case .dispatch(let queue): Afterwards.wake(on: queue, flush)
        case .custom(let run): Afterwards.run { run(flush) }
        }
    }

    package func flush(on queue: CallbackQueue) {
        while let call = log.withLock({ $0.nextCall() }) { call() }
        queue.pending?.end()
    }
}

package enum FetchNews: Sendable {
    /// An attempt has failed. The fetch waits and tries again.
    case failure(DipperError)
    case retry
    case progress(TaskProgress)
}

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
    enum Item: Sendable {
        case failure(DipperError, isFatal: Bool)
        case retry
        case progress(TaskProgress)
        case preview(Event.Preview)
        case end(Outcome)

        var event: Event {
            switch self {
            case .failure(let error, let isFatal): .failure(error, isFatal: isFatal)
            case .retry: .retry
            case .progress(let progress): .progress(progress)
            case .preview(let preview): .preview(preview)
            case .end(.success(let output)): .finished(output)
            case .end(.failure(let error)): .failure(error, isFatal: true)
            }
        }

        /// Whether hooks that have not heard the item hear only the latest one of its kind.
        var isReplaceable: Bool {
            switch self {
            case .progress, .preview: true
            case .failure, .retry, .end: false
            }
        }

        func replaces(_ other: Item) -> Bool {
            switch (self, other) {
            // Previews do not outlive the task.
            case (.progress, .progress), (.preview, .preview), (.end, .preview): true
            default: false
            }
        }
    }

    struct Ended {
        var first: UnsafeContinuation<Outcome, Never>?
        var continuations: [UnsafeContinuation<Outcome, Never>] = []
        var streams: [AsyncStream<Event>.Continuation] = []
        var preview: Item?

        var isAwaited: Bool { first != nil || !streams.isEmpty || preview != nil }

        func tell(_ result: Outcome) {
            first?.resume(returning: result)
            for continuation in continuations { continuation.resume(returning: result) }
            for stream in streams {
                stream.yield(Item.end(result).event)
                stream.finish()
            }
        }
    }

    enum Hook {
        case events(TaskHook<Event.Output>)
        case preview(@Sendable (Event.Preview) -> Void)

        func call(with item: Item) -> (() -> Void)? {
            switch (self, item) {
            case (.events(.end(let body)), .end(let result)): { body(result) }
            case (.events(.failure(let body)), .failure(let error, let isFatal)): { body(error, isFatal) }
            case (.events(.retry(let body)), .retry): { body() }
            case (.events(.progress(let body)), .progress(let progress)): { body(progress) }
            case (.preview(let body), .preview(let preview)): { body(preview) }
            default: nil
            }
        }
    }

    private struct Listener {
        let hook: Hook
        var heard = 0
    }

    /// The part that a task has only if somebody listens to it, or if it has failed.
    private final class Contents {
        var items: [(number: Int, item: Item)] = []
        var lastNumber = 0
        var listeners: [Listener] = []
        var continuations: [UnsafeContinuation<Outcome, Never>] = []
        var streams: [Int: AsyncStream<Event>.Continuation] = [:]
        var nextStream = 0
        var isDelivering = false

        init(after outcome: Outcome?) {
            if let outcome { _ = end(outcome) }
        }

        func add(_ item: Item) -> Item? {
            var replaced: Item?
            if let place = items.firstIndex(where: { item.replaces($0.item) }) {
                replaced = items.remove(at: place).item
            } else if !item.isReplaceable, items.count(where: { !$0.item.isReplaceable }) == mostItems,
                let oldest = items.firstIndex(where: { !$0.item.isReplaceable })
            {
                items.remove(at: oldest)
            }
            lastNumber += 1
            items.append((lastNumber, item))
            return replaced
        }

        func end(_ outcome: Outcome) -> Item? {
            if case .failure(let error) = outcome { _ = add(.failure(error, isFatal: true)) }
            return add(.end(outcome))
        }

        var progress: TaskProgress? {
            for (_, item) in items.reversed() {
                switch item {
                case .progress(let progress): return progress
                case .preview: continue
                case .failure, .retry, .end: return nil
                }
            }
            return nil
        }

        func nextItem() -> (listener: Int, number: Int, item: Item)? {
            var next: (listener: Int, number: Int, item: Item)?
            for (index, listener) in listeners.enumerated() {
                guard let (number, item) = items.first(where: { $0.number > listener.heard }) else { continue }
                if number < next?.number ?? .max { next = (index, number, item) }
            }
            return next
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

    /// The number of failures and retries kept for late hooks: a call that retries for days must not remember each.
    static var mostItems: Int { 64 }

    // MARK: Events

    /// - Returns: the streams to tell, and the item that is replaced, which the caller releases outside the lock.
    mutating func add(_ item: Item) -> (streams: [AsyncStream<Event>.Continuation], replaced: Item?) {
        guard outcome == nil else { return ([], nil) }
        let contents = contents
        if case .progress(let progress) = item, progress == contents.progress { return ([], nil) }
        let replaced = contents.add(item)
        return (Array(contents.streams.values), replaced)
    }

    mutating func end(_ result: Outcome) -> Ended? {
        guard outcome == nil else { return nil }
        outcome = result
        let first = exchange(&first, with: nil)
        guard let contents = kept else { return Ended(first: first) }
        let preview = contents.end(result)
        return Ended(
            first: first, continuations: exchange(&contents.continuations, with: []),
            streams: Array(exchange(&contents.streams, with: [:]).values), preview: preview)
    }

    // MARK: Listeners

    mutating func await(_ continuation: UnsafeContinuation<Outcome, Never>) -> Outcome? {
        if let outcome { return outcome }
        if first == nil { first = continuation } else { contents.continuations.append(continuation) }
        return nil
    }

    mutating func listen(_ hook: Hook) { contents.listeners.append(Listener(hook: hook)) }

    /// - Returns: the stream's number; `nil` if the task has ended, and with it the stream.
    mutating func add(_ stream: AsyncStream<Event>.Continuation, present: Event.State) -> Int? {
        stream.yield(.state(present))
        if let outcome {
            stream.yield(Item.end(outcome).event)
            stream.finish()
            return nil
        }
        let contents = contents
        if let progress = contents.progress { stream.yield(.progress(progress)) }
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

    /// Returns the next call, in the order of the events; after `nil` the delivery must be claimed again.
    mutating func nextCall() -> (() -> Void)? {
        let contents = contents
        while let (listener, number, item) = contents.nextItem() {
            let hook = contents.listeners[listener].hook
            contents.listeners[listener].heard = number
            if let call = hook.call(with: item) { return call }
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
