import Foundation
import Logging
import Synchronization

/// Brings calls for pictures to their results: from the tiers, or by fetching and decoding. Calls share fetches and
/// decodes.
final class ImageLoader: Sendable {
    let data: DataCache
    let memory: ObjectTier
    let queue: DecodeQueue
    let codecs: CodecRegistry
    let limits: DecodeLimits
    let live = LiveTasks()
    let previews = Previews()
    let revalidations = Revalidations()
    let logger: Logger
    let redaction: Redaction
    /// The pictures that are being looked for on disk, or made.
    let underWay = Mutex(UnderWay())
    /// The reads that run on callers' threads.
    let readers = Readers()
    let writes: PictureWrites
    let backlog: DecodeBacklog

    init(
        data: DataCache, memory: ObjectTier, queue: DecodeQueue, codecs: CodecRegistry, limits: DecodeLimits,
        undecodedBytes: Int, logger: Logger, redaction: Redaction
    ) {
        self.data = data
        self.memory = memory
        self.queue = queue
        self.codecs = codecs
        self.limits = limits
        self.logger = logger
        self.redaction = redaction
        writes = PictureWrites(queue: queue)
        backlog = DecodeBacklog(limit: undecodedBytes)
        backlog.follow(data)
    }

    func originals(of options: ResolvedOptions) -> DataCache { options.options.originals ?? data }

    // MARK: Lookup and fetching

    /// Answers a task with the picture in memory, if that is good enough. Returns whether the task was answered.
    @inline(__always)
    func answer(_ task: ImageTask, _ originals: DataCache) -> Bool {
        let policy = originals.policy(of: task.request.data)
        guard policy != .ignoreCache, policy != .bypass, let entry = memory.entry(for: task.memoryKey) else {
            return false
        }
        // A picture in memory does not tell whether its entry is on disk.
        if originals.waitsForDisk(task.request.data) { return false }
        switch originals.use(of: entry.info, for: task.request.data) {
        case .fresh:
            originals.noteMemoryHit(task.key, task.requestedQueue)
            task.succeed(entry.kept.image, source: .memory, info: entry.info)
            return true
        case .stale:
            task.succeed(entry.kept.image, source: .stale, info: entry.info)
            return true
        case .staleWhileRevalidating:
            let newer = revalidation(of: task)
            task.succeed(entry.kept.image, source: .stale, info: entry.info, revalidation: newer)
            return true
        case .revalidate:
            return false
        }
    }

    /// Starts a call that memory cannot answer.
    func start(_ task: ImageTask) {
        live.add(task)
        if task.hasEnded { return live.remove(task) }
        let originals = originals(of: task.options)
        if originals !== data { backlog.follow(originals) }
        let policy = originals.policy(of: task.request.data)
        guard policy != .ignoreCache, policy != .bypass else { return fetch(task, derived: nil) }
        if let source = added(task.key, task.options) { return decode(task, .added(source)) }
        let looks =
            originals.hasDisk && (policy == .useCache || policy == .cacheOnly)
            && !task.options.chain.processors.isEmpty
        // A call of the data cache for the picture's file waits until the file is on disk.
        if looks, originals.waitsForDisk(task.request.data) { return lookByCall(task, originals) }
        // A prefetch looks when it has its turn, as a prefetch of the bytes does.
        let looksNow = looks && task.queue == .fast
        if looksNow {
            // No prefetch starts until it is known whether this call fetches.
            let unused = task.hold(originals.reserveFast())
            unused?.release()
        }
        var refused: DecodeWork?
        while true {
            switch underWay.withLock({ $0.enter(task, looks: looksNow, refused: refused) }) {
            case .join(let work):
                if work.serves(task.request, originals), join(task, work) { return }
                refused = work
            case .wait: return updateLook(of: task)
            case .look(let number): return look(task, number, originals)
            case .fetch: return looks ? lookByCall(task, originals) : fetch(task, derived: nil)
            }
        }
    }

    /// Looks for a processed picture on disk by a call of the data cache. For a prefetch this call waits until
    /// `slowQueue` has room.
    private func lookByCall(_ task: ImageTask, _ originals: DataCache) {
        let request = task.request.data.with(\.key, task.imageKey).with(\.cachePolicy, .cacheOnly)
            .with(\.callbackQueue, .inPlace).with(\.priority, task.priority)
        let look = task.queue == .fast ? originals.getData(request) : originals.slowGetData(request)
        task.follow(look)
        look.onEnd { result in
            switch result {
            case .success(let response):
                self.found(StoredData(data: response.data, info: response.info), for: task)
            case .failure(let error) where error == .cancelled || error == .shutDown: task.finish(.failure(error))
            case .failure: self.found(nil, for: task)
            }
        }
    }

