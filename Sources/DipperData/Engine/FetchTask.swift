import Foundation

/// The handle of one call: await its result, add hooks, cancel it, change its queue or priority.
///
/// A call for bytes has a ``DataTask``, a call for a typed value a ``ValueTask``, a call for a picture an `ImageTask`.
/// The protocol has the members that all share. Two tasks are equal if they are one instance. The description of a task
/// contains no secrets.
///
/// The call continues if the handle is released. A task ends exactly once, with a result or an error. Hooks that are
/// added late, even after the end, first receive the events that they missed, in order; of many failures, retries and
/// interim answers only the latest 64.
///
/// Hooks are called in the order of the events, the end last. A closure runs on the task's callback queue
/// (``CallbackQueue``), but one that is written in a class of the main actor runs on the main actor, and may use its
/// members:
///
/// ```swift
/// @MainActor final class PhotoController {
///     let (cache, view) = (ImageCache.shared, PhotoView())
///
///     func load(_ url: URL) {
///         cache.getImage(url) { image in self.view.image = image }
///     }
/// }
/// ```
///
/// A closure in a method of another actor runs on that actor, where events may overtake each other. The top
/// level of a `main.swift` belongs to the main actor: a program that blocks the main thread there, instead of awaiting
/// a task, does not get its closures called.
///
/// Code that awaits ``value`` may continue before or after the hooks are called. To continue after all hooks, use
/// ``onEnd(_:)``.
public protocol FetchTask<Value>: AnyObject, Hashable, Sendable, CustomStringConvertible {
    /// The type of the result: `Data`, `Image`, or the type of a typed value.
    associatedtype Value
    /// The type of the result with its origin, such as ``DataResponse`` or `ImageResponse`.
    associatedtype Response: FetchResponse where Response.Value == Value, Response.Handle == Self
    /// The type of the elements of ``events``.
    associatedtype Event: Sendable

    /// The key by which the bytes are deduplicated and cached.
    var key: CacheKey { get }
    /// The queue in which the call was made.
    var requestedQueue: FetchQueue { get }
    /// The queue that the call is in now, or was in when it ended.
    var queue: FetchQueue { get }
    /// The order of the call inside its queue. It may be changed while the call waits.
    var priority: Priority { get set }
    /// The number of network attempts made so far for the bytes that this call waits for.
    var attempts: Int { get }
    /// The present state of the task.
    var state: TaskState { get }
    /// The events of the task from now on, after its present state. The stream ends with the task.
    var events: AsyncStream<Event> { get }
    /// The arrival of bytes: the latest progress, then each further one until the task ends, and with it the sequence. A
    /// reader that falls behind gets the latest progress.
    ///
    /// ```swift
    /// for await progress in task.progress { print(progress.fraction) }
    /// print(try await task.value)
    /// ```
    var progress: AsyncStream<TaskProgress> { get }

    /// The bytes or the picture. Cancelling the Swift task that awaits the property cancels this call.
    ///
    /// Every error is a ``DipperError``, also ``DipperError/cancelled`` for a cancelled Swift task. The property does
    /// not say so in its type, because Swift 6.3 crashes at common forms of `catch` for errors of a named type. For
    /// errors of that type, await ``result``.
    /// - Throws: ``DipperError``.
    var value: Value { get async throws }
    /// The result and its origin. Cancelling the Swift task that awaits the property cancels this call.
    /// - Throws: ``DipperError``; see ``value``.
    var response: Response { get async throws }

    /// Ends this call with ``DipperError/cancelled``. The work continues if other calls wait for it.
    func cancel()
    /// Turns this call into a prefetch. A transfer in progress is not restarted, and hooks stay in place.
    func moveToSlowQueue()

    /// Adds a hook; see ``onEnd(_:)`` and its neighbours.
    func add(_ hook: TaskHook<Response>)
}

