import Foundation
import Synchronization

/// The handle of one call for bytes: await its ``value``, add hooks, cancel it, change its queue or priority.
///
/// ```swift
/// let task = cache.getData(url)
/// task.onProgress { progress in print(progress.fraction) }
/// let data = try await task.value
/// ```
///
/// ``FetchTask`` has the hooks, such as ``FetchTask/then(_:)`` and ``FetchTask/onFail(_:)``, and says when they are
/// called. The call continues if the handle is released. A task ends exactly once, with a result or an error.
public final class DataTask: FetchTask {
    /// The bytes of the answer.
    public typealias Value = Data
    /// The bytes and where they came from.
    public typealias Response = DataResponse

    /// An event in the life of a task.
    public enum Event: Sendable {
        /// The state of the task when the stream was created. This event comes first.
        case state(TaskState)
        case progress(TaskProgress)
        /// An answer that came before the final one.
        case interim(InterimResponse)
        /// A failure. If it is not fatal, the task waits and tries again.
        case failure(DipperError, isFatal: Bool)
        /// A new attempt begins, after a failure.
        case retry(after: DipperError)
        case finished(DataResponse)
    }

    /// The call as it was made, or the call for the smaller source that has taken its place.
    var call: Call { substituted.load() ?? asked }
    private let asked: Call
    private let substitute: Call?
    private let substituted = AtomicLazyReference<Call>()
    private let isRevalidation: Bool
    /// The queue the call was made in.
    public let requestedQueue: FetchQueue
    private let identity = EventIdentity()
    private let feed: TaskFeed<Event>

    init(_ call: Call, queue: FetchQueue, orElse substitute: Call? = nil, isRevalidation: Bool = false) {
        asked = call
        self.substitute = substitute
        self.isRevalidation = isRevalidation
        requestedQueue = queue
        feed = TaskFeed(priority: call.request.priority, queue: queue)
    }

    /// The request of this call. If its ``DataRequest/lowDataSource`` is fetched in place of the URL, this is the
    /// request for that source.
    public var request: DataRequest { call.request }

    /// The key by which the call is deduplicated and cached. If the request has a ``DataRequest/lowDataSource`` that is
    /// fetched in place of the URL, this is the key of that source, as soon as the cache has found nothing for the URL.
    public var key: CacheKey { call.key }

    // MARK: The result

    /// The bytes of the answer. Cancelling the Swift task that awaits them cancels this call.
    public var value: Data {
        get async throws { try await response.data }
    }

    /// The bytes and where they came from. Cancelling the Swift task that awaits them cancels this call.
    public var response: DataResponse {
        get async throws { try await awaited }
    }

    /// Waits for the bytes and puts them into a file, which appears whole or not at all, in place of a file of that name.
    ///
    /// ```swift
    /// let film = DataRequest(url).with(\.timeout, .seconds(3_600))
    /// try await cache.slowGetData(film).onProgress { print($0.fraction) }.download(to: filmFile)
    /// ```
    ///
    /// The whole body is in memory until the file is there; ``CurlConfiguration/maximumBodySize``, by default 1 GiB,
    /// limits it. The folder of the file must exist. Cancelling the Swift task cancels this call until the answer is
    /// there. With ``Durability/durable`` the file is on the device in the end.
    ///
    /// The cache keeps the body as that of any call, within its limits: a body larger than
    /// ``DataCache/Configuration/diskLimit`` does not stay on disk, and the next download fetches it again. Of a
    /// download that has broken off, the cache keeps the bytes received for the next one, unless they are more than
    /// ``DataCache/Configuration/partialLimit``, by default 128 MiB.
    ///
    /// The first download of an entry of more than 8 KiB that the cache has on disk as it came writes nothing a second
    /// time. On a file system that can (Btrfs, XFS), the new file is a clone with a mode of its own. On others it is a
    /// hard link to the cache's file, with mode 0400 because the cache still reads it: replace the file, do not write
    /// into it. All other files are copies, with mode 0666 less the umask, usually 0644: those of later downloads of
    /// the entry, of shorter, compressed or encoded entries, of answers that are not on disk, and on another volume
    /// than the cache's. The file stays when the cache removes the entry.
    /// - Returns: the response, with the bytes.
    /// - Throws: the error of the call; ``DipperError/invalidURL`` for no `file:` URL, ``DipperError/notWritten`` if the file cannot be written.
    @discardableResult
    public func download(to file: URL) async throws -> DataResponse {
        guard file.isFileURL else { throw DipperError.invalidURL }
        let response = try await response
        let (call, store) = (call, call.store)
        let durability = call.request.durability
        // The entry may still be on its way to the disk.
        await withCheckedContinuation { settled in
            guard let store else { return settled.resume() }
            store.settle(call.key, call, durability) { _ in settled.resume() }
        }
        let error: FileError? = await fromThread { answer in
            // The volume of the file may be slow.
            DispatchQueue(label: "dipper.download").async {
                do throws(FileError) {
                    let folder = try Folder(path: file.deletingLastPathComponent().path)
                    try folder.place(file.lastPathComponent, response.data, isFlushed: durability == .durable) {
                        store?.disk?.share(call.key, response.data, in: folder, as: $0) == true
                    }
                    answer(nil)
                } catch {
                    answer(error)
                }
            }
        }
        if let error { throw DipperError.notWritten.with(detail: "\(error)") }
        return response
    }

