import Foundation

/// The handle of one call for a typed value: await its ``value``, add hooks, cancel it, change its queue or priority.
///
/// ```swift
/// let task = cache.getValue(Feed.self, from: url)
/// task.onFail { error, isFatal in if isFatal { print(error) } }
/// let feed = try await task.value
/// ```
///
/// ``FetchTask`` has the hooks and says when they are called. The call continues if the handle is released. A task ends
/// exactly once, with a value or an error.
public final class ValueTask<Value: Sendable>: FetchTask {
    /// The value and where its bytes came from.
    public typealias Response = ValueResponse<Value>
    /// The state of a task. A value that is being decoded counts as `waiting`.
    public typealias State = DataTask.State

    /// An event in the life of a task.
    public enum Event: Sendable {
        /// The state of the task when the stream was created. This event comes first.
        case state(DataTask.State)
        case progress(TaskProgress)
        /// A failure. If it is not fatal, the task waits and tries again.
        case failure(DipperError, isFatal: Bool)
        /// A new attempt begins.
        case retry
        case finished(ValueResponse<Value>)
    }

    /// The request of this call.
    public let request: DataRequest
    /// The key of the bytes that the value is decoded from.
    public let key: CacheKey
    /// The queue the call was made in.
    public let requestedQueue: FetchQueue
    private let callbackQueue: CallbackQueue
    private let feed = TaskFeed<Event>()
    private let call: ObjectCall<ValueMaker>

    init(_ request: DataRequest, key: CacheKey, queue: FetchQueue, callbackQueue: CallbackQueue) {
        self.request = request
        self.key = key
        requestedQueue = queue
        self.callbackQueue = callbackQueue
        call = ObjectCall(queue, request.priority)
    }

    // MARK: The result

    /// The value. Cancelling the Swift task that awaits it cancels this call.
    public var value: Value {
        get async throws(DipperError) { try await response.value }
    }

    /// The value, and where its bytes came from. Cancelling the Swift task that awaits it cancels this call.
    public var response: ValueResponse<Value> {
        get async throws(DipperError) {
            let result = await withTaskCancellationHandler {
                await withUnsafeContinuation { feed.wait($0) }
            } onCancel: {
                cancel()
            }
            return try result.get()
        }
    }

    // MARK: Events

    /// Adds a hook. The methods of ``FetchTask``, such as ``FetchTask/onEnd(_:)``, add hooks of each kind.
    public func add(_ hook: TaskHook<ValueResponse<Value>>) {
        if feed.add(hook, on: callbackQueue, { self.flush() }) { flush() }
    }

    /// The events of the task from now on, after its present state. The stream ends with the task.
    public var events: AsyncStream<Event> {
        feed.events(present: state) { [weak self] in self?.feed.forget(stream: $0) }
    }

    // MARK: Cancelling and moving

    /// Cancels this call, which ends with ``DipperError/cancelled``. The fetch goes on if other calls wait for it.
    public func cancel() {
        _ = call.cancel()
        // The value may be on its way from the cache.
        end(.failure(.cancelled))
    }

    /// Moves this call to `slowQueue`, where it is a prefetch. Nothing is started anew and no hook is lost.
    public func moveToSlowQueue() { call.moveToSlowQueue() }

    /// The priority of the call inside its queue. It can be changed while the call waits.
    public var priority: Priority {
        get { call.priority }
        set { call.priority = newValue }
    }

    /// The queue the call is in now, or was in when it ended.
    public var queue: FetchQueue { call.queue }

    /// The number of network attempts made so far for the bytes of the value.
    public var attempts: Int { call.attempts }

    /// The state of the task now.
    public var state: DataTask.State {
        switch feed.outcome {
        case .success: return .finished
        case .failure(let error): return .failed(error)
        case nil: break
        }
        guard case .fetching(let bytes)? = call.stage else { return .waiting }
        switch bytes.state {
        case .transferring: return .transferring
        case .paused: return .paused
        case .parked: return .parked
        case .waiting, .finished, .failed: return .waiting
        }
    }

    // MARK: Cache interface

    /// Has the cache make the value.
    func start(_ cache: ObjectCache<ValueMaker>, _ origin: FetchOrigin, _ step: ValueStep) {
        let end: @Sendable (Result<ObjectCache<ValueMaker>.Object, DipperError>) -> Void = { result in
            let bytes = (try? result.get())?.revalidation
            self.end(result, newer: bytes.map { self.newer(of: $0, cache, origin, step) })
        }
        let waiter = ObjectCache<ValueMaker>.Waiter((), end: end, tell: { self.hear($0) })
        call.begin(cache) { want in cache.ask(waiter, origin, [step], want, interest: .progress) }
    }

    /// Returns a task that ends with the value of newer bytes, when they have been fetched.
    private func newer(
        of bytes: DataTask, _ cache: ObjectCache<ValueMaker>, _ origin: FetchOrigin, _ step: ValueStep
    ) -> ValueTask {
        let task = ValueTask(request, key: key, queue: .slow, callbackQueue: callbackQueue)
        bytes.onEnd { result in
            switch result {
            case .success: task.start(cache, origin, step)
            case .failure(let error): task.end(.failure(error))
            }
        }
        return task
    }

    func end(_ result: Result<ObjectCache<ValueMaker>.Object, DipperError>, newer: ValueTask? = nil) {
        let outcome = result.flatMap { object -> Result<ValueResponse<Value>, DipperError> in
            // The step has the type of the value.
            guard let value = object.product.value as? Value else { return .failure(.undecodable) }
            return .success(ValueResponse(value, object, revalidation: newer))
        }
        if feed.end(outcome, on: callbackQueue, { self.flush() }) { Afterwards.run { self.flush() } }
        call.end(attempts: (try? outcome.get())?.attempts)
    }

    private func hear(_ news: FetchNews) {
        let flush: @Sendable () -> Void = { self.flush() }
        let flushes: Bool =
            switch news {
            case .failure(let error): feed.fail(error, on: callbackQueue, flush)
            case .retry: feed.retry(on: callbackQueue, flush)
            case .progress(let progress): feed.progress(progress, on: callbackQueue, flush)
            case .ended, .moved: false
            }
        call.note(news)
        if flushes { Afterwards.run(flush) }
    }

    private func flush() { feed.flush() }
}

extension ValueTask.Event: TaskEvent {
    package typealias Output = ValueResponse<Value>
    package typealias State = DataTask.State
    package typealias Preview = Never
}

extension ValueTask: RedactedStringConvertible {}
