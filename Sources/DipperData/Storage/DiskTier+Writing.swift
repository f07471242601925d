import Foundation

/// Used on the writer thread alone.
extension DiskTier {
    func writeStaged() {
        while writeBatch() {
            // mutant WaitingWrite: `if writer.run({ self.writeStaged() })` => `if isClosed`
            if writer.run({ self.writeStaged() }) { return }
        }
    }

    private func writeBatch() -> Bool {
        let (batch, removals, isDone) = state.withLock { state in
            let batch = state.staged.nextBatch()
            state.isWriting = !batch.isEmpty || !state.staged.newRemovals.isEmpty
            return (batch, state.staged.removals, !state.isWriting)
        }
        if isDone { return false }
        if opened.isIndexHeld { attempt {} } else { reopenIfLost() }
        // A removal that fails once fails no write.
        let areRemoved =
            carryOutRemovals(removals) || carryOutRemovals(state.withLock { $0.staged.rest(of: removals) })
        let failed = areRemoved ? carryOut(batch) : failure(of: batch)
        let finished = update { $0.staged.finish(batch, failed: failed) }
        for (item, isDone) in finished { for tell in item.whenDone { tell(isDone) } }
        return true
    }

    /// Writes files of large bodies, changes all rows in one transaction, then removes files that no row names.
    private func carryOut(_ batch: [StagingArea.Item]) -> Set<UInt64> {
        if batch.isEmpty { return [] }
        guard let files = opened.files, let index = opened.writableIndex else { return failure(of: batch) }
        var failed: Set<UInt64> = []
        var changes: [EntryIndex.Change] = []
        var written: [String] = []
        let time = now().timeIntervalSince1970
        for item in batch {
            let id = EntryIndex.id(of: item.slot.key)
            let table = item.slot.table
            // Also without a new row: the earlier version must not stand for an entry that cannot be written.
            var change: EntryIndex.Change? = .init(id: id, table: table)
            defer { if let change { changes.append(change) } }
            if table == .entry { changes.append(.init(id: id, table: .partial)) }
            guard var record = item.record else {
                growing.withLock { $0.forget(id) }
                continue
            }
            do {
                if let partial = item.partial {
                    if growsFile(partial.body) {
                        // Whatever becomes of this part, the one before can be continued.
                        change = nil
                        guard let grown = try grow(partial, id, files) else { continue }
                        if grown.isNew { written.append(grown.blob) }
                        let trailer = RecordFormat.trailer(of: record, body: (grown.count, grown.digest))
                        let new = row(record, id, trailer, grown.count, at: time, in: grown.blob)
                        change = .init(id: id, table: table, new: (new, nil))
                        continue
                    }
                    growing.withLock { $0.forget(id) }
                    record.value = StoredData(data: partial.body.bytes, info: record.value.info)
                }
                let (body, trailer) = try options.format.encode(record, isPlain: table == .partial)
                // Such an entry would push out all others, and leave as well.
                if table == .entry, body.count + trailer.count > largestEntry {
                    growing.withLock { $0.forget(id) }
                    failed.insert(item.number)
                    continue
                }
                var blob: String?
                if body.count + trailer.count > options.inlineLimit {
                    // The name shows other programs a whole body.
                    let name = table == .partial ? GrowingFiles.name : options.naming.name(of: record)
                    blob =
                        try finishGrowing(body, id, name, item.durability, files)
                        ?? files.write(body, id, name, item.durability)
                }
                if let blob { written.append(blob) }
                var new = row(record, id, trailer, body.count, at: time, in: blob)
                if table == .partial, record.value.info.status >= 400 { new.size = 0 }
                change?.new = (new, blob == nil ? body : nil)
                change?.requested = record.value.info.requested
            } catch {
                complain("an entry cannot be written and stays in memory only", error)
                failed.insert(item.number)
            }
        }
        let durability: Durability = batch.contains { $0.durability == .durable } ? .durable : .relaxed
        var unneeded: [String] = []
        guard attempt(room: .none, { unneeded = try index.write(durability, changes) }) != nil else {
            remove(written)
            keepLimit()
            return failure(of: batch)
        }
        for change in changes where change.table == .entry {
            if let (row, _) = change.new { expiries.note(row.lifetime.expires) }
        }
        regainRoom()
        remove(unneeded)
        if batch.contains(where: { $0.slot.table == .partial && $0.record != nil && $0.partial?.isArriving != true }) {
            let excess = EntryIndex.Selection.partials(
                expiredAt: time, bytes: options.partialLimit, count: Self.mostPartials,
                sparing: growing.withLock { $0.arriving })
            attempt { remove(try index.removeSome(of: excess).blobs) }
        }
        keepLimit()
        // mutant Clearing: `carryOnClearing()` => `noteExpiries()`
        carryOnClearing()
        // The entry may have been removed at once, to keep the limit or by another process.
        for item in batch where item.durability == .durable && item.record != nil {
            if isFound(item.slot) == false { failed.insert(item.number) }
        }
        return failed
    }

    private func row(
        _ record: EntryRecord, _ id: Int, _ trailer: [UInt8], _ count: Int, at time: TimeInterval, in blob: String?
    ) -> EntryIndex.Row {
        EntryIndex.Row(
            id: id, key: record.key.string, addresses: Addresses(record.value.info), size: count + trailer.count,
            stored: record.value.info.stored, accessed: time, lifetime: record.lifetime, blob: blob,
            trailer: Data(trailer))
    }

