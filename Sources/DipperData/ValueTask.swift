import Foundation

/// The handle of one call for a typed value: await its ``value``, add hooks, cancel it, change its queue or priority.
///
/// ```swift
/// let task = cache.getValue(Feed.self, from: url)
/// task.onEnd { result in if case .failure(let error) = result { print(error) } }
/// let feed = try await task.value
/// ```
///
/// ``FetchTask`` has the hooks and says when they are called. The call continues if the handle is released. A task ends
/// exactly once, with a value or an error.
public final class ValueTask<Value: Sendable>: FetchTask, ObjectTask, RedactedStringConvertible {
    /// The value and where its bytes came from.
    public typealias Response = ValueResponse<Value>

    /// An event in the life of a task.
    public enum Event: Sendable, TaskEvent {
        /// The state of the task when the stream was created. This event comes first.
        case state(TaskState)
        case progress(TaskProgress)
        /// An answer that came before the final one.
        case interim(InterimResponse)
        /// A failure. If it is not fatal, the task waits and tries again.
        case failure(DipperError, isFatal: Bool)
        /// A new attempt begins, after a failure.
        case retry(after: DipperError)
        case finished(ValueResponse<Value>)

        package typealias Output = ValueResponse<Value>
        package typealias Preview = Never
    }

    /// The request of this call.
    public let request: DataRequest
    /// The key of the bytes that the value is decoded from.
    public let key: CacheKey
    /// The queue the call was made in.
    public let requestedQueue: FetchQueue
    package let callbackQueue: CallbackQueue
    private let feed: TaskFeed<Event>

    init(_ request: DataRequest, key: CacheKey, queue: FetchQueue, callbackQueue: CallbackQueue) {
        self.request = request
        self.key = key
        requestedQueue = queue
        self.callbackQueue = callbackQueue
        feed = TaskFeed(priority: request.priority, queue: queue)
    }

    /// The value. Cancelling the Swift task that awaits it cancels this call.
    public var value: Value {
        get async throws { try await response.value }
    }

    /// The value, and where its bytes came from. Cancelling the Swift task that awaits it cancels this call.
    public var response: ValueResponse<Value> {
        get async throws { try await awaited }
    }

    /// Adds a hook. The methods of ``FetchTask``, such as ``FetchTask/onEnd(_:)``, add hooks of each kind.
    public func add(_ hook: TaskHook<ValueResponse<Value>>) {
        feed.add(hook, for: self)
    }

    /// The events of the task from now on, after its present state. The stream ends with the task.
    public var events: AsyncStream<Event> {
        feed.events(present: state) { [weak self] in self?.feed.forget($0) }
    }

    /// The arrival of the bytes, as ``FetchTask/progress`` describes.
    public var progress: AsyncStream<TaskProgress> {
        feed.progress { [weak self] in self?.feed.forget($0) }
    }

    /// Cancels this call, which ends with ``DipperError/cancelled``. The fetch goes on if other calls wait for it.
    public func cancel() {
        feed.cancel()
        // The value may be on its way from the cache.
        end(.failure(.cancelled))
    }

    /// Moves this call to `slowQueue`, where it is a prefetch. Nothing is started anew and no hook is lost.
    public func moveToSlowQueue() { feed.moveToSlowQueue() }

    /// The priority of the call inside its queue. It can be changed while the call waits.
    public var priority: Priority {
        get { feed.priority }
        set { feed.setPriority(newValue) }
    }

    /// The queue the call is in now, or was in when it ended.
    public var queue: FetchQueue { feed.queue }

    /// The number of network attempts made so far for the bytes of the value.
    public var attempts: Int { feed.attempts }

    /// The state of the task now.
    public var state: TaskState { presentState }

    package func withFeed<Answer>(_ body: (borrowing TaskFeed<Event>) -> Answer) -> Answer { body(feed) }

    package func end(_ result: Result<MadeObject, DipperError>, _ renewal: Making?) {
        let newer = renewal.map { renewal in
            let newer = ValueTask(request, key: key, queue: .slow, callbackQueue: callbackQueue)
            ObjectCall.start(newer, renewal)
            return newer
        }
        end(result.map { ValueResponse($0.product.value(), $0.basis, revalidation: newer) })
    }

    package func show(_ preview: Product) {}
    package func choose(_ request: DataRequest, _ key: CacheKey) {}
}

/// The answer to a call for a typed value: the value, and where its bytes came from.
public struct ValueResponse<Value: Sendable>: FetchResponse, RedactedStringConvertible {
    /// The task of a call for a value.
    public typealias Handle = ValueTask<Value>

    /// The value.
    public let value: Value
    /// The tier that answered: `memory` if the value, or its bytes, were in memory.
    public let source: ResponseSource
    /// The source that was asked, before redirects; see ``FetchResponse/askedSource``.
    public let askedSource: DataRequest.Source?
    /// The http or https URL that the bytes came from, after redirects; `nil` for bytes of a provider, of a `file:` or
    /// `data:` URL, and for bytes that the program added under a key alone.
    public var url: URL? { info.source }
    /// The status that the server answered with when the bytes were fetched.
    public var status: Int { info.status }
    /// The header fields of the answer that the bytes came with.
    public var headers: HTTPHeaders { info.headers }
    private let info: EntryInfo
    /// The number of network attempts made for the bytes; 0 if the cache answered.
    public let attempts: Int
    /// The times and sizes of the last attempt; `nil` if the cache answered.
    public let metrics: TransferMetrics?
    /// The prefetch of a newer value, if this one is out of date but may be used meanwhile; otherwise `nil`.
    public let revalidation: ValueTask<Value>?

    init(_ value: Value, _ basis: Provenance, revalidation: ValueTask<Value>?) {
        self.value = value
        (source, askedSource) = (basis.source, basis.asked)
        info = basis.info
        attempts = basis.attempts
        metrics = basis.metrics
        self.revalidation = revalidation
    }

    /// The status, and the tier that answered.
    public var description: String { "\(status) from \(source.rawValue)" }
}
