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
    let previews = Previews()
    let logger: Logger
    /// What is being decoded, by the key of the picture.
    let works = Mutex<[CacheKey: DecodeWork]>([:])
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
        if mayShare, let work = works.withLock({ $0[task.memoryKey] }), work.serves(task.request, originals),
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
            lookups[task.memoryKey, default: []].append(task)
            return lookups[task.memoryKey]?.count == 1
        }
        guard isFirst else { return }
        originals.readEntry(task.imageKey) { stored in
            let tasks = self.lookups.withLock { $0.removeValue(forKey: task.memoryKey) } ?? []
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
        let present = works.withLock { $0[task.memoryKey] }
        if let present, present.removals.tiers.isEmpty, present.isMade(of: source), join(task, present) { return }
        let work = DecodeWork(task, source, self)
        works.withLock { $0[task.memoryKey] = work }
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
            works[work.memoryKey] === work ? works.removeValue(forKey: work.memoryKey) : nil
        }
        return dropped != nil
    }

    func close(_ work: DecodeWork) -> [ImageTask] {
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
            if let kept = kept(work.memoryKey), kept.digest == digest, digest != 0 {
                return Made(image: kept.image, digest: digest)
            }
            return Made(image: try plain(stored.data, decode), digest: digest)
        case .original(let response, let derived):
            let digest = DataCache.digest(of: response.data)
            if let kept = kept(work.memoryKey), kept.digest == digest {
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

    func finish(_ work: DecodeWork, _ made: Made, _ originals: DataCache) {
        let info = work.source.info
        let isCurrent = works.withLock { $0[work.memoryKey] === work }
        let present = work.waiters
        let policies = present.map { originals.policy(of: $0.request.data) }
        let mayKeep = originals.mayKeep(info, for: work.request.data) && policies.contains { $0 != .bypass }
        if isCurrent {
            // What was made of bytes that someone has asked for anew is out of date.
            if policies.contains(.ignoreCache), !info.isStandIn, case .original(let response, _) = work.source,
                response.source == .network
            {
                forgetDerived(of: work.key, but: work.memoryKey, work.options)
            }
        }
        // What was removed while it was being made is not to come back, nor to take the place of what was added then.
        if isCurrent, !work.removals.tiers.contains(.memory) {
            let isWanted =
                memory.contains(work.memoryKey)
                || present.contains { $0.lane == .fast || $0.options.options.prefetchesToMemory != false }
            if mayKeep, isWanted {
                keep(
                    made.image, digest: made.digest, info, for: work.memoryKey,
                    originals.memoryLifetime(of: work.request.data, madeOf: info))
                // Who removes it from now on finds it.
                if work.removals.tiers.contains(.memory) { memory.remove(work.memoryKey) }
            } else if !mayKeep, !info.isStandIn, policies.contains(where: { $0 != .bypass }) {
                memory.remove(work.memoryKey)
            }
        }
        let waiters = work.close()
        let keepsDerived =
            made.isProcessed && mayKeep && isCurrent && originals.hasDisk
            && policies.contains { [.useCache, .ignoreCache, .fromMemoryOrRefresh].contains($0) }
        let patient = keepsDerived ? waiters.filter(\.request.data.waitsForDiskWrite) : []
        if keepsDerived { write(work, made, waiters, patient, originals) }
        // Not before: a removal must find the work, or what is to be written of it.
        forget(work)
        for task in waiters where !patient.contains(where: { $0 === task }) { succeed(task, made.image, work) }
    }

    func succeed(_ task: ImageTask, _ image: Image, _ work: DecodeWork) {
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
}

extension ImageLoader {
    /// A prefetch of a newer picture than the one the task is answered with.
    func revalidation(of task: ImageTask) -> ImageTask {
        let originals = originals(of: task.options)
        let request = task.request.data.with(\.callbackQueue, .inPlace)
        return revalidation(of: task, by: originals.revalidate(request))
    }
}
