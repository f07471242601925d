import Foundation

/// Removals and evictions, which the writer thread carries out.
extension DiskTier {
    /// Removes a row that was found damaged, unless another one has replaced it since.
    /// - Returns: whether there was such a row.
    @discardableResult
    func removeDamaged(_ id: Int, _ table: EntryIndex.Table = .entry, _ content: EntryIndex.Content) -> Bool {
        let opened = opened
        guard opened.files?.isReadOnly == false else { return false }
        do {
            let isRemoved = try remove(id, table, ifStill: content)
            if isRemoved { complain("an entry was damaged and has been removed", nil) }
            return isRemoved
        } catch {
            indexFailed(error)
            return false
        }
    }

    /// Removes a row that still is as it was read, with its file.
    /// - Returns: whether there was such a row.
    func remove(_ id: Int, _ table: EntryIndex.Table, ifStill content: EntryIndex.Content) throws -> Bool {
        guard let blobs = try opened.index?.remove(id, from: table, ifStill: content) else { return false }
        remove(blobs)
        return true
    }

    /// Removes some of the selected entries, with their files.
    /// - Returns: what was removed, and what is left to remove.
    func removeSome(of selection: EntryIndex.Selection, _ index: EntryIndex) throws -> EntryIndex.Removed {
        let removed = try index.removeSome(of: selection)
        remove(removed.blobs)
        return removed
    }

    /// Removes expired entries, then others in the order of eviction, if the entries exceed the size limit. Removes
    /// the excess at once, for up to ten milliseconds, then continues in the background, a few entries at a time,
    /// until a tenth of the limit is free.
    func keepLimit() {
        let opened = opened
        guard let limit = sizeLimit, let index = opened.index, opened.files?.isReadOnly == false,
            let totals = try? index.totals(), totals.bytes > limit
        else { return }
        var job = Eviction(.oldest(untilSize: limit - limit / 10), .overLimit, atOnce: limit, isFirstExpired: true)
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

    func start(_ clearing: Clearing, _ kind: DiskJobs.Kind) {
        jobs.withLock { $0.isClearing = true }
        start(clearing, kind) { clearing in
            clearing.end(self)
            self.jobs.withLock { $0.isClearing = false }
        }
    }

    /// Removes the rest of what was cleared, if it was cut short and nobody is at it.
    func carryOnClearing() {
        let opened = opened
        guard opened.files?.isReadOnly == false, (try? opened.index?.hasCleared()) == true,
            !jobs.withLock({ $0.isClearing })
        else { return }
        start(Clearing(), .background)
    }

    /// Removes entries in the order of eviction, in the background, until at most `size` bytes are left.
    func trim(toSize size: Int) {
        start(Eviction(.oldest(untilSize: max(0, size)), .overLimit)) { $0.tell(self) }
    }

    /// Removes expired entries and partial bodies, in the background.
    func removeExpiredLater() {
        let time = now().timeIntervalSince1970
        start(Eviction(.expired(at: time), .expired)) { job in
            job.tell(self)
            if self.opened.files?.isReadOnly != false { return }
            self.noteExpiries()
            do {
                self.remove(try self.opened.index?.removePartials(expiredAt: time) ?? [])
            } catch {
                self.indexFailed(error)
            }
        }
    }

    func tell(_ cleaned: EntryIndex.Totals, _ reason: CacheEvent.Cleaning.Reason) {
        guard cleaned.entries > 0 else { return }
        events?.cleaned(.init(tier: .disk, reason: reason, entries: cleaned.entries, bytes: cleaned.bytes))
    }
}
