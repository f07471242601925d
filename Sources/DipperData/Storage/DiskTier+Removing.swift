import Foundation

/// What the writer's thread removes, and whom it tells. Nothing here is called from elsewhere.
extension DiskTier {
    /// False if that cannot be done.
    @discardableResult
    func removeNow(_ names: [String]) -> Bool {
        guard let files = opened.files, !files.isReadOnly else { return false }
        for name in names { files.remove(name) }
        do {
            try opened.index?.remove(names)
            return true
        } catch {
            indexFailed(error)
            return false
        }
    }

    /// Removes the least recently used entries, a few at a time, until there is a tenth of room.
    func keepLimit() {
        guard let limit = sizeLimit, let index = opened.index, let files = opened.files, !files.isReadOnly,
            let totals = try? index.totals(), totals.bytes > limit
        else { return }
        removeExpired()
        removeOldest(untilSize: limit - limit / 10)
    }

    func removeOldest(untilSize size: Int) {
        // Who was read lately is not among the oldest.
        writeAccesses()
        var cleaned = Cleaned()
        while removeListed(
            counting: &cleaned,
            { index in
                var excess = try index.totals().bytes - size
                guard excess > 0 else { return [] }
                return try index.oldest(64).prefix { entry in
                    defer { excess -= entry.size }
                    return excess > 0
                }
            })
        {}
        tell(cleaned, .overLimit)
    }

    func removeExpired() {
        writeAccesses()
        let time = now().timeIntervalSince1970
        var cleaned = Cleaned()
        while removeListed(counting: &cleaned, { try $0.expired(at: time, limit: 64)[...] }) {}
        tell(cleaned, .expired)
    }

    /// Removes what was stored before a moment, and what has expired.
    func removeNow(storedBefore limit: TimeInterval) {
        removeExpired()
        PartialFiles(root: options.folder).trim(to: .max, writtenAfter: limit, now: limit)
        var cleaned = Cleaned()
        var last = ""
        do {
            while let rows = try opened.index?.rows(after: last, limit: 256), let end = rows.last {
                let old = rows.filter { $0.stored < limit }
                if removeNow(old.map(\.name)) { cleaned.count(old.map(\.size)) }
                last = end.name
            }
        } catch {
            indexFailed(error)
        }
        tell(cleaned, .flushed)
    }

    func clearNow() {
        accesses.withLock { $0 = [:] }
        guard let files = opened.files, !files.isReadOnly else { return }
        let totals = totals
        for shard in files.shards() {
            for name in files.names(inShard: shard) { files.remove(name) }
        }
        PartialFiles(root: options.folder).removeAll()
        do {
            try opened.index?.removeAll()
        } catch {
            indexFailed(error)
        }
        tell(Cleaned(entries: totals.entries, bytes: totals.bytes), .cleared)
    }

    /// Removes what was made from an entry.
    func removeDerivedNow(of key: CacheKey) {
        guard opened.files?.isReadOnly == false else { return }
        let first = key.derivedPrefix
        // The mark that comes next takes the place of the last one.
        let end = String(first.dropLast()) + "$"
        var cleaned = Cleaned()
        while removeListed(counting: &cleaned, { try $0.derived(from: first, before: end, limit: 64)[...] }) {}
        removeUnlisted { $0.isDerived(of: key) }
    }

    /// Looks at the files that a rebuilding of the index has not come to yet.
    private func removeUnlisted(_ condition: (CacheKey) -> Bool) {
        guard let files = opened.files, let position = try? opened.index?.rebuildPosition() else { return }
        for shard in files.shards() where shard > position {
            for name in files.names(inShard: shard) {
                guard let file = files.readMetadata(name),
                    let head = file.bytes.withUnsafeBytes({ EntryRecord.decodeMetadata($0) }), condition(head.key)
                else { continue }
                files.remove(name)
            }
        }
    }

    // MARK: Steps

    /// Entries that went, and what they took.
    private struct Cleaned {
        var entries = 0
        var bytes = 0

        mutating func count(_ sizes: [Int]) {
            entries += sizes.count
            bytes += sizes.reduce(0, +)
        }
    }

    /// Removes a few entries that the index names. False once it names none, or fails.
    private func removeListed(
        counting cleaned: inout Cleaned, _ list: (EntryIndex) throws -> ArraySlice<(name: String, size: Int)>
    ) -> Bool {
        guard let index = opened.index else { return false }
        do {
            let entries = try list(index)
            guard !entries.isEmpty else { return false }
            for entry in entries { opened.files?.remove(entry.name) }
            try index.removeListed(entries.map(\.name))
            cleaned.count(entries.map(\.size))
            return true
        } catch {
            indexFailed(error)
            return false
        }
    }

    private func tell(_ cleaned: Cleaned, _ reason: CacheEvent.Cleaning.Reason) {
        guard cleaned.entries > 0 else { return }
        onCleaned?(.init(tier: .disk, reason: reason, entries: cleaned.entries, bytes: cleaned.bytes))
    }
}
