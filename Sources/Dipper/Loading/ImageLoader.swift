import Foundation
import Logging
import Synchronization

/// Leads calls for pictures from the tiers over the bytes to the decoder, and shares what they have in common.
final class ImageLoader: Sendable {
    let data: DataCache
    let memory: ObjectTier
    let queue: DecodeQueue
    let codecs: CodecRegistry
    let limits: DecodeLimits
    let live = LiveTasks()
    let logger: Logger
    /// What is being decoded, by the key of the picture.
    private let works = Mutex<[CacheKey: DecodeWork]>([:])

    init(
        data: DataCache, memory: ObjectTier, queue: DecodeQueue, codecs: CodecRegistry, limits: DecodeLimits,
        logger: Logger
    ) {
        self.data = data
        self.memory = memory
        self.queue = queue
        self.codecs = codecs
        self.limits = limits
        self.logger = logger
    }

    func originals(of options: ResolvedOptions) -> DataCache { options.options.originals ?? data }

    // MARK: From the call to the bytes

    /// Starts a call that memory could not answer.
    func start(_ task: ImageTask) {
        live.add(task)
        let originals = originals(of: task.options)
        let policy = originals.policy(of: task.request.data)
        let mayShare = policy != .ignoreCache && policy != .bypass
        if mayShare, let work = works.withLock({ $0[task.imageKey] }), work.serves(task.request, originals),
            join(task, work)
        {
            return
        }
        let readsDisk = originals.hasDisk && (policy == .useCache || policy == .cacheOnly)
        if readsDisk, !task.options.chain.processors.isEmpty {
            lookForDerived(task, originals)
        } else {
            fetch(task, derived: nil)
        }
    }

    /// Perhaps the processed picture is on disk.
    private func lookForDerived(_ task: ImageTask, _ originals: DataCache) {
        let unused = task.hold(task.lane == .fast ? originals.reserveFast() : nil)
        unused?.release()
        originals.readEntry(task.imageKey) { stored in
            guard let stored else { return self.fetch(task, derived: nil) }
            switch originals.use(of: stored.info, for: task.request.data) {
            case .fresh, .stale: self.decode(task, .derived(stored))
            case .staleWhileRevalidating, .revalidate: self.fetch(task, derived: stored)
            }
        }
    }

    /// Asks for the bytes.
    /// - Parameter derived: the processed picture on disk, which may be out of date.
    func fetch(_ task: ImageTask, derived: StoredData?) {
        guard !task.hasEnded else { return }
        let request = task.request.data.with(\.callbackQueue, .inPlace).with(\.priority, task.priority)
        let originals = originals(of: task.options)
        let bytes = task.lane == .fast ? originals.getData(request) : originals.slowGetData(request)
        follow(bytes, for: task, derived: derived)
    }

    private func follow(_ bytes: DataTask, for task: ImageTask, derived: StoredData?) {
        task.follow(bytes)
        if task.options.options.showsPreviews == true {
            bytes.onBytes { [weak self, weak task] in
                if let self, let task { self.preview(task, $0) }
            }
        }
        bytes.onEnd { result in
            switch result {
            case .failure(let error): task.finish(.failure(error))
            case .success(let response): self.decode(task, .original(response, derived: derived))
            }
        }
    }

    /// A call for what a fetch brings that is under way for an answer that is out of date.
    func revalidation(of task: ImageTask, by bytes: DataTask) -> ImageTask {
        let newer = ImageTask(
            task.request, key: task.key, imageKey: task.imageKey, options: task.options, lane: .slow, queue: task.queue,
            loader: self)
        live.add(newer)
        follow(bytes, for: newer, derived: nil)
        return newer
    }

    // MARK: From the bytes to the picture

    /// Makes the picture, or joins those who wait for the same one.
    func decode(_ task: ImageTask, _ source: DecodeWork.Source) {
        let present = works.withLock { $0[task.imageKey] }
        if let present, present.isMade(of: source), join(task, present) { return }
        let work = DecodeWork(task, source, self)
        works.withLock { $0[task.imageKey] = work }
        guard join(task, work) else { return }
        let run: @Sendable () -> Void = { [self] in make(work) }
        if let place = task.options.options.processingQueue?.run {
            place(run)
        } else if let number = queue.add(work.place, run) {
            work.queued(as: number)
        } else {
            for task in close(work) { task.finish(.failure(.shutDown)) }
        }
    }

