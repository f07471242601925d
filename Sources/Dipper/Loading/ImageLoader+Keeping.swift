import Foundation

/// Keeps pictures in memory and on disk, and takes back those that were removed meanwhile.
extension ImageLoader {
    /// Keeps a picture in memory, unless it was removed meanwhile: then it neither comes back nor takes the place of what
    /// was added since.
    func keep(
        _ image: Image, digest: UInt64, isAdded: Bool = false, _ info: EntryInfo, for key: CacheKey,
        _ lifetime: Lifetime, unless removals: Removals? = nil
    ) {
        memory.insert(
            .init(KeptImage(image, digest: digest, isAdded: isAdded), info), for: key, cost: image.footprint,
            lifetime: lifetime
        ) {
            removals?.tiers(for: info).contains(.memory) != true
        }
    }

    /// The picture that the caller has added, if its file is not yet there, or never will be.
    func added(_ key: CacheKey, _ options: ResolvedOptions) -> AddedPicture? {
        let origin = options.inMemory(key)
        if let waiting = writes.added(origin) { return waiting }
        guard !options.keySuffix.isEmpty, let entry = memory.entry(for: origin), entry.kept.isAdded
        else { return nil }
        return AddedPicture(image: entry.kept.image, digest: entry.kept.digest, info: entry.info)
    }

    /// Puts what was processed on disk, as those who wait for it want it.
    func write(
        _ work: DecodeWork, _ made: Made, _ waiters: [ImageTask], _ patient: [ImageTask], _ originals: DataCache
    ) {
        let response: DataResponse? = if case .original(let response, _) = work.source { response } else { nil }
        let writer = waiters.first { $0.request.data.durability == .durable } ?? waiters.first
        let request = writer?.request.data ?? work.request.data
        let serializer = writer?.options.options.serializer ?? .automatic
        // The original stays where somebody else has use for it.
        let dropsOriginal =
            response?.source == .network && waiters.allSatisfy { $0.options.options.keepsOriginal == false }
            && !memory.contains(work.options.inMemory(work.key))
            && live[work.key].allSatisfy { $0.options.options.keepsOriginal == false }
        // What waits to be written must not hold the whole file.
        let original = response.map {
            serializer.readsOriginal ? $0.data : Data($0.data.prefix(CodecRegistry.sniffLength))
        }
        let (info, key, imageKey) = (work.source.info, work.key, work.imageKey)
        let tell: @Sendable (_ isOnDisk: Bool) -> Void = { [self] isOnDisk in
            for task in patient {
                if isOnDisk || task.request.data.durability != .durable {
                    succeed(task, made.image, work)
                } else {
                    task.finish(.failure(.notWritten))
                }
            }
        }
        let write: @Sendable (Removals) -> Bool = { [self] removals in
            do throws(DipperError) {
                let bytes =
                    if let file = made.file { file } else {
                        try serializer.data(for: made.image, madeOf: original, codecs)
                    }
                // It is not to take the place of what was added meanwhile.
                if removals.tiers(for: info).contains(.disk) {
                    tell(false)
                    return false
                }
                originals.keepDerived(
                    bytes, for: imageKey, madeOf: info, digest: made.digest, request,
                    whenWritten: patient.isEmpty ? nil : tell)
                if dropsOriginal { originals.removeData(for: key) }
                return true
            } catch {
                logNotKept(key, error)
                // There is nothing to be on disk.
                tell(true)
                return false
            }
        }
        writes.add(
            .init(
                write: write, undo: { originals.removeData(for: imageKey, from: $0) },
                dropped: { tell(false) }, info: info, removals: work.removals),
            for: work.memoryKey, atOnce: !patient.isEmpty)
    }

    func logNotKept(_ key: CacheKey, _ error: any Error) {
        logger.info(
            "not kept", metadata: ["key": "\(redaction.text(key))", "error": "\(redaction.sentence("\(error)"))"])
    }

    // MARK: Removing

    /// Tells all that is under way for a key's bytes that they were removed, or replaced: what comes of it is not kept. To be
    /// called before the tiers are cleaned.
    /// - Parameters:
    ///   - key: of the bytes; `nil` for all.
    ///   - condition: tells by their names in memory which pictures are concerned.
    func revoke(_ removed: Removed, of key: CacheKey?, where condition: (CacheKey) -> Bool = { _ in true }) {
        // Tasks first: a work that begins now asks its task.
        for task in key.map({ live[$0] }) ?? live.all where condition(task.memoryKey) { task.revoke(removed) }
        let works = underWay.withLock { $0.works.values.filter { condition($0.memoryKey) } }
        for work in works { work.removals.add(removed) }
        readers.note(removed, where: condition)
        writes.revoke(removed, where: condition)
    }

    /// Removes what was made of the bytes of a key.
    /// - Parameters:
    ///   - work: what is made of newer bytes stays, and the picture that this work makes.
    ///   - options: of a request that asks for such bytes.
    func forgetDerived(of key: CacheKey, but work: DecodeWork? = nil, _ options: ResolvedOptions) {
        let origin = options.inMemory(key)
        if let work {
            let others = underWay.withLock { $0.works.values.filter { $0.memoryKey.isDerived(of: origin) } }
            for other in others where !other.source.isSame(as: work.source) {
                other.removals.add(Removed(tiers: .all))
            }
            // So is a picture that was added before.
            if work.memoryKey != origin, memory.entry(for: origin)?.kept.isAdded == true { memory.remove(origin) }
        }
        writes.revoke(Removed(tiers: .all)) { key in
            key.isDerived(of: origin) ? key != work?.memoryKey : work != nil && key == origin
        }
        originals(of: options).removeDerived(of: key)
        memory.removeDerived(of: origin)
    }

    // MARK: Revalidating

    /// One answer's part in the fetch of a newer picture. The first part has the picture made, whether or not anybody waits.
    /// - Parameter bytes: begins the fetch, if none is under way.
    func revalidation(of task: ImageTask, by bytes: () -> DataTask) -> Revalidation {
        if let present = revalidations[task.memoryKey] { return Revalidation(task, present, self) }
        let bytes = bytes()
        let maker = revalidationTask(like: task)
        let present = revalidations.add(bytes, maker)
        guard present === bytes else {
            maker.finish(.failure(.cancelled))
            return Revalidation(task, present, self)
        }
        maker.onEnd { [weak self, weak maker] _ in if let maker { self?.revalidations.remove(maker) } }
        follow(bytes, for: maker, derived: nil)
        return Revalidation(task, bytes, self)
    }

    /// A prefetch of a newer picture than the one that the task is answered with.
    func revalidation(of task: ImageTask) -> Revalidation {
        revalidation(of: task) {
            let originals = originals(of: task.options)
            if originals !== data { backlog.follow(originals) }
            return originals.revalidate(task.request.data.with(\.callbackQueue, .inPlace))
        }
    }

    func revalidationTask(like task: ImageTask) -> ImageTask {
        let newer = ImageTask(
            task.request, askedKey: task.askedKey, key: task.key, imageKey: task.imageKey, options: task.options,
            queue: .slow, callbackQueue: task.callbackQueue, loader: self, ownsFetch: false)
        live.add(newer)
        return newer
    }
}
