import Foundation

/// Reads run on the caller's thread. They take the lock of the state only to look at it, never during I/O, and write
/// nothing: accesses are noted, and written by the writer in batches.
extension DiskTier {
    /// - Parameter reader: the options whose access extension holds; `nil` for the entry's.
    func entry(for key: CacheKey, extendedBy reader: Lifetime.Reader? = nil) -> EntryRecord? {
        let id = EntryIndex.id(of: key)
        // Before the read, so that an entry stored meanwhile is not taken for the one that is read.
        let time = now().timeIntervalSince1970
        guard let (record, expires, _) = find(.init(key: key), id) else { return nil }
        return accessed(id, record, expires: expires, at: time, extendedBy: reader)
    }

    /// Reads no body from a file, unless a codec has encoded it, and does not count as an access.
    func info(of key: CacheKey) -> EntryInfo? {
        let id = EntryIndex.id(of: key)
        guard let (record, indexed, _) = find(.init(key: key), id, withBody: false) else { return nil }
        let info = record.value.info
        let known = state.withLock { $0.accesses[id] }
        let expires = known?.expires(record.lifetime, info, indexed) ?? indexed
        return expires > now().timeIntervalSince1970 ? info : nil
    }

    /// Looks at the state. Waits up to two seconds for an index that was held when the tier was opened, as the index is
    /// for a moment while another store closes it: entries would be missing until the writer has opened it.
    private func look<Result: Sendable>(_ body: (State) -> Result) -> Result {
        let (result, isIndexComing) = state.withLock { (body($0), $0.opened.isIndexComing && !$0.isClosed) }
        if !isIndexComing { return result }
        let isTried = DispatchSemaphore(value: 0)
        // The opening is the first work of the writer.
        if writer.run({ isTried.signal() }) { isTried.wait() }
        return state.withLock { body($0) }
    }

    /// Returns the record with its expiration as indexed, without later accesses, and the partial body that waits to be
    /// written.
    private func find(
        _ slot: StagingArea.Slot, _ id: Int, withBody: Bool = true
    ) -> (record: EntryRecord, expires: TimeInterval, partial: PartialBody?)? {
        let (item, hasStagedRemnant, goneBefore, removals, files, index) = look {
            (
                $0.staged[slot], $0.staged[StagingArea.Slot(key: slot.key, table: .partial)] != nil,
                $0.staged.goneBefore(slot), $0.staged.removals, $0.opened.files, $0.opened.index
            )
        }
        if let item { return item.record.map { ($0, $0.lifetime.expires, item.partial?.body) } }
        guard goneBefore < .infinity, var found = stored(id, slot, files, index, withBody: withBody) else { return nil }
        if hasStagedRemnant { found.record.mayHaveRemnant = true }
        let info = found.record.value.info
        var gone = max(goneBefore, history.storedBefore)
        if !removals.isEmpty { gone = max(gone, removals.goneBefore(slot, Addresses(info))) }
        return info.stored < gone ? nil : (found.record, found.expires, nil)
    }

    /// Removes a damaged row; one that cannot be decoded stays until it is replaced.
    private func stored(
        _ id: Int, _ slot: StagingArea.Slot, _ files: BlobFiles?, _ index: EntryIndex?, withBody: Bool
    ) -> (record: EntryRecord, expires: TimeInterval)? {
        let begun = RemovalHistory.now
        var missing: String?
        do {
            while true {
                let content = try index?.content(id, in: slot.table)
                var reading: RecordFormat.Reading?
                if let content { reading = try read(content, slot, files, begun, withBody: withBody) }
                // A file that could be opened was in the folder.
                if reading == nil ? files?.isLinked == false : content?.blob == nil && files?.wasLinked == false {
                    writer.run { self.reopenIfLost() }
                    return nil
                }
                guard let content else { return nil }
                switch reading {
                // Another key may share the number.
                case .record(var record):
                    guard record.key == slot.key else { return nil }
                    record.mayHaveRemnant = content.hasPartial
                    return (record, content.expires)
                case .unreadable(_, let error):
                    if let error { complain("an entry cannot be decoded and counts as absent", error) }
                    return nil
                // The row has been replaced or removed since it was read, and is read once more.
                case nil where missing != content.blob: missing = content.blob
                case .damaged, nil:
                    writer.run { self.removeDamaged(id, slot.table, content) }
                    return nil
                }
            }
        } catch let error as FileError {
            complain("a file cannot be read", error)
        } catch {
            // Whoever removes the folder takes the index with it.
            if files?.isLinked == false { writer.run { self.reopenIfLost() } } else { indexFailed(error) }
        }
        return nil
    }

