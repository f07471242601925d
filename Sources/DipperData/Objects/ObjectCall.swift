import Synchronization

/// The handle of a call for an object, as the engine sees it. The methods return at once and run no code of the
/// program's own.
package protocol ObjectTask: AnyObject, Sendable {
    func end(_ result: Result<MadeObject, DipperError>)
    func hear(_ news: FetchNews)
    func show(_ preview: Product)
    /// Takes the request for the smaller source, which has taken the place of the larger one.
    func choose(_ request: DataRequest)
}

/// A call for an object that memory could not answer, as its handle and the engine share it.
package final class ObjectCall: @unchecked Sendable {
    /// The options of a call that do not distinguish objects.
    package struct Options: Sendable {
        /// Whether a prefetched object is kept in memory.
        package var keepsInMemory = true
        /// Whether the bytes stay on disk beside the stored form.
        package var keepsBytes = true
        package var showsPreviews = false

        package init() {}
    }

    private struct Link {
        /// The engine; `nil` after the end, so that a handle that is kept keeps no cache alive.
        var engine: Engine?
        var priority: Priority
        /// The queue that the call was in last.
        var queue: FetchQueue
        /// The network attempts of the fetch when it ended.
        var attempts = 0
        var wantsProgress: Bool
    }

    let step: any ObjectStep
    let options: Options
    private let link: Mutex<Link>

    // What only the engine uses.

    /// The origin; `nil` after the end.
    var origin: Origin?
    var want: Want
    /// The look at the tiers that decides which source is asked for.
    var lookUp: Workers.Ticket?
    /// Whether no prefetch starts because of that look.
    var isReserved = false
    var cache: ObjectCache?
    var make: Make?
    private var task: (any ObjectTask)?

    /// - Parameter task: the handle, which is kept until the end; `nil` if nobody waits.
    package init(
        _ task: any ObjectTask, _ cache: ObjectCache, _ origin: Origin, _ step: any ObjectStep, _ options: Options,
        _ queue: FetchQueue, wantsProgress: Bool = false
    ) {
        (self.task, self.cache, self.origin, self.step, self.options) = (task, cache, origin, step, options)
        let priority = origin.request.priority
        want = Want(queue: queue, level: UInt8(priority.level))
        link = Mutex(Link(engine: cache.engine, priority: priority, queue: queue, wantsProgress: wantsProgress))
    }

    /// Has the engine take the call.
    package func start() {
        let engine = engine
        if engine?.post({ $0.take(self) }) != true { end(.failure(.shutDown)) }
    }

    // MARK: The handle's interface

    private var engine: Engine? { link.withLock { $0.engine } }

    package func cancel() { engine?.post { $0.cancel(self) } }
    package func moveToSlowQueue() { engine?.post { $0.move(self, to: .slow) } }

    package var priority: Priority {
        get { link.withLock { $0.priority } }
        set {
            let engine = link.withLock { link in
                link.priority = newValue
                return link.engine
            }
            engine?.post { $0.setPriority(newValue, of: self) }
        }
    }

    /// The queue that the call is in now, or was in when it ended.
    package var queue: FetchQueue {
        let now = engine?.ask { _ in self.cache == nil ? nil : self.want.queue } ?? nil
        return now ?? link.withLock { $0.queue }
    }

    /// The stage of the call.
    package enum Stage: Sendable {
        case looking
        case fetching(DataTask)
        case making
    }

    /// The stage of the call now; `nil` after the end.
    package var stage: Stage? { engine?.ask { $0.stage(of: self) } ?? nil }

    /// The network attempts made so far for the bytes.
    package var attempts: Int {
        if case .fetching(let task)? = stage { return task.attempts }
        return link.withLock { $0.attempts }
    }

    /// Has progress told from now on.
    package func wantProgress() {
        let engine = link.withLock { link in
            link.wantsProgress = true
            return link.engine
        }
        engine?.post { $0.wantProgress(self) }
    }

    // MARK: The engine's interface

    var wantsProgress: Bool { link.withLock { $0.wantsProgress } }

    func tell(_ news: FetchNews) {
        if case .progress = news, !wantsProgress { return }
        task?.hear(news)
    }

    func show(_ preview: Product) { task?.show(preview) }

    func note(attempts: Int) { link.withLock { $0.attempts = attempts } }

    func choose(_ origin: Origin) {
        self.origin = origin
        task?.choose(origin.request)
    }

    func end(_ result: Result<MadeObject, DipperError>) {
        // What was fetched may be no picture or value.
        let result = result.mapError { error in
            guard error.url == nil, let source = make?.root?.basis?.info.source else { return error }
            return error.at(source)
        }
        let kept = (exchange(&task, with: nil), exchange(&cache, with: nil), exchange(&origin, with: nil))
        make = nil
        let engine = link.withLock { link in
            link.queue = want.queue
            if let attempts = (try? result.get())?.basis.attempts { link.attempts = attempts }
            return exchange(&link.engine, with: nil)
        }
        kept.0?.end(result)
        withExtendedLifetime((kept, engine)) {}
    }
}