extension FetchTask {
    /// The result of the task, once it has ended. Cancelling the Swift task that awaits the property cancels this call.
    ///
    /// ```swift
    /// switch await task.result {
    /// case .success(let value): print(value)
    /// case .failure(let error): print(error)
    /// }
    /// ```
    public var result: Result<Value, DipperError> {
        get async {
            do { return .success(try await value) } catch { return .failure(DipperError(error, as: .transport)) }
        }
    }

    // MARK: Hooks

    /// Calls a closure with the bytes or the picture when the task ends with success, and never if the call fails; see
    /// ``onEnd(_:)``.
    ///
    /// ```swift
    /// task.onProgress { progress in print(progress.fraction) }
    ///     .then { value in print(value) }
    /// ```
    @discardableResult
    public func then(@_inheritActorContext _ body: @escaping @Sendable @isolated(any) (Value) -> Void) -> Self {
        let body = onItsActor(body)
        return onEnd { result in
            if case .success(let response) = result { body(response.value) }
        }
    }

    /// Calls a closure once when the task ends, with its response or its error: the place for a message that a call has
    /// failed.
    ///
    /// ```swift
    /// task.onEnd { result in
    ///     switch result {
    ///     case .success(let response): print(response.source)
    ///     case .failure(let error): print(error)
    ///     }
    /// }
    /// ```
    @discardableResult
    public func onEnd(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (Result<Response, DipperError>) -> Void
    ) -> Self {
        add(.end(onItsActor(body)))
        return self
    }

    /// Calls a closure just before each new attempt, with the failure that the attempt follows.
    ///
    /// ```swift
    /// task.onRetry { error in print("once more, after", error.shortDescription) }
    /// ```
    @discardableResult
    public func onRetry(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (_ error: DipperError) -> Void
    ) -> Self {
        add(.retry(onItsActor(body)))
        return self
    }

    /// Calls a closure just before each new attempt after a failure.
    @discardableResult
    public func onRetry(@_inheritActorContext _ body: @escaping @Sendable @isolated(any) () -> Void) -> Self {
        let body = onItsActor(body)
        add(.retry { _ in body() })
        return self
    }

    /// Calls a closure at each failure: the task waits to try again or, if `isFatal` is `true`, ends. To hear of the end
    /// alone, use ``onEnd(_:)``.
    ///
    /// A cancelled call fails too, fatally, with ``DipperError/cancelled``:
    ///
    /// ```swift
    /// task.onFail { error, isFatal in
    ///     if error.isCancelled { return }
    ///     print(isFatal ? "given up:" : "waits:", error)
    /// }
    /// ```
    @discardableResult
    public func onFail(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (_ error: DipperError, _ isFatal: Bool) -> Void
    ) -> Self {
        add(.failure(onItsActor(body)))
        return self
    }

    /// Calls a closure as bytes arrive, at most once per ``DataRequest/progressInterval``, and with the last bytes. The
    /// closure is not called if no body comes from the network: if memory, disk or a provider answers, or the server
    /// confirms the entry.
    ///
    /// ```swift
    /// task.onProgress { progress in
    ///     if progress.expected != nil { print(progress.fraction) } else { print(progress.received, "bytes") }
    /// }
    /// ```
    @discardableResult
    public func onProgress(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (TaskProgress) -> Void
    ) -> Self {
        add(.progress(onItsActor(body)))
        return self
    }

    /// Calls a closure with each answer that the server sends before the final one (RFC 9110, section 15.2), such as 103
    /// Early Hints. Nothing of it is kept, and a call that joins the fetch later does not hear of it. By the rules of a
    /// shared cache (``FreshnessPolicy/shared(defaultFreshness:)``) the call alone hears that the server was asked for.
    ///
    /// ```swift
    /// task.onInterim { response in print(response.status, response.headers["Link"] ?? "") }
    /// ```
    @discardableResult
    public func onInterim(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (InterimResponse) -> Void
    ) -> Self {
        add(.interim(onItsActor(body)))
        return self
    }