    // MARK: Events

    /// Calls a closure now and then, as ``FetchTask/onProgress(_:)`` does, with the bytes of the body received so far. A
    /// second closure takes the place of the first. A body that is at hand anyway is not shown in parts. The bytes of a
    /// picture are shown by a call for them beside that for the picture, with which it shares the fetch.
    ///
    /// ```swift
    /// cache.getData(url).onBytes { bytes in parser.parse(bytes) }
    /// ```
    @discardableResult
    public func onBytes(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (Data) -> Void
    ) -> DataTask {
        let body = onItsActor(body)
        let view: @Sendable (Data) -> Void = { [weak self, queue = call.callbackQueue] bytes in
            guard let self else { return }
            // The program may change its bytes in place.
            let own = bytes.withUnsafeBytes { Data($0) }
            // No closure is called after the end.
            queue.perform { if self.outcome == nil { body(own) } }
        }
        if let waiter { waiter.engine.post { waiter.watchBytes(view) } }
        return self
    }

    /// `nil` unless the call waits.
    var waiter: Waiter? { feed.call as? Waiter }

    /// Others may follow the call: it only becomes more urgent.
    @Loop func raise(to want: Urgency) {
        if priority < want.priority { priority = want.priority }
        if want.queue == .fast, let waiter { waiter.engine.run { _ in waiter.move(to: .fast) } }
    }

    /// Tells of each event from now on as soon as the engine tells the task, or of the end if the task has ended.
    func follow(_ tell: @escaping @Sendable (_ event: Event, _ isLast: Bool) -> Void) {
        feed.follow { tell($0.event, $1) }
    }

    /// The events of the task from now on, after its present state. The stream ends with the task.
    ///
    /// ```swift
    /// for await event in task.events {
    ///     if case .progress(let progress) = event { print(progress.fraction) }
    /// }
    /// ```
    public var events: AsyncStream<Event> {
        feed.events(present: state) { [weak self] in self?.feed.forget($0) }
    }

    /// The arrival of bytes, as ``FetchTask/progress`` describes.
    public var progress: AsyncStream<TaskProgress> {
        feed.progress { [weak self] in self?.feed.forget($0) }
    }

    func wantProgress() { feed.wantProgress() }
    var latestProgress: TaskProgress? { feed.progress }

    // MARK: Cancelling and moving

    /// Cancels this call, which ends with ``DipperError/cancelled``. The fetch goes on if other calls wait for it.
    public func cancel() { feed.cancel() }

    /// Moves this call to `slowQueue`, where it is a prefetch. Nothing is started anew and no hook is lost.
    public func moveToSlowQueue() { feed.moveToSlowQueue() }

    /// The priority of the call inside its queue. It can be changed while the call waits.
    public var priority: Priority {
        get { feed.priority }
        set { feed.setPriority(newValue) }
    }

    /// The queue the call is in now, or was in when it ended.
    public var queue: FetchQueue { feed.queue }

    /// The number of network attempts made so far by the fetch that this call waits for.
    public var attempts: Int { feed.attempts }

    /// The state of the task now.
    public var state: TaskState {
        if let outcome { return TaskState(after: outcome) }
        let now = feed.status?.state
        // The task may have ended meanwhile.
        return outcome.map { TaskState(after: $0) } ?? now ?? .waiting
    }

    /// Adds a hook. The methods of ``FetchTask``, such as ``FetchTask/onEnd(_:)``, add hooks of each kind.
    public func add(_ hook: TaskHook<DataResponse>) { feed.add(hook, for: self) }
}

extension DataTask: FedTask {
    package var callbackQueue: CallbackQueue { call.callbackQueue }
    package func withFeed<Answer>(_ body: (borrowing TaskFeed<Event>) -> Answer) -> Answer { body(feed) }
}

extension DataTask: BytesCaller {
    @inline(__always)
    func start(in engine: Engine, _ claim: Claim? = nil) {
        // If the disk may have the larger source, a reader's thread finds out; see `lookedUp`.
        if isUndecided, !engine.store.memory.contains(key), !call.looksUp(in: engine.store) { turnToSubstitute() }
        begin(in: engine, claim, orEnd: engine.isShutDown.load(ordering: .acquiring) ? .shutDown : nil)
    }

    package var eventID: CacheEvent.ID { identity.id }
    func attach(_ waiter: Waiter) { feed.attach(waiter) }
    var wantsProgress: Bool { feed.wantsProgress }
    var isUndecided: Bool { substitute != nil && substituted.load() == nil }

    func turnToSubstitute() {
        if let substitute { _ = substituted.storeIfNil(substitute) }
    }

    func finish(_ result: Result<DataResponse, DipperError>, in engine: Engine) {
        if isRevalidation {
            let dropped = engine.revalidations.withLock { $0.forget(self) }
            withExtendedLifetime(dropped) {}
        }
        engine.events.ended(self, result.map(\.source))
        end(result)
    }
}

extension DataTask.Event: TaskEvent {
    package typealias Output = DataResponse
    package typealias Preview = Never
}

extension DataTask: RedactedStringConvertible {}
