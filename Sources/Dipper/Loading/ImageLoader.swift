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
    /// Those who wait for a look at the disk, by the key of the picture.
    private let lookups = Mutex<[CacheKey: [ImageTask]]>([:])
    let writes: PictureWrites
    let backlog = DecodeBacklog(limit: 32 << 20)

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
        writes = PictureWrites(queue: queue)
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
        guard task.lane == .fast else { return lookForDerivedLater(task, originals) }
        let unused = task.hold(originals.reserveFast())
        unused?.release()
        let isFirst = lookups.withLock { lookups in
            lookups[task.imageKey, default: []].append(task)
            return lookups[task.imageKey]?.count == 1
        }
        guard isFirst else { return }
        originals.readEntry(task.imageKey) { stored in
            let tasks = self.lookups.withLock { $0.removeValue(forKey: task.imageKey) } ?? []
            for task in tasks { self.found(stored, for: task) }
        }
    }

    /// The same for a prefetch, which waits for its turn.
    private func lookForDerivedLater(_ task: ImageTask, _ originals: DataCache) {
        let request = task.request.data.with(\.key, task.imageKey).with(\.cachePolicy, .cacheOnly)
            .with(\.callbackQueue, .inPlace).with(\.priority, task.priority)
        let look = originals.slowGetData(request)
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

    private func found(_ stored: StoredData?, for task: ImageTask) {
        guard let stored else { return fetch(task, derived: nil) }
        switch originals(of: task.options).use(of: stored.info, for: task.request.data) {
        case .fresh, .stale: decode(task, .derived(stored))
        case .staleWhileRevalidating, .revalidate: fetch(task, derived: stored)
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

    /// A call for what a fetch brings that is under way for an answer that is out of date.
    func revalidation(of task: ImageTask, by bytes: DataTask) -> ImageTask {
        let newer = ImageTask(
            task.request, askedKey: task.askedKey, key: task.key, imageKey: task.imageKey, options: task.options,
            lane: .slow, queue: task.queue, loader: self, ownsFetch: false)
        live.add(newer)
        follow(bytes, for: newer, derived: nil)
        return newer
    }

    // MARK: From the bytes to the picture

    /// Makes the picture, or joins those who wait for the same one.
    func decode(_ task: ImageTask, _ source: DecodeWork.Source) {
        guard !task.hasEnded else { return }
        let present = works.withLock { $0[task.imageKey] }
        if let present, present.isMade(of: source), join(task, present) { return }
        let work = DecodeWork(task, source, self)
        works.withLock { $0[task.imageKey] = work }
        guard join(task, work) else { return }
        work.count(originals(of: task.options))
        let run: @Sendable () -> Void = { [self] in make(work) }
        if let place = task.options.options.processingQueue?.run {
            place(run)
        } else if let number = queue.add(work.place, run) {
            work.queued(as: number)
            // Someone may have joined, or changed their mind, before it had its number.
            work.rearrange()
        } else {
            work.discount()
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
        work.discount()
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
        defer { work.discount() }
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
        /// It was processed just now, or its file has been confirmed.
        var isProcessed = false
        /// The file of a picture that was processed before.
        var file: Data?
    }

    private func picture(_ work: DecodeWork) throws(DipperError) -> Made {
        let decode = work.options.decodeOptions(limits, isCancelled: { work.isCancelled })
        switch work.source {
        case .derived(let stored):
            let digest = stored.info.digestOfOriginal ?? 0
            if let kept = kept(work.imageKey), kept.digest == digest, digest != 0 {
                return Made(image: kept.image, digest: digest)
            }
            return Made(image: try plain(stored.data, decode), digest: digest)
        case .original(let response, let derived):
            let digest = DataCache.digest(of: response.data)
            if let kept = kept(work.imageKey), kept.digest == digest {
                // Those who had it made may not have wanted it on disk.
                let isOnDisk = originals(of: work.options).hasData(for: work.imageKey)
                let isProcessed = !work.options.chain.processors.isEmpty && !isOnDisk
                return Made(image: kept.image, digest: digest, isProcessed: isProcessed)
            }
            if let derived, derived.info.digestOfOriginal == digest, let image = try? plain(derived.data, decode) {
                return Made(image: image, digest: digest, isProcessed: true, file: derived.data)
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
    func plain(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
        var options = options
        options.target = nil
        return try codecs.decode(data, options)
    }

    func kept(_ key: CacheKey) -> KeptImage? { memory.entry(for: key)?.kept }

    private func finish(_ work: DecodeWork, _ made: Made, _ originals: DataCache) {
        let info = work.source.info
        let isCurrent = works.withLock { $0[work.imageKey] === work }
        let present = work.waiters
        let policies = present.map { originals.policy(of: $0.request.data) }
        let mayKeep = originals.mayKeep(info, for: work.request.data) && policies.contains { $0 != .bypass }
        if isCurrent {
            // What was made of bytes that someone has asked for anew is out of date.
            if policies.contains(.ignoreCache), case .original(let response, _) = work.source,
                response.source == .network
            {
                forgetDerived(of: work.key, but: work.imageKey, originals)
            }
            let isWanted =
                memory.contains(work.imageKey)
                || present.contains { $0.lane == .fast || $0.options.options.prefetchesToMemory != false }
            if mayKeep, isWanted {
                keep(
                    made.image, digest: made.digest, info, for: work.imageKey,
                    originals.memoryLifetime(of: work.request.data, madeOf: info))
            } else if !mayKeep, policies.contains(where: { $0 != .bypass }) {
                memory.remove(work.imageKey)
            }
        }
        forget(work)
        // What was removed while it was being made is not to come back.
        let isRevoked = work.isRevoked
        if isRevoked { memory.remove(work.imageKey) }
        let waiters = work.close()
        let keepsDerived =
            made.isProcessed && mayKeep && !isRevoked && originals.hasDisk
            && policies.contains { [.useCache, .ignoreCache, .fromMemoryOrRefresh].contains($0) }
        let patient = keepsDerived ? waiters.filter(\.request.data.waitsForDiskWrite) : []
        if keepsDerived { write(work, made, waiters, patient, originals) }
        for task in waiters where !patient.contains(where: { $0 === task }) { succeed(task, made.image, work) }
    }

    private func succeed(_ task: ImageTask, _ image: Image, _ work: DecodeWork) {
        switch work.source {
        case .derived(let stored):
            let use = originals(of: task.options).use(of: stored.info, for: task.request.data)
            task.succeed(image, source: use == .fresh ? .disk : .stale, info: stored.info)
        case .original(let response, _):
            let newer = response.revalidation.map { revalidation(of: task, by: $0) }
            task.succeed(
                image, source: response.source, info: response.info, attempts: response.attempts,
                metrics: response.metrics, revalidation: newer)
        }
    }

    // MARK: Keeping

    func keep(_ image: Image, digest: UInt64, _ info: EntryInfo, for key: CacheKey, _ lifetime: Lifetime) {
        memory.insert(
            .init(KeptImage(image, digest: digest), info), for: key, cost: image.byteCount, lifetime: lifetime)
    }

    /// Puts what was processed on disk, as those who wait for it want it.
    private func write(
        _ work: DecodeWork, _ made: Made, _ waiters: [ImageTask], _ patient: [ImageTask], _ originals: DataCache
    ) {
        guard case .original(let response, _) = work.source else { return }
        let writer = waiters.first { $0.request.data.durability == .durable } ?? waiters.first
        let request = writer?.request.data ?? work.request.data
        let serializer = writer?.options.options.serializer ?? .automatic
        // The original stays where somebody else has use for it.
        let dropsOriginal =
            response.source == .network && waiters.allSatisfy { $0.options.options.keepsOriginal == false }
            && !memory.contains(work.key) && live[work.key].allSatisfy { $0.options.options.keepsOriginal == false }
        // What waits to be written must not hold the whole file.
        let original = serializer.readsOriginal ? response.data : Data(response.data.prefix(CodecRegistry.sniffLength))
        let (info, key, imageKey) = (response.info, work.key, work.imageKey)
        var tell: @Sendable () -> Void = {}
        if !patient.isEmpty { tell = { [self] in for task in patient { succeed(task, made.image, work) } } }
        let write: @Sendable () -> Void = { [self, tell] in
            do throws(DipperError) {
                let bytes =
                    if let file = made.file { file } else {
                        try serializer.data(for: made.image, madeOf: original, codecs)
                    }
                originals.keepDerived(
                    bytes, for: imageKey, madeOf: info, digest: made.digest, request, whenWritten: tell)
                if dropsOriginal { originals.removeData(for: key) }
            } catch {
                logger.info("not kept", metadata: ["key": "\(key)", "error": "\(error)"])
                tell()
            }
        }
        writes.add(
            .init(write: write, undo: { originals.removeData(for: imageKey) }, dropped: tell), for: imageKey,
            atOnce: !patient.isEmpty)
    }

    // MARK: Removing

    /// What is being made or written of keys like this is not to be kept. To be called before the tiers are cleaned.
    func revoke(where condition: (CacheKey) -> Bool) {
        let concerned = works.withLock { works in works.filter { condition($0.key) }.map(\.value) }
        for work in concerned { work.revoke() }
        writes.revoke(where: condition)
    }

    /// Removes what was made of the bytes of a key, but for one picture.
    func forgetDerived(of key: CacheKey, but imageKey: CacheKey? = nil, _ originals: DataCache) {
        writes.revoke { $0.isDerived(of: key) && $0 != imageKey }
        originals.removeDerived(of: key)
        memory.removeDerived(of: key)
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
            // What was fetched past the cache is not what it has.
            let isKept = waiters.contains { originals.policy(of: $0.request.data) != .bypass }
            if isKept { originals.removeData(for: work.key) }
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

    /// False if there will never be one.
    private func preview(_ task: ImageTask, _ bytes: Data) -> Bool {
        let viewer = task.previewDecoder { PreviewDecoder() }
        guard let prefix = viewer.take(bytes) else { return !viewer.isPointless }
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
        return true
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
