import Foundation

/// Removals and evictions, which the writer thread carries out.
extension DiskTier {
    /// Removes an entry that was found damaged, unless another one has replaced it since: the entry is checked again
    /// while nothing else can change it.
    func removeDamaged(_ name: String) {
        do {
            guard try removeIfDamaged(name) else { return }
            logger.warning("an entry was damaged and has been removed", metadata: ["file": "\(name)"])
        } catch {
            indexFailed(error)
        }
    }

    /// Removes an entry if it is damaged.
    /// - Parameter key: a key under which the index lists the entry. The entry also counts as damaged if the index
    ///   still has this key for it and its record has another one.
    /// - Returns: `true` if the entry was damaged.
    func removeIfDamaged(_ name: String, of key: String? = nil) throws -> Bool {
        let opened = opened
        guard let files = opened.files, !files.isReadOnly, let index = opened.index else { return false }
        return try index.remove(name) { listed, small in
            let isWhole = { (bytes: UnsafeRawBufferPointer) in
                // Without the codec, which must not be called here: a checksum suffices to tell damage.
                guard let found = RecordFormat().decode(bytes, takeBody: { _ in Data() }).key else { return false }
                return key == nil || listed != key || found.string == key
            }
            do {
                if let file = try files.read(name) {
                    defer { free(file.bytes) }
                    if isWhole(UnsafeRawBufferPointer(start: file.bytes, count: file.count)) { return true }
                    files.remove(name)
                }
            } catch {
                // The file may be readable later.
                return true
            }
            return small?.withUnsafeBytes(isWhole) ?? false
        }
    }

    /// Removes expired entries, then others in the order of eviction, if the entries exceed the size limit. Removes
    /// the excess at once, up to 4,096 entries in one step, then continues in the background, a few entries at a time,
    /// until a tenth of the limit is free.
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

    /// Removes entries in the order of eviction, in the background, until at most `size` bytes are left.
    func trim(toSize size: Int) {
        let time = now().timeIntervalSince1970
        start(Eviction(.oldest(untilSize: max(0, size), now: time), .overLimit)) { $0.tell(self) }
    }

    /// Removes expired entries and old partial bodies, in the background.
    func removeExpiredLater() {
        start(Eviction(.expired(at: now().timeIntervalSince1970), .expired)) { job in
            job.tell(self)
            // Partial bodies have an age limit of their own.
            self.opened.partials?.trimToLife(now: Date().timeIntervalSince1970)
        }
    }

    func tell(_ cleaned: EntryIndex.Totals, _ reason: CacheEvent.Cleaning.Reason) {
        guard cleaned.entries > 0 else { return }
        events?.cleaned(.init(tier: .disk, reason: reason, entries: cleaned.entries, bytes: cleaned.bytes))
    }
}
