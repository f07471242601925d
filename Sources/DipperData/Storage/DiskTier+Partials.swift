import Foundation

/// Partial bodies, which interrupted transfers leave.
extension DiskTier {
    /// Keeps a partial body: at once for ``partial(of:)``, on disk in the background.
    /// - Parameter claim: the right to keep it. Interrupted work may end after the entry was removed, or after a
    ///   complete entry was kept.
    func keepPartial(_ partial: PartialBody, for key: CacheKey, claim: Claim) {
        guard options.partialLimit > 0 else { return }
        let kept = PartialChanges.Change.kept(partial, stored: now().timeIntervalSince1970)
        change(key, to: kept) { partials in
            claim.allowsPartial && partials.bytes + partial.bytes.count <= self.options.stagingLimit * 4
        }
    }

    func dropPartial(of key: CacheKey) {
        change(key, to: .dropped) { _ in true }
    }

    /// Returns the partial body of a key, if it can still be continued. Reads a file unless a change is still waiting.
    func partial(of key: CacheKey) -> PartialBody? {
        switch partials.withLock({ $0.changes[key]?.change }) {
        case .kept(let partial, _): return partial
        case .dropped: return nil
        case nil: break
        }
        guard let record = opened.partials?.read(options.naming.name(key)), record.key == key,
            !record.lifetime.isExpired(at: now().timeIntervalSince1970),
            record.value.info.stored >= history.storedBefore
        else { return nil }
        return PartialBody(
            TransferResponse(headers: record.value.info.headers, body: record.value.data), of: record.value.info.url)
    }

    private func change(
        _ key: CacheKey, to change: PartialChanges.Change, ifAllowed isAllowed: (borrowing PartialChanges) -> Bool
    ) {
        let staged = partials.withLock { isAllowed($0) ? $0.set(change, for: key) : nil }
        guard let number = staged?.number else { return }
        let isRunning = writer.run {
            // A later change of the key has its own place in the queue.
            guard self.partials.withLock({ $0.changes[key]?.number }) == number else { return }
            self.carryOut(change, for: key)
            let done = self.partials.withLock { $0.finish(key, number) }
            _ = consume done
        }
        if !isRunning {
            let dropped = partials.withLock { $0.finish(key, number) }
            _ = consume dropped
        }
    }

    private func carryOut(_ change: PartialChanges.Change, for key: CacheKey) {
        let opened = opened
        let name = options.naming.name(key)
        guard let files = opened.partials, opened.files?.isReadOnly == false else { return }
        guard case .kept(let partial, let time) = change else { return files.remove(name) }
        let record = EntryRecord(
            key: key,
            value: StoredData(
                data: partial.bytes,
                info: EntryInfo(url: partial.url, headers: Storing.fields(of: partial.headers), stored: time)),
            lifetime: Lifetime(.days(7), extendedBy: .unchanged, now: now()))
        do {
            try files.write(record, named: name, limit: options.partialLimit, now: Date().timeIntervalSince1970)
        } catch {
            complain("the beginning of a body cannot be kept", error)
        }
    }
}

/// The changes to partial bodies that have not reached the folder yet, by key. Reads look here first. A value; its
/// owner locks it.
struct PartialChanges {
    enum Change {
        /// A partial body to keep, with the time at which it was stored, in seconds since 1970.
        case kept(PartialBody, stored: TimeInterval)
        case dropped

        var bytes: Int { if case .kept(let partial, _) = self { partial.bytes.count } else { 0 } }
    }

    typealias Changes = [CacheKey: (number: UInt64, change: Change)]

    private(set) var changes: Changes = [:]
    private var next: UInt64 = 0
    /// The size of all waiting partial bodies, in bytes.
    private(set) var bytes = 0

    // Numbers are not used again, so that a queued change finds out whether it still counts. The caller releases
    // removed changes outside its lock.

    mutating func set(_ change: Change, for key: CacheKey) -> (number: UInt64, replaced: Change?) {
        next += 1
        let replaced = remove(key)
        changes[key] = (next, change)
        bytes += change.bytes
        return (next, replaced)
    }

    mutating func removeAll() -> Changes {
        bytes = 0
        return exchange(&changes, with: [:])
    }

    mutating func remove(_ key: CacheKey) -> Change? {
        guard let change = changes.removeValue(forKey: key)?.change else { return nil }
        bytes -= change.bytes
        return change
    }

    mutating func remove(storedBefore limit: TimeInterval) -> [Change] {
        let old = changes.filter { if case .kept(_, let stored) = $0.value.change { stored < limit } else { false } }
        return old.keys.compactMap { remove($0) }
    }

    mutating func finish(_ key: CacheKey, _ number: UInt64) -> Change? {
        changes[key]?.number == number ? remove(key) : nil
    }
}