    func isGood(_ stored: StoredData, for task: ImageTask) -> Bool {
        switch originals(of: task.options).use(of: stored.info, for: task.request.data) {
        case .fresh, .stale: true
        case .staleWhileRevalidating, .revalidate: false
        }
    }

    func found(_ stored: StoredData?, for task: ImageTask) {
        // The picture may have been added while the disk was asked.
        if let added = added(task.key, task.options) { return decode(task, .added(added)) }
        guard let stored else { return fetch(task, derived: nil) }
        if isGood(stored, for: task) { decode(task, .derived(stored)) } else { fetch(task, derived: stored) }
    }

    /// Fetches the bytes for a task.
    /// - Parameter derived: the processed picture on disk, which may be out of date.
    func fetch(_ task: ImageTask, derived: StoredData?) {
        guard !task.hasEnded else { return }
        let request = task.request.data.with(\.callbackQueue, .inPlace).with(\.priority, task.priority)
        let originals = originals(of: task.options)
        let bytes = task.queue == .fast ? originals.getData(request) : originals.slowGetData(request)
        follow(bytes, for: task, derived: derived)
    }

    func follow(_ bytes: DataTask, for task: ImageTask, derived: StoredData?) {
        task.follow(bytes)
        if task.options.options.showsPreviews == true {
            bytes.onBytes { [weak self, weak task, weak bytes] in
                if let self, let task, !self.preview(task, $0) { bytes?.ignoreBytes() }
            }
        }
        bytes.onEnd { result in
            switch result {
            case .failure(let error): task.finish(.failure(error))
            case .success(let response): self.decode(task, .original(response, derived: derived))
            }
        }
    }

    // MARK: Decoding

    /// Has the picture of a task made, or lets the task join work that makes the same picture.
    func decode(_ task: ImageTask, _ source: DecodeWork.Source) {
        while !task.hasEnded {
            let present = underWay.withLock { $0.works[task.memoryKey] }
            if let present, present.isCurrent, present.source.isSame(as: source), join(task, present) { return }
            let work = DecodeWork(task, source, removed(since: task, source), self)
            // Added before other tasks can find the work: they might begin it, or give it up, and so end it without
            // this task.
            _ = work.add(task)
            // Another thread may have put work into the table, perhaps on the same picture.
            guard underWay.withLock({ $0.put(work, insteadOf: present) }) else {
                work.leave(task)
                continue
            }
            // Removals that were made before the work was in the table.
            work.removals.add(removed(since: task, source))
            return enter(task, work)
        }
    }

    private func removed(since task: ImageTask, _ source: DecodeWork.Source) -> Removed {
        switch source {
        case .original, .derived: task.removed
        // An added picture is no longer found once it has been removed.
        case .added: Removed()
        }
    }

    /// Lets a task join work. Returns `false` if the work is over, and `true` even if the task has ended meanwhile.
    private func join(_ task: ImageTask, _ work: DecodeWork) -> Bool {
        guard work.add(task) else { return false }
        enter(task, work)
        return true
    }

    /// Makes a task that was added to the work wait for it, unless the task has ended meanwhile.
    private func enter(_ task: ImageTask, _ work: DecodeWork) {
        guard task.join(work) else { return work.leave(task) }
        work.update(task)
        if work.begin() { begin(work) }
    }

    private func begin(_ work: DecodeWork) {
        work.count()
        let run: @Sendable () -> Void = { [self] in make(work) }
        if let place = work.options.options.processingQueue?.run {
            place(run)
        } else if !work.enqueue(run) {
            work.discount()
            for task in close(work) { task.finish(.failure(.shutDown)) }
        }
    }

    /// Forgets work that no task waits for any more.
    func dropped(_ work: DecodeWork, number: Int?) {
        forget(work)
        work.discount()
        if let number { queue.remove(number) }
    }

    func forget(_ work: DecodeWork) {
        let dropped = underWay.withLock { $0.remove(work) }
        _ = consume dropped
    }

    func close(_ work: DecodeWork) -> [ImageTask] {
        forget(work)
        return work.close()
    }
}
