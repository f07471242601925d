import Foundation

/// The beginnings of bodies that were broken off.
extension DiskTier {
    /// Keeps what has arrived of a body, in the background; at once for ``partial(of:)``.
    func keepPartial(_ partial: PartialBody, for key: CacheKey) {
        guard options.partialLimit > 0 else { return }
        change(key, to: .kept(partial))
    }

    func dropPartial(of key: CacheKey) {
        change(key, to: .dropped)
    }

    /// What was kept for a key, if it can still be continued. Reads a file.
    func partial(of key: CacheKey) -> PartialBody? {
        switch partials.withLock({ $0.changes[key]?.change }) {
        case .kept(let partial): return partial
        case .dropped: return nil
        case nil: break
        }
        guard let record = PartialFiles(root: options.folder).read(options.naming.name(key)), record.key == key,
            !record.lifetime.isExpired(at: now().timeIntervalSince1970)
        else { return nil }
        return PartialBody(
            TransferResponse(headers: record.value.info.headers, body: record.value.data), of: record.value.info.url)
    }

    private func change(_ key: CacheKey, to change: PartialChanges.Change) {
        let number = partials.withLock { $0.set(change, for: key) }
        let isRunning = writer.run {
            // A later change has a turn of its own.
            guard self.partials.withLock({ $0.changes[key]?.number }) == number else { return }
            self.carryOut(change, for: key)
            self.partials.withLock { $0.finish(key, number) }
        }
        if !isRunning { partials.withLock { $0.finish(key, number) } }
    }

    private func carryOut(_ change: PartialChanges.Change, for key: CacheKey) {
        let files = PartialFiles(root: options.folder)
        let name = options.naming.name(key)
        guard opened.files?.isReadOnly == false else { return }
        guard case .kept(let partial) = change else { return files.remove(name) }
        let time = now().timeIntervalSince1970
        let record = EntryRecord(
            key: key,
            value: StoredData(
                data: partial.bytes, info: EntryInfo(url: partial.url, headers: partial.headers, stored: time)),
            lifetime: Lifetime(.days(7), extendedBy: .unchanged, now: now()))
        do {
            try files.write(record, named: name, limit: options.partialLimit, now: Date().timeIntervalSince1970)
        } catch {
            complain("the beginning of a body cannot be kept", error)
        }
    }
}

/// Changes that have not reached the folder yet, by key: reads look here first. A value; its owner locks it.
struct PartialChanges {
    enum Change {
        case kept(PartialBody)
        case dropped
    }

    private(set) var changes: [CacheKey: (number: UInt64, change: Change)] = [:]
    private var next: UInt64 = 0

    mutating func set(_ change: Change, for key: CacheKey) -> UInt64 {
        next += 1
        changes[key] = (next, change)
        return next
    }

    /// Numbers are not used again: changes that are still to be carried out find that they no longer count.
    mutating func removeAll() -> [CacheKey: (number: UInt64, change: Change)] { exchange(&changes, with: [:]) }

    mutating func finish(_ key: CacheKey, _ number: UInt64) {
        if changes[key]?.number == number { changes[key] = nil }
    }
}