    /// False if it is too late for that; true also if the task has ended meanwhile.
    private func join(_ task: ImageTask, _ work: DecodeWork) -> Bool {
        guard work.add(task) else { return false }
        if task.join(work) { work.rearrange() } else { work.leave(task) }
        return true
    }

    /// Nobody waits for the work any more.
    func dropped(_ work: DecodeWork, number: Int?) {
        forget(work)
        if let number { queue.remove(number) }
    }

    /// True if no newer work has taken its place.
    @discardableResult
    private func forget(_ work: DecodeWork) -> Bool {
        let dropped = works.withLock { works -> DecodeWork? in
            works[work.imageKey] === work ? works.removeValue(forKey: work.imageKey) : nil
        }
        return dropped != nil
    }

    private func close(_ work: DecodeWork) -> [ImageTask] {
        forget(work)
        return work.close()
    }

    /// On a decoding thread.
    private func make(_ work: DecodeWork) {
        guard !work.isCancelled else { return }
        let originals = originals(of: work.options)
        do throws(DipperError) {
            let made = try picture(work)
            finish(work, made, originals)
        } catch {
            fail(work, error, originals)
        }
    }

    /// A picture, and what is to be kept of it.
    struct Made {
        var image: Image
        var digest: UInt64
        /// It was processed just now.
        var isProcessed = false
    }

    private func picture(_ work: DecodeWork) throws(DipperError) -> Made {
        let decode = work.options.decodeOptions(limits, isCancelled: { work.isCancelled })
        switch work.source {
        case .derived(let stored):
            return Made(image: try plain(stored.data, decode), digest: stored.info.digestOfOriginal ?? 0)
        case .original(let response, let derived):
            let digest = DataCache.digest(of: response.data)
            if let kept = kept(work.imageKey), kept.digest == digest {
                return Made(image: kept.image, digest: digest)
            }
            if let derived, derived.info.digestOfOriginal == digest, let image = try? plain(derived.data, decode) {
                return Made(image: image, digest: digest, isProcessed: true)
            }
            let image = try codecs.decode(response.data, decode)
            let context = ProcessingContext(limits: limits, isCancelled: decode.isCancelled)
            let isProcessed = !work.options.chain.processors.isEmpty
            return Made(
                image: isProcessed ? try work.options.chain.process(image, context) : image, digest: digest,
                isProcessed: isProcessed)
        }
    }

    /// A picture that is processed already.
    private func plain(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
        var options = options
        options.target = nil
        return try codecs.decode(data, options)
    }

    func kept(_ key: CacheKey) -> KeptImage? { memory.entry(for: key)?.kept }

    private func finish(_ work: DecodeWork, _ made: Made, _ originals: DataCache) {
        let info = work.source.info
        let request = work.request.data
        let policy = originals.policy(of: request)
        let mayKeep = originals.mayKeep(info, for: request) && policy != .bypass
        let isCurrent = forget(work)
        let waiters = work.close()
        let isWanted = waiters.contains { $0.lane == .fast || $0.options.options.prefetchesToMemory != false }
        if isCurrent, mayKeep, isWanted {
            keep(made.image, digest: made.digest, info, for: work.imageKey, originals.memoryLifetime(of: request))
        }
        let keepsDerived =
            made.isProcessed && mayKeep && originals.hasDisk
            && [.useCache, .ignoreCache, .fromMemoryOrRefresh].contains(policy)
        let patient = keepsDerived ? waiters.filter(\.request.data.waitsForDiskWrite) : []
        for task in waiters where !patient.contains(where: { $0 === task }) { succeed(task, made.image, work) }
        guard keepsDerived else { return }
        let write: @Sendable () -> Void = { [self] in
            writeDerived(work, made, originals) {
                for task in patient { self.succeed(task, made.image, work) }
            }
        }
        let isLeftForLater = patient.isEmpty && queue.add(.init(rank: .background, priority: .normal), write) != nil
        // Who was told of the picture just now may have ended the cache already, which waits for this thread.
        if !isLeftForLater { write() }
    }

