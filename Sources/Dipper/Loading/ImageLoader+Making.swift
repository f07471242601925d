import Foundation

/// Making pictures, and passing them to the tasks that wait.
extension ImageLoader {
    /// Makes a picture, on a decoding thread or on the request's processing queue.
    func make(_ work: DecodeWork) {
        guard !work.isCancelled else { return work.discount() }
        let originals = originals(of: work.options)
        let result = Result { () throws(DipperError) -> Made in try picture(work) }
        // Before the caller's closures run, because they may wait for other pictures.
        work.discount()
        switch result {
        case .success(let made): finish(work, made, originals)
        case .failure(let error): fail(work, error, originals)
        }
    }

    /// A picture that was made, and the facts that decide how it is kept.
    struct Made {
        var image: Image
        var digest: UInt64
        /// Whether the picture was processed just now, or its file has proved to be up to date.
        var isProcessed = false
        /// The file of a picture that was processed earlier.
        var file: Data?
    }

    private func picture(_ work: DecodeWork) throws(DipperError) -> Made {
        let decode = work.options.decodeOptions(limits, isCancelled: { work.isCancelled })
        let chain = work.options.chain
        let context = ProcessingContext(limits: limits, isCancelled: decode.isCancelled)
        switch work.source {
        case .added(let picture):
            return Made(
                image: try chain.process(picture.image, context), digest: picture.digest,
                isProcessed: !chain.processors.isEmpty)
        case .derived(let stored):
            let digest = stored.info.digestOfOriginal ?? 0
            if let kept = kept(work.memoryKey), kept.digest == digest, digest != 0 {
                return Made(image: kept.image, digest: digest)
            }
            return Made(image: try plain(stored.data, decode), digest: digest)
        case .original(let response, let derived):
            let digest = DataCache.digest(of: response.data)
            if let kept = kept(work.memoryKey), kept.digest == digest {
                // The tasks that had the picture made may not have kept it on disk.
                let isOnDisk = originals(of: work.options).hasData(for: work.imageKey)
                let isProcessed = !chain.processors.isEmpty && !isOnDisk
                return Made(image: kept.image, digest: digest, isProcessed: isProcessed)
            }
            if let derived, derived.info.digestOfOriginal == digest, let image = try? plain(derived.data, decode) {
                return Made(image: image, digest: digest, isProcessed: true, file: derived.data)
            }
            let image = try codecs.decode(response.data, decode)
            return Made(
                image: try chain.process(image, context), digest: digest, isProcessed: !chain.processors.isEmpty)
        }
    }

    /// Decodes a picture that is already processed, in its own size.
    func plain(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
        var options = options
        options.target = nil
        return try codecs.decode(data, options)
    }

    func kept(_ key: CacheKey) -> KeptImage? { memory.entry(for: key)?.kept }

    private func finish(_ work: DecodeWork, _ made: Made, _ originals: DataCache) {
        let info = work.source.info
        let isCurrent = underWay.withLock { $0.works[work.memoryKey] === work }
        let present = work.waiters
        let policies = present.map { originals.policy(of: $0.request.data) }
        let mayKeep = originals.mayKeep(info, for: work.request.data) && policies.contains { $0 != .bypass }
        if isCurrent {
            // A caller has asked for the bytes anew, so pictures made from older bytes are out of date.
            if policies.contains(.ignoreCache), !info.isStandIn, case .original(let response, _) = work.source,
                response.source == .network, work.isCurrent
            {
                forgetDerived(of: work.key, but: work, work.options)
            }
            let isWanted =
                memory.contains(work.memoryKey)
                || present.contains { $0.queue == .fast || $0.options.options.prefetchesToMemory != false }
            if mayKeep, isWanted {
                keep(
                    made.image, digest: made.digest, isAdded: work.isAddedItself, info, for: work.memoryKey,
                    originals.memoryLifetime(of: work.request.data, madeOf: info), unless: work.removals)
            } else if !mayKeep, !info.isStandIn, policies.contains(where: { $0 != .bypass }),
                !work.removals.tiers(for: info).contains(.memory)
            {
                memory.remove(work.memoryKey)
            }
        }
        let waiters = work.close()
        let keepsDerived =
            made.isProcessed && mayKeep && isCurrent && originals.hasDisk
            && policies.contains { [.useCache, .ignoreCache, .fromMemoryOrRefresh].contains($0) }
        let patient = keepsDerived ? waiters.filter { originals.waitsForDisk($0.request.data) } : []
        if keepsDerived { write(work, made, waiters, patient, originals) }
        // Not earlier: until then a removal must find either the work or its write.
        forget(work)
        for task in waiters where !patient.contains(where: { $0 === task }) { succeed(task, made.image, work) }
    }

    func succeed(_ task: ImageTask, _ image: Image, _ work: DecodeWork) {
        switch work.source {
        case .added(let picture): task.succeed(image, source: .memory, info: picture.info)
        case .derived(let stored):
            let use = originals(of: task.options).use(of: stored.info, for: task.request.data)
            task.succeed(image, source: use == .fresh ? .disk : .stale, info: stored.info)
        case .original(let response, _):
            let newer = response.revalidation.map { bytes in revalidation(of: task) { bytes } }
            task.succeed(
                image, source: response.source, info: response.info, attempts: response.attempts,
                metrics: response.metrics, revalidation: newer)
        }
    }

    func fail(_ work: DecodeWork, _ error: DipperError, _ originals: DataCache) {
        let waiters = close(work)
        let isBroken = error == .undecodable || error == .unsupportedFormat
        if isBroken {
            logger.info(
                "undecodable",
                metadata: ["key": "\(redaction.text(work.key))", "error": "\(redaction.sentence("\(error)"))"])
        }
        // If the entry was removed or replaced meanwhile, the entry that is there now is not the broken one.
        let isThere = work.isCurrent
        switch work.source {
        case .derived where isBroken:
            if isThere { originals.removeData(for: work.imageKey) }
            for task in waiters { fetch(task, derived: nil) }
        case .original(let response, _) where isBroken:
            // Bytes of a call that bypasses the cache are not the bytes that the cache has.
            let isKept = waiters.contains { originals.policy(of: $0.request.data) != .bypass }
            if isKept, isThere, !response.info.isStandIn { originals.removeData(for: work.key) }
            let wasKept = response.source != .network
            for task in waiters {
                let fetches = wasKept && originals.policy(of: task.request.data) != .cacheOnly
                if fetches, task.mayRefetch() { fetch(task, derived: nil) } else { task.finish(.failure(error)) }
            }
        case .derived, .original, .added:
            for task in waiters { task.finish(.failure(error)) }
        }
    }
}
