import Foundation

/// What the writer's thread removes, and whom it tells.
extension DiskTier {
    /// False if that cannot be done.
    @discardableResult
    func removeNow(_ names: [String]) -> Bool {
        let opened = opened
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

    /// Removes a file and its row, unless the index has a record that the file was to replace.
    func removeDamagedFile(_ name: String) {
        let opened = opened
        guard let files = opened.files, !files.isReadOnly else { return }
        files.remove(name)
        do {
            try opened.index?.compare([name]) { _, listed in listed?.isSmall == false ? .remove : .keep }
        } catch {
            indexFailed(error)
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