    func read(
        _ content: EntryIndex.Content, _ slot: StagingArea.Slot, _ files: BlobFiles?,
        _ begun: UInt64 = RemovalHistory.now, withBody: Bool = true
    ) throws(FileError) -> RecordFormat.Reading? {
        guard let footer = content.footer else { return .damaged }
        var body = content.body
        if withBody || footer.coding == nil {
            if let blob = content.blob {
                body = try files?.read(blob, size: footer.body, mayGrow: slot.table == .partial)
            }
            guard let body else { return nil }
            return options.format.decode(body, content.trailer, for: slot.key, begun: begun)
        }
        if let blob = content.blob, try files?.size(of: blob) == nil { return nil }
        return EntryRecord.decodeMetadata(content.trailer, isForClient: footer.isForClient).map(
            RecordFormat.Reading.record)
            ?? .damaged
    }

    private func accessed(
        _ id: Int, _ record: EntryRecord, expires: TimeInterval, at time: TimeInterval,
        extendedBy reader: Lifetime.Reader?
    ) -> EntryRecord? {
        let lifetime = record.lifetime
        let rule = reader.map { lifetime.read(by: $0, entered: record.value.info.stored, at: time) } ?? lifetime
        let noted = state.withLock { state -> (expires: TimeInterval, isDue: Bool)? in
            let known = state.accesses[id]
            let present = known?.expires(lifetime, record.value.info, expires) ?? expires
            guard present > time else { return nil }
            let extended = rule.accessExtension == nil ? present : rule.expires(accessedAt: time)
            var access = EntryIndex.Access(time: time, count: 1 + (known?.count ?? 0))
            // The index knows the entry's own rule.
            if reader != nil || (lifetime.accessExtension == nil && present != expires) { access.given = extended }
            // Of reads at a time, the one that began last counts.
            if let known, known.time > time { (access.time, access.given) = (known.time, known.given) }
            if known != nil || state.accesses.count < options.mostAccesses { state.accesses[id] = access }
            let isDue = state.owesAccesses(at: time, isNew: known == nil, extends: rule.accessExtension != nil)
            return (extended, isDue)
        }
        guard let noted else { return nil }
        if reader != nil { expiries.note(noted.expires) }
        if noted.isDue { writer.run { self.tryToWriteAccesses() } }
        var record = record
        record.lifetime = Lifetime(expires: noted.expires, accessExtension: rule.accessExtension)
        return record
    }

    /// Reads no body.
    func remnant(of key: CacheKey) -> Remnant? {
        findRemnant(of: key, withBody: false).map { Remnant($0.record.value.info) }
    }

    func partial(of key: CacheKey) -> PartialBody? {
        findRemnant(of: key, withBody: true).flatMap { $0.partial ?? PartialBody($0.record.value) }
    }

    private func findRemnant(of key: CacheKey, withBody: Bool) -> (record: EntryRecord, partial: PartialBody?)? {
        let slot = StagingArea.Slot(key: key, table: .partial)
        guard let (record, _, partial) = find(slot, EntryIndex.id(of: key), withBody: withBody),
            !record.lifetime.isExpired(at: now().timeIntervalSince1970)
        else { return nil }
        return (record, partial)
    }

    /// Returns the rows whose entries have not been removed or flushed.
    /// - Parameter removals: removals that were in progress before the rows were read, and may have ended since.
    func present(_ rows: [EntryIndex.Row], _ removals: [StagingArea.Scope] = []) -> [EntryIndex.Row] {
        let flushed = history.storedBefore
        return state.withLock { state in
            rows.filter { row in
                let slot = StagingArea.Slot(key: CacheKey(verbatim: row.key))
                if let item = state.staged[slot] { return item.record != nil }
                return row.stored >= max(flushed, state.staged.goneBefore(slot, row.addresses))
                    && !removals.contains { $0.covers(slot, row.addresses) }
            }
        }
    }