    /// Calls a closure when a newer result has been fetched, or could not be fetched, after the task was answered with
    /// a result that is out of date (`stale-while-revalidate`). See ``FetchResponse/revalidation``.
    ///
    /// ```swift
    /// task.then { value in print(value) }
    ///     .onRevalidate { newer in if case .success(let response) = newer { print(response.value) } }
    /// ```
    @discardableResult
    public func onRevalidate(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (Result<Response, DipperError>) -> Void
    ) -> Self {
        let body = onItsActor(body)
        return onEnd { result in
            if case .success(let response) = result { response.revalidation?.onEnd(body) }
        }
    }

    // MARK: Identity and description

    /// Returns whether two handles are the same task.
    // mutant Hook|Cancelling: `a === b }` => `a.key == b.key }`
    public static func == (a: Self, b: Self) -> Bool { a === b }

    /// Hashes the identity of the task.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }

    /// The key without secrets, the queue, and the state of the task.
    public var description: String { "\(key) \(queue.rawValue) \(state)" }
}

/// A closure that a task calls with its events. ``FetchTask`` has a method for each kind of hook.
public enum TaskHook<Response: Sendable>: Sendable {
    /// A closure for the end; see ``FetchTask/onEnd(_:)``.
    case end(@Sendable (Result<Response, DipperError>) -> Void)
    /// A closure for each failure; see ``FetchTask/onFail(_:)``.
    case failure(@Sendable (DipperError, Bool) -> Void)
    /// A closure for each new attempt; see `onRetry`.
    case retry(@Sendable (DipperError) -> Void)
    /// A closure for the arrival of bytes; see ``FetchTask/onProgress(_:)``.
    case progress(@Sendable (TaskProgress) -> Void)
    /// A closure for answers before the final one; see ``FetchTask/onInterim(_:)``.
    case interim(@Sendable (InterimResponse) -> Void)
}

/// The answer to a call: the bytes, and where they came from.
///
/// ```swift
/// let response = try await cache.getData(url).response
/// print(response.status, response.source, response.headers["Content-Type"] ?? "no type")
/// ```
public struct DataResponse: FetchResponse {
    /// The task of the call.
    public typealias Handle = DataTask
    /// The type of the body.
    public typealias Value = Data

    /// The body, byte for byte.
    public var data: Data { stored.data }
    /// The body, by the name that all responses have.
    public var value: Data { data }
    /// The tier that answered.
    public let source: ResponseSource
    /// The source that was asked, before redirects; see ``FetchResponse/askedSource``.
    public var askedSource: DataRequest.Source? { extras.asked }
    /// The answer as the tiers keep it.
    let stored: StoredData
    package var info: EntryInfo { stored.info }
    private let extras: ResponseExtras<DataTask>

    /// The http or https URL that the bytes came from, after redirects; `nil` for bytes of a provider, of a `file:` or
    /// `data:` URL, and for bytes that the program added under a key alone.
    public var url: URL? { info.source }
    /// The status that the server answered with when the bytes were fetched; 200 for entries that the caller added.
    public var status: Int { info.status }
    /// The header fields of the answer that the bytes came with, updated when the server confirmed the answer.
    public var headers: HTTPHeaders { info.headers }
    /// The number of network attempts made for this result; 0 if the cache answered.
    public var attempts: Int { extras.attempts }
    /// The times and sizes of the last attempt; `nil` if the cache answered.
    ///
    /// ```swift
    /// if let metrics = try await task.response.metrics {
    ///     print(metrics.httpVersion, metrics.firstByte, metrics.total)
    /// }
    /// ```
    public var metrics: TransferMetrics? { extras.metrics }
    /// The prefetch of newer bytes, if these are out of date but may be used meanwhile; otherwise `nil`.
    ///
    /// ```swift
    /// let response = try await cache.getData(url).response
    /// if let newer = try await response.revalidation?.value { print(newer.count) }
    /// ```
    public var revalidation: DataTask? { extras.revalidation }

