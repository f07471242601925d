import Foundation

/// Removals and evictions, on the writer's thread.
extension DiskTier {
    /// Removes an entry that was found damaged, unless another one has taken its place since: it is looked at again while
    /// nobody else can change it.
    func removeDamaged(_ name: String) {
        do {
            guard try removeIfDamaged(name) else { return }
            logger.warning("an entry was damaged and has been removed", metadata: ["file": "\(name)"])
        } catch {
            indexFailed(error)
        }
    }

    /// - Parameter key: the entry counts as damaged, too, if the index has this key for it and its record another one.
    /// - Returns: whether it was damaged.
    func removeIfDamaged(_ name: String, of key: String? = nil) throws -> Bool {
        let opened = opened
        guard let files = opened.files, !files.isReadOnly, let index = opened.index else { return false }
        return try index.remove(name) { listed, small in
            let isWhole = { (bytes: UnsafeRawBufferPointer) in
                guard let record = EntryRecord.decode(bytes, takeBody: { _ in Data() }) else { return false }
                return key == nil || listed != key || record.key.string == key
            }
            do {
                if let file = try files.read(name) {
                    defer { free(file.bytes) }
                    if isWhole(UnsafeRawBufferPointer(start: file.bytes, count: file.count)) { return true }
                    files.remove(name)
                }
            } catch {
                // It may be read another time.
                return true
            }
            return small?.withUnsafeBytes(isWhole) ?? false
        }
    }

    /// Removes the least recently used entries once there are too many: what is over the limit at once, then a few at a
    /// time until there is a tenth of room.
    func keepLimit() {
        let opened = opened
        guard let limit = sizeLimit, let index = opened.index, opened.files?.isReadOnly == false,
            let totals = try? index.totals(), totals.bytes > limit
        else { return }
        let time = now().timeIntervalSince1970
        var job = Eviction(
            .oldest(untilSize: limit - limit / 10, now: time), .overLimit, atOnce: limit, isFirstExpired: true)
        do {
            guard try job.step(self) else { return job.tell(self) }
        } catch {
            indexFailed(error)
            return job.tell(self)
        }
        guard !jobs.withLock({ exchange(&$0.isKeepingLimit, with: true) }) else { return job.tell(self) }
        start(job) { job in
            job.tell(self)
            self.jobs.withLock { $0.isKeepingLimit = false }
        }
    }

    /// Removes the least recently used entries until no more than this is left, in the background.
    func trim(toSize size: Int) {
        let time = now().timeIntervalSince1970
        start(Eviction(.oldest(untilSize: max(0, size), now: time), .overLimit)) { $0.tell(self) }
    }

    /// Removes entries that have expired, in the background.
    func removeExpiredLater() {
        start(Eviction(.expired(at: now().timeIntervalSince1970), .expired)) { job in
            job.tell(self)
            // Beginnings of bodies have a longest life of their own.
            self.opened.partials?.trimToLife(now: Date().timeIntervalSince1970)
        }
    }

    func tell(_ cleaned: EntryIndex.Totals, _ reason: CacheEvent.Cleaning.Reason) {
        guard cleaned.entries > 0 else { return }
        onCleaned?(.init(tier: .disk, reason: reason, entries: cleaned.entries, bytes: cleaned.bytes))
    }
}