    private func succeed(_ task: ImageTask, _ image: Image, _ work: DecodeWork) {
        switch work.source {
        case .derived(let stored):
            task.succeed(image, source: .disk, info: stored.info)
        case .original(let response, _):
            let newer = response.revalidation.map { revalidation(of: task, by: $0) }
            task.succeed(
                image, source: response.source, info: response.info, metrics: response.metrics, revalidation: newer)
        }
    }

    // MARK: Keeping

    func keep(_ image: Image, digest: UInt64, _ info: EntryInfo, for key: CacheKey, _ lifetime: Lifetime) {
        memory.insert(
            .init(KeptImage(image, digest: digest), info), for: key, cost: image.byteCount, lifetime: lifetime)
    }

    private func writeDerived(
        _ work: DecodeWork, _ made: Made, _ originals: DataCache, whenWritten: @escaping @Sendable () -> Void
    ) {
        guard case .original(let response, _) = work.source else { return whenWritten() }
        let serializer = work.options.options.serializer ?? .automatic
        do throws(DipperError) {
            let bytes = try serializer.data(for: made.image, madeOf: response.data, codecs)
            originals.keepDerived(
                bytes, for: work.imageKey, madeOf: response.info, digest: made.digest, work.request.data,
                whenWritten: whenWritten)
            if work.options.options.keepsOriginal == false, response.source == .network {
                originals.removeData(for: work.key)
            }
        } catch {
            logger.info("not kept", metadata: ["key": "\(work.key)", "error": "\(error)"])
            whenWritten()
        }
    }

    // MARK: Failure

    private func fail(_ work: DecodeWork, _ error: DipperError, _ originals: DataCache) {
        let waiters = close(work)
        let isBroken = error == .undecodable || error == .unsupportedFormat
        if isBroken {
            logger.info("undecodable", metadata: ["key": "\(work.key)", "error": "\(error)"])
        }
        switch work.source {
        case .derived where isBroken:
            originals.removeData(for: work.imageKey)
            for task in waiters { fetch(task, derived: nil) }
        case .original(let response, _) where isBroken:
            originals.removeData(for: work.key)
            let wasKept = response.source != .network
            for task in waiters {
                let fetches = wasKept && originals.policy(of: task.request.data) != .cacheOnly
                if fetches, task.mayRefetch() { fetch(task, derived: nil) } else { task.finish(.failure(error)) }
            }
        case .derived, .original:
            for task in waiters { task.finish(.failure(error)) }
        }
    }

    // MARK: Previews

    private func preview(_ task: ImageTask, _ bytes: Data) {
        let viewer = task.previewDecoder { PreviewDecoder() }
        guard let prefix = viewer.take(bytes) else { return }
        let run: @Sendable () -> Void = { [self] in
            defer { viewer.done() }
            var decode = task.options.decodeOptions(limits, isCancelled: { task.hasEnded })
            decode.allowsPartial = true
            guard let image = try? codecs.decode(prefix, decode) else { return }
            let context = ProcessingContext(limits: limits, isCancelled: decode.isCancelled)
            guard let processed = try? task.options.chain.process(image, context) else { return }
            task.tellPreview(processed)
        }
        if let place = task.options.options.processingQueue?.run {
            place(run)
        } else {
            queue.add(.init(rank: task.lane == .fast ? .urgent : .slow, priority: .low), run)
        }
    }
}

/// A picture in memory.
final class KeptImage: Sendable {
    let image: Image
    /// Of the bytes it was made of.
    let digest: UInt64

    init(_ image: Image, digest: UInt64) {
        self.image = image
        self.digest = digest
    }
}

extension ObjectTier.Entry {
    /// An image cache's tier holds nothing else.
    @inline(__always)
    var kept: KeptImage { unsafeDowncast(object, to: KeptImage.self) }
}

extension ImageLoader {
    /// A prefetch of a newer picture than the one the task is answered with.
    func revalidation(of task: ImageTask) -> ImageTask {
        let originals = originals(of: task.options)
        let request = task.request.data.with(\.callbackQueue, .inPlace)
        return revalidation(of: task, by: originals.revalidate(request))
    }
}
