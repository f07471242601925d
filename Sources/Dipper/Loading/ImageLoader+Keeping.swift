import Foundation

/// Keeping pictures in memory and on disk, and taking back those that are removed meanwhile.
extension ImageLoader {
    /// Keeps a picture in memory, unless it was removed meanwhile: a removed picture must neither come back nor replace
    /// one that was added since.
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

    /// Returns the picture that the caller added under a key: until its file is staged, and for requests that change
    /// the picture as long as it is in memory.
    func added(_ key: CacheKey, _ options: ResolvedOptions) -> AddedPicture? {
        let origin = options.inMemory(key)
        if let waiting = writes.added(origin) { return waiting }
        guard !options.keySuffix.isEmpty, let entry = memory.entry(for: origin), entry.kept.isAdded
        else { return nil }
        return AddedPicture(image: entry.kept.image, digest: entry.kept.digest, info: entry.info)
    }

    /// Writes a processed picture to disk, with the options of a task that waits for it: of one that wants the picture
    /// durable, if there is one.
    func write(
        _ work: DecodeWork, _ made: Made, _ waiters: [ImageTask], _ patient: [ImageTask], _ originals: DataCache
    ) {
        let response: DataResponse? = if case .original(let response, _) = work.source { response } else { nil }
        let writer = waiters.first { $0.request.data.durability == .durable } ?? waiters.first
        let request = writer?.request.data ?? work.request.data
        let serializer = writer?.options.options.serializer ?? .automatic
        // The original stays on disk if another caller has use for it.
        let dropsOriginal =
            response?.source == .network && waiters.allSatisfy { $0.options.options.keepsOriginal == false }
            && !memory.contains(work.options.inMemory(work.key))
            && live[work.key].allSatisfy { $0.options.options.keepsOriginal == false }
        // A write that waits must not keep the whole file in memory.
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
                // A removed picture must not replace one that was added after the removal.
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
                // The picture has no file that a task could wait for.
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

    // MARK: Removal

    /// Tells all work in progress for a key's bytes that they were removed or replaced, so that its results are not
    /// kept. Must be called before the tiers are changed.
    /// - Parameters:
    ///   - key: the key of the bytes; `nil` for all keys.
    ///   - condition: returns whether the picture with a given memory key is concerned.
    func revoke(_ removed: Removed, of key: CacheKey?, where condition: (CacheKey) -> Bool = { _ in true }) {
        // Tasks first: work that begins now takes the removals from its task.
        for task in key.map({ live[$0] }) ?? live.all where condition(task.memoryKey) { task.revoke(removed) }
        let works = underWay.withLock { $0.works.values.filter { condition($0.memoryKey) } }
        for work in works { work.removals.add(removed) }
        readers.note(removed, where: condition)
        writes.revoke(removed, where: condition)
    }

    /// Removes pictures that were made from the bytes of a key.
    /// - Parameters:
    ///   - work: work on newer bytes. Its picture stays, and so does other work in progress on the same bytes.
    ///   - options: the options of a request for the bytes.
    func forgetDerived(of key: CacheKey, but work: DecodeWork? = nil, _ options: ResolvedOptions) {
        let origin = options.inMemory(key)
        if let work {
            let others = underWay.withLock { $0.works.values.filter { $0.memoryKey.isDerived(of: origin) } }
            for other in others where !other.source.isSame(as: work.source) {
                other.removals.add(Removed(tiers: .all))
            }
            // A picture that was added before is out of date too.
            if work.memoryKey != origin, memory.entry(for: origin)?.kept.isAdded == true { memory.remove(origin) }
        }
        writes.revoke(Removed(tiers: .all)) { key in
            key.isDerived(of: origin) ? key != work?.memoryKey : work != nil && key == origin
        }
        originals(of: options).removeDerived(of: key)
        memory.removeDerived(of: origin)
    }

    // MARK: Revalidation

    /// Returns one answer's part in the fetch of a newer picture. The first part has the picture made, even if no
    /// caller waits for it.
    /// - Parameter bytes: begins the fetch, if none is in progress.
    func revalidation(of task: ImageTask, by bytes: () -> DataTask) -> Revalidation {
        if let present = revalidations[task.memoryKey] { return Revalidation(task, present, self) }
        let bytes = bytes()
        let maker = task.renewal(self)
        live.add(maker)
        let present = revalidations.add(bytes, maker)
        guard present === bytes else {
            maker.finish(.failure(.cancelled))
            return Revalidation(task, present, self)
        }
        maker.onEnd { [weak self, weak maker] _ in if let maker { self?.revalidations.remove(maker) } }
        follow(bytes, for: maker, derived: nil)
        return Revalidation(task, bytes, self)
    }

    /// Prefetches a newer picture than the one that a task is answered with.
    func revalidation(of task: ImageTask) -> Revalidation {
        revalidation(of: task) {
            let originals = originals(of: task.options)
            if originals !== data { backlog.follow(originals) }
            return originals.revalidate(task.request.data.with(\.callbackQueue, .inPlace))
        }
    }
}