    var totals: EntryIndex.Totals { (try? presentIndex?.totals()) ?? .init() }

    private var presentIndex: EntryIndex? {
        let opened = look { $0.opened }
        guard let index = opened.index else { return nil }
        if opened.isPresent { return index }
        writer.run { self.reopenIfLost() }
        return nil
    }

    /// - Returns: `false` if entries may be missing: another process holds the index, or the index or the folder could
    ///   not be read or was replaced meanwhile. `true` if there is no index for another reason.
    @discardableResult
    func forEachEntry(_ body: (CachedEntry) -> Void) -> Bool {
        let opened = opened
        guard let index = presentIndex else { return opened.index == nil && !opened.isIndexHeld }
        do {
            var last: Int?
            var removals = state.withLock { $0.staged.newRemovals }
            while case let rows = try index.rows(after: last, limit: 256), let end = rows.last {
                for row in present(rows, removals) { body(CachedEntry(row)) }
                last = end.id
                removals = state.withLock { $0.staged.newRemovals }
            }
            return presentIndex === index && !self.opened.isIndexNew
        } catch {
            indexFailed(error)
            return false
        }
    }

    func page(_ query: EntryQuery) -> (entries: [(CachedEntry, EntryInfo?)], total: Int) {
        guard let found = try? presentIndex?.page(query) else { return ([], 0) }
        return (present(found.rows).map { (CachedEntry($0), RecordFormat.info(in: $0.trailer)) }, found.total)
    }

    /// Returns the keys of some entries that are derived from one, without those that still have to be written.
    func derivedKeys(of key: CacheKey, limit: Int = 32) -> [CacheKey] {
        let rows = (try? presentIndex?.derivedRows(of: key, limit: limit)) ?? []
        return present(rows).map { CacheKey(verbatim: $0.key) }
    }

    func stagedDerivedKeys(of key: CacheKey) -> [CacheKey] { state.withLock { $0.staged.derivedKeys(of: key) } }

    func details(of key: CacheKey) -> CachedEntry? { row(of: key).map(CachedEntry.init) }

    func summary(of key: CacheKey) -> (size: Int, info: EntryInfo?)? {
        row(of: key).map { ($0.size, RecordFormat.info(in: $0.trailer)) }
    }

    private func row(of key: CacheKey) -> EntryIndex.Row? {
        let rows = try? presentIndex?.rows(after: EntryIndex.id(of: key) &- 1, limit: 1)
        guard let row = rows?.first, row.key == key.string else { return nil }
        return present([row]).first
    }

    /// Gives a file in a folder of the program's the bytes of an entry, without a copy.
    /// - Returns: `false` if there is no file with just these bytes, or if it cannot be shared.
    func share(_ key: CacheKey, _ bytes: Data, in folder: Folder, as name: String) -> Bool {
        let opened = opened
        guard let content = try? opened.index?.content(EntryIndex.id(of: key)), let blob = content.blob,
            let footer = content.footer, footer.coding == .identity,
            content.trailer.withUnsafeBytes({ footer.fits(bytes, $0) })
        else { return false }
        return opened.files?.share(blob, size: bytes.count, in: folder, as: name) == true
    }

    /// `nil` if there is no entry, or if its body is in the index, compressed or encoded by a codec.
    func file(for key: CacheKey) -> URL? {
        guard info(of: key) != nil, case let opened = opened,
            let content = try? opened.index?.content(EntryIndex.id(of: key)),
            content.footer?.coding == .identity, let blob = content.blob, let files = opened.files
        else { return nil }
        return URL(fileURLWithPath: files.location(blob))
    }
}

extension CachedEntry {
    init(_ row: EntryIndex.Row) {
        self.init(
            key: CacheKey(verbatim: row.key), url: row.addresses.url, size: row.size,
            stored: Date(timeIntervalSince1970: row.stored), accessed: Date(timeIntervalSince1970: row.accessed),
            expires: row.lifetime.expires.isFinite ? Date(timeIntervalSince1970: row.lifetime.expires) : nil)
    }
}
