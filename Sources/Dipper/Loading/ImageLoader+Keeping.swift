import Foundation

/// What is kept of a picture, what is taken back, and what becomes of those that cannot be made.
extension ImageLoader {
    func keep(_ image: Image, digest: UInt64, _ info: EntryInfo, for key: CacheKey, _ lifetime: Lifetime) {
        memory.insert(
            .init(KeptImage(image, digest: digest), info), for: key, cost: image.footprint, lifetime: lifetime)
    }

    /// Puts what was processed on disk, as those who wait for it want it.
    func write(
        _ work: DecodeWork, _ made: Made, _ waiters: [ImageTask], _ patient: [ImageTask], _ originals: DataCache
    ) {
        guard case .original(let response, _) = work.source else { return }
        let writer = waiters.first { $0.request.data.durability == .durable } ?? waiters.first
        let request = writer?.request.data ?? work.request.data
        let serializer = writer?.options.options.serializer ?? .automatic
        // The original stays where somebody else has use for it.
        let dropsOriginal =
            response.source == .network && waiters.allSatisfy { $0.options.options.keepsOriginal == false }
            && !memory.contains(work.options.inMemory(work.key))
            && live[work.key].allSatisfy { $0.options.options.keepsOriginal == false }
        // What waits to be written must not hold the whole file.
        let original = serializer.readsOriginal ? response.data : Data(response.data.prefix(CodecRegistry.sniffLength))
        let (info, key, imageKey) = (response.info, work.key, work.imageKey)
        var tell: @Sendable () -> Void = {}
        if !patient.isEmpty { tell = { [self] in for task in patient { succeed(task, made.image, work) } } }
        let write: @Sendable (Removals) -> Bool = { [self, tell] removals in
            do throws(DipperError) {
                let bytes =
                    if let file = made.file { file } else {
                        try serializer.data(for: made.image, madeOf: original, codecs)
                    }
                // It is not to take the place of what was added meanwhile.
                if removals.tiers.contains(.disk) {
                    tell()
                    return false
                }
                originals.keepDerived(
                    bytes, for: imageKey, madeOf: info, digest: made.digest, request, whenWritten: tell)
                if dropsOriginal { originals.removeData(for: key) }
                return true
            } catch {
                logger.info("not kept", metadata: ["key": "\(key)", "error": "\(error)"])
                tell()
                return false
            }
        }
        writes.add(
            .init(
                write: write, undo: { originals.removeData(for: imageKey, from: $0) }, dropped: tell,
                removals: work.removals),
            for: work.memoryKey, atOnce: !patient.isEmpty)
    }

    // MARK: Removing

    /// What is being made or written under such names of memory is not to be kept in these tiers. To be called before they
    /// are cleaned.
    func revoke(from tiers: DataCache.Tiers = .all, where condition: (CacheKey) -> Bool) {
        let concerned = works.withLock { works in works.filter { condition($0.key) }.map(\.value) }
        for work in concerned { work.removals.add(tiers) }
        writes.revoke(from: tiers, where: condition)
    }

    /// Removes what was made of the bytes of a key, but for what is being written of one picture.
    /// - Parameters:
    ///   - memoryKey: what that one is called in memory.
    ///   - options: of a request that asks for such bytes.
    func forgetDerived(of key: CacheKey, but memoryKey: CacheKey? = nil, _ options: ResolvedOptions) {
        let origin = options.inMemory(key)
        writes.revoke(from: .all) { $0.isDerived(of: origin) && $0 != memoryKey }
        originals(of: options).removeDerived(of: key)
        memory.removeDerived(of: origin)
    }

    // MARK: Failure

    func fail(_ work: DecodeWork, _ error: DipperError, _ originals: DataCache) {
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
            if isKept, !response.info.isStandIn { originals.removeData(for: work.key) }
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
    func preview(_ task: ImageTask, _ bytes: Data) -> Bool {
        guard let viewer = task.previewDecoder(of: previews) else { return false }
        guard let prefix = viewer.take(bytes) else { return !viewer.isPointless }
        let run: @Sendable () -> Void = { [self] in
            var bytes: Data? = prefix
            while let prefix = bytes {
                let image = preview(prefix, task.options) { viewer.isCancelled }
                if let image { for task in viewer.made(image) { task.tellPreview(image) } }
                bytes = viewer.done()
            }
        }
        if let place = task.options.options.processingQueue?.run {
            place(run)
        } else if queue.add(.init(rank: viewer.isUrgent ? .urgent : .slow, priority: .low), run) == nil {
            _ = viewer.done()
        }
        return true
    }

    private func preview(
        _ bytes: Data, _ options: ResolvedOptions, isCancelled: @escaping @Sendable () -> Bool
    ) -> Image? {
        var decode = options.decodeOptions(limits, isCancelled: isCancelled)
        decode.allowsPartial = true
        guard let image = try? codecs.decode(bytes, decode) else { return nil }
        return try? options.chain.process(image, ProcessingContext(limits: limits, isCancelled: isCancelled))
    }
}