    /// Returns whether the files are gone.
    @discardableResult
    func remove(_ blobs: [String]) -> Bool {
        guard let left = opened.files?.remove(blobs), !left.isEmpty else { return true }
        state.withLock { state in
            for name in left where state.undeleted.count < Self.mostUndeleted { state.undeleted.insert(name) }
            if !state.undeleted.isSuperset(of: left) { state.hasFailedRemoval = true }
        }
        do {
            try opened.index?.requestSweep()
        } catch {
            indexFailed(error)
        }
        return false
    }

    /// Readers must not find earlier versions any more.
    private func failure(of batch: [StagingArea.Item]) -> Set<UInt64> {
        let outdated = batch.filter { $0.partial?.isArriving != true }.map { (item: $0, isFound: isFound($0.slot)) }
            .filter { $0.isFound != false }
        let owed = outdated.filter { $0.item.record == nil || $0.isFound == true }
        state.withLock { $0.staged.addOutdated(outdated.map(\.item.slot), owed: owed.map(\.item.slot)) }
        return Set(batch.map(\.number))
    }

    /// Returns `nil` for an index that cannot be read now and may be read later.
    private func isFound(_ slot: StagingArea.Slot) -> Bool? {
        guard let index = opened.index else { return opened.problem?.isRefusal == true ? false : nil }
        do {
            return try index.content(EntryIndex.id(of: slot.key), in: slot.table) != nil
        } catch {
            return nil
        }
    }

    func flush(_ key: CacheKey) -> Bool {
        let (opened, id) = (opened, EntryIndex.id(of: key))
        guard info(of: key) != nil, let files = opened.files, let index = opened.writableIndex else { return false }
        do {
            guard let content = try index.content(id) else { return false }
            // mutant Flush: `try files.flush(blob)` => `_ = blob`
            if let blob = content.blob { try files.flush(blob) }
            return try index.flush(id, ifStill: content)
        } catch {
            complain("an entry cannot be flushed", error)
            return false
        }
    }

    private static let mostPartials = 1_024
    private static let mostUndeleted = 4_096
    static let mostAttempts = 30

    /// Makes a change of the index, and tries again for up to a minute while another process holds it. If that was in
    /// vain before, tries once, so that later changes lose no time.
    @discardableResult
    func attempt<Result>(room: Room = .reserve, _ change: () throws -> Result) -> Result? {
        var left = state.withLock { $0.isStalled } ? 1 : Self.mostAttempts
        while true {
            do {
                let result = try attemptOnce(room: room, change)
                setStalled(false)
                return result
            } catch {
                left -= 1
                guard IndexFailure(error) == .busy, left > 0, !hasGivenUp else {
                    indexFailed(error)
                    return nil
                }
                setStalled(true)
            }
        }
    }

    /// Opens the index, if another process has held it so far, and makes a change. Fails after two seconds while
    /// another process holds the index; at once in a tier that has ended in vain attempts.
    func attemptOnce<Result>(room: Room = .reserve, _ change: () throws -> Result) throws -> Result {
        let held = SQLiteError(code: SQLiteError.busy)
        if hasGivenUp { throw held }
        let begun = ContinuousClock.now
        do {
            if opened.isIndexHeld { reopen() }
            if opened.isIndexHeld { throw held }
            defer { if room != .none { regainRoom() } }
            return try withRoom(room, opened.files, change)
        } catch let error where IndexFailure(error) == .busy {
            state.withLock { if $0.isClosed { $0.lastAttempts -= 1 } }
            Thread.sleep(forTimeInterval: max(0, 2 - (.now - begun) / .seconds(1)))
            throw error
        }
    }

    /// The room that a change may have on a full disk.
    enum Room {
        case none, reserve
        /// For a removal that the program waits for: the reserve, then files of other entries, a few for all removals
        /// until there is room again.
        case bodies
    }

    func withRoom<Result>(_ room: Room, _ files: BlobFiles?, _ change: () throws -> Result) throws -> Result {
        var rounds = room == .none ? 0 : 4
        while true {
            do {
                return try change()
            } catch let error where rounds > 0 && IndexFailure(error) == .full {
                rounds -= 1
                let most = room == .bodies ? state.withLock { $0.bodiesLeft } : 0
                guard let given = files?.giveUpRoom(bodies: most) else { throw error }
                state.withLock { $0.bodiesLeft -= given }
            }
        }
    }

    private func regainRoom() {
        guard let files = opened.files, files.isTight else { return }
        keepReserve()
        if !files.isTight { return }
        try? opened.index?.emptyLog()
        keepReserve()
    }

    func keepReserve() {
        guard let files = opened.files else { return }
        files.keepReserve()
        if !files.isTight { state.withLock { $0.bodiesLeft = BlobFiles.mostGivenUp } }
    }

    var hasGivenUp: Bool { state.withLock { $0.lastAttempts == 0 } }

    private func setStalled(_ isStalled: Bool) {
        let isNews = update { state in
            if !isStalled { state.lastAttempts = State.mostLastAttempts }
            return exchange(&state.isStalled, with: isStalled) != isStalled
        }
        if isNews, isStalled { complain("another process holds the index: entries wait in memory", nil) }
    }

    /// Keeps the accesses for later if another process holds the index.
    func writeAccesses() throws {
        let opened = opened
        if opened.isIndexHeld { return }
        let accesses = state.withLock { exchange(&$0.accesses, with: [:]) }
        guard !accesses.isEmpty, let index = opened.writableIndex else { return }
        do {
            try index.touch(accesses)
        } catch let error where IndexFailure(error) == .busy {
            state.withLock { $0.accesses.merge(accesses) { later, _ in later } }
            throw error
        }
        noteExpiries()
    }

    func tryToWriteAccesses() {
        do { try writeAccesses() } catch { indexFailed(error) }
    }
}