    /// The time at which the server made the answer or last confirmed it, as far as that is known.
    public var generated: Date { Date(timeIntervalSince1970: info.freshness.generated) }
    /// Returns the age of the answer at a date (RFC 9111, section 4.2.3); zero for dates before ``generated``.
    public func age(at date: Date) -> Duration {
        .seconds(clamping: info.freshness.age(at: date.timeIntervalSince1970))
    }
    /// The end of the answer's freshness: `nil` for none, `Date.distantPast` if each use is confirmed (`no-cache`).
    public var freshUntil: Date? {
        let until = info.freshness.until
        return until == .infinity ? nil : max(.distantPast, Date(timeIntervalSince1970: until))
    }

    /// Creates a response, for tests.
    public init(
        data: Data, source: ResponseSource, status: Int = 200, headers: HTTPHeaders = [:], attempts: Int = 0,
        metrics: TransferMetrics? = nil
    ) {
        self.init(
            StoredData(data: data, info: EntryInfo(url: "", status: status, headers: headers, stored: 0)),
            source: source, attempts: attempts, metrics: metrics)
    }

    init(
        _ value: StoredData, source: ResponseSource, attempts: Int = 0, metrics: TransferMetrics? = nil,
        revalidation: DataTask? = nil, asked: DataRequest.Source? = nil
    ) {
        (stored, self.source) = (value, source)
        extras = ResponseExtras(attempts, metrics, revalidation, asked)
    }
}

extension DataResponse: RedactedStringConvertible {
    /// The status, the number of bytes, and the tier that answered.
    public var description: String { "\(status) \(data.count) bytes from \(source.rawValue)" }
}

/// The properties that few responses have: without them, a response is small.
package struct ResponseExtras<Handle: Sendable>: Sendable {
    private struct Values: Sendable {
        let attempts: Int
        let metrics: TransferMetrics?
        let revalidation: Handle?
        let asked: DataRequest.Source?
    }

    private let values: Boxed<Values>?

    package init(
        _ attempts: Int, _ metrics: TransferMetrics?, _ revalidation: Handle?, _ asked: DataRequest.Source?
    ) {
        values =
            attempts == 0 && metrics == nil && revalidation == nil
            ? nil : Boxed(Values(attempts: attempts, metrics: metrics, revalidation: revalidation, asked: asked))
    }

    package var attempts: Int { values?.value.attempts ?? 0 }
    package var metrics: TransferMetrics? { values?.value.metrics }
    package var revalidation: Handle? { values?.value.revalidation }
    package var asked: DataRequest.Source? { values?.value.asked }
}

/// The answer to a call: a ``DataResponse``, a ``ValueResponse`` or an `ImageResponse`.
///
/// ```swift
/// func log(_ response: some FetchResponse) {
///     print(response.status, response.source, response.headers["Content-Type"] ?? "no type")
/// }
/// ```
public protocol FetchResponse: Sendable {
    /// The type of the result: `Data`, `Image`, or the type of a typed value.
    associatedtype Value: Sendable
    /// The type of the task of the call, such as ``DataTask`` or `ImageTask`.
    associatedtype Handle: FetchTask

    /// The bytes or the picture.
    var value: Value { get }
    /// The tier that answered.
    var source: ResponseSource { get }
    /// The http or https URL that the bytes came from, after redirects; `nil` for bytes of a provider, of a `file:` or
    /// `data:` URL, and for bytes that the program added under a key alone.
    var url: URL? { get }
    /// The source that has answered, as it was asked: the request's own or an alternative, such as a provider; `nil` if
    /// the cache answered without asking.
    var askedSource: DataRequest.Source? { get }
    /// The status that the server answered with when the bytes were fetched; 200 for entries that the caller added.
    var status: Int { get }
    /// The header fields of the server's answer.
    var headers: HTTPHeaders { get }
    /// The number of network attempts made for this result; 0 if the cache answered.
    var attempts: Int { get }
    /// The times and sizes of the last attempt; `nil` if the cache answered.
    var metrics: TransferMetrics? { get }
    /// The prefetch of a newer result (`stale-while-revalidate`, RFC 5861), if this one is out of date; or `nil`.
    var revalidation: Handle? { get }
}
