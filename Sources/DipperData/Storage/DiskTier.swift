import Foundation
import Logging
import Synchronization

// The disk tier's folder, format version 4:
//
//     dipper-cache     the marker (CacheFolder.swift)
//     index.sqlite     application_id "DIPR", user_version 4. Tables `entry` and `partial` have a row for each entry
//                      and partial body: key, URL, times, size, the trailer with metadata and checksum
//                      (RecordFormat.swift), and a small body, or the name of its file. Table `total` has the number
//                      and the size of all entries, so that opening costs the same at any size, and the place up to
//                      which rows have been cleared. Table `swept` has the boot in which rows and files were compared.
//     index-2.sqlite   replaces a damaged index, and so on; the highest number counts (IndexFile.swift).
//     blobs/ab/NAME    the body of one row, as it came, compressed, or encoded by a `RecordCodec`.
//     stores/ID.lock   a lock says that the store ID is open (StoreLock.swift).
//
// All files are for one user alone: folders have mode 0700, files 0600, SQLite's included. The cache follows no
// symbolic link in the folder, and neither reads nor removes files with names that it cannot have made.
//
// A body's file has a name that is used once (BlobName), and is never changed. Writing an entry: the file, then a
// transaction that replaces the earlier row, then the earlier file is removed. Removing: a transaction, then the file.
// Clearing: a transaction notes the place up to which rows no longer count; then rows and files are removed. So when a
// process is killed, an entry is the old one, the new one, or gone, and at most a file that no row names is left over.
// A sweep finds it after a store has ended without closing, and in each boot (OrphanSweep.swift). It leaves files of
// open stores alone, because their rows may be about to come.
//
// Only a durable entry is flushed: its file, the folders, then the commit of its row (`synchronous = FULL`). After a
// power cut another file may be torn: its checksum is wrong, and the row is removed. SQLite in WAL mode keeps the index
// consistent. A damaged index is set aside and the cache starts empty; one of another program or version is refused.
//
// A write that fails, or for which staging has no room, removes the earlier version, which is out of date. If the
// removal fails as well, readers of this process ignore that version.
// Several processes may share the folder: SQLite locks the index, and no file is shared before its row is there.

/// Keeps entries that survive the process.
///
/// Reads run on the caller's thread. Changes are staged, where reads see them at once, and carried out by the writer
/// thread. No method throws: an unreadable entry counts as absent, and the log reports failures.
final class DiskTier: Sendable {
    struct Options: Sendable {
        var folder: String
        /// The largest total size of all entries, in bytes; `nil` for no limit.
        var sizeLimit: Int?
        /// The size of the largest record whose body is in the index, in bytes. Up to 16 KB a row is read as fast as a
        /// row and a file, and at half of that written three times as fast.
        var inlineLimit = 8 << 10
        /// The number of bytes that may wait to be written before prefetching pauses. At twice as many, no fetch
        /// starts; at four times as many, new entries are not kept on disk, and their earlier versions are removed.
        var stagingLimit = 8 << 20
        var partialLimit = 128 << 20
        var naming = FileNaming.sha256
        var compression = StorageCompression.off
        var recordCodec: (any RecordCodec)?
        var evictionOrder = EvictionOrder.leastRecentlyUsed
        /// Writes of an earlier boot that were not flushed may be lost.
        var boot = Boot.current
        var faults: (any DiskFaults)?
        var name = "dipper"

        var format: RecordFormat { RecordFormat(compression: compression, codec: recordCodec) }
    }

    let options: Options
    let logger: Logger
    let history: RemovalHistory
    let now: @Sendable () -> Date
    private let expiries: ExpiryWatch
    let writer: Workers
    private let state: Mutex<State>
    let accesses = Mutex<[Int: EntryIndex.Access]>([:])
    let staged = Mutex(Staged())
    /// Whether another process holds the index, so that nothing can be written. Nothing waits for room then.
    let isStalled = Atomic(false)
    let jobs = Mutex(DiskJobs())
    let onBacklog: @Sendable (BacklogNotice) -> Void
    let events: EventHub?

    struct Opened: Sendable {
        var files: BlobFiles?
        var index: EntryIndex?
        var indexFile: IndexFile?
        /// Whether another process holds the index, to be opened once released.
        var isIndexHeld = false
        var isIndexNew = false
        var problem: StoreProblem?
        var isClosed = false

        var isPresent: Bool {
            index != nil && files?.isThere == true && indexFile?.isCurrent ?? (files?.isReadOnly == true)
        }

        var isWritable: Bool { files?.isReadOnly == false }
        var writableIndex: EntryIndex? { isWritable ? index : nil }
    }

    private struct State {
        var opened = Opened()
        var sizeLimit: Int?
        var lastComplaint: TimeInterval = -.infinity
    }

    init(
        _ options: Options, logger: Logger, history: RemovalHistory, now: @escaping @Sendable () -> Date,
        expiries: ExpiryWatch,
        onBacklog: @escaping @Sendable (BacklogNotice) -> Void, events: EventHub?
    ) {
        var options = options
        options.stagingLimit = min(max(1, options.stagingLimit), 1 << 40)
        self.options = options
        writer = Workers(name: JoinableThread.name(options.name, "disk"), threads: 1)
        self.logger = logger
        self.history = history
        self.now = now
        self.expiries = expiries
        self.onBacklog = onBacklog
        self.events = events
        state = Mutex(State(sizeLimit: options.sizeLimit.map { max(0, $0) }))
        reopen(isWaiting: false)
        expiries.add { [weak self] in self?.removeExpiredLater() }
    }

    func noteExpiry(_ expires: TimeInterval) { expiries.note(expires) }

    func noteExpiries() {
        if let next = try? opened.index?.firstExpiration() { expiries.note(next) }
    }

    // MARK: Reads

    /// Returns an entry with the expiration after this access; `nil` if there is none, or if it has expired.
    /// - Parameter reader: the options whose access extension holds; `nil` for the entry's.
    func entry(for key: CacheKey, extendedBy reader: Lifetime.Reader? = nil) -> EntryRecord? {
        let id = EntryIndex.id(of: key)
        // Before the read, so that an entry stored meanwhile is not taken for the one that is read.
        let time = now().timeIntervalSince1970
        guard let (record, expires) = find(.init(key: key), id) else { return nil }
        return accessed(id, record, expires: expires, at: time, extendedBy: reader)
    }

    /// Reads no body from a file, unless a codec has encoded it, and does not count as an access.
    func info(of key: CacheKey) -> EntryInfo? {
        let id = EntryIndex.id(of: key)
        guard let (record, indexed) = find(.init(key: key), id, withBody: false) else { return nil }
        let info = record.value.info
        let known = accesses.withLock { $0[id] }
        let expires = known?.expires(record.lifetime, info, indexed) ?? indexed
        return expires > now().timeIntervalSince1970 ? info : nil
    }

    /// Returns the record with its expiration as indexed, without later accesses.
    private func find(
        _ slot: StagingArea.Slot, _ id: Int, withBody: Bool = true
    ) -> (record: EntryRecord, expires: TimeInterval)? {
        let (change, goneBefore) = staged.withLock { ($0.area[slot]?.change, $0.area.goneBefore(slot)) }
        switch change {
        case .write(let record): return (record, record.lifetime.expires)
        case .remove: return nil
        case nil where goneBefore == .infinity: return nil
        case nil:
            guard let found = stored(id, slot, withBody: withBody) else { return nil }
            return found.record.value.info.stored < max(goneBefore, history.storedBefore) ? nil : found
        }
    }

    /// Removes a damaged row; one that cannot be decoded stays until it is replaced.
    private func stored(
        _ id: Int, _ slot: StagingArea.Slot, withBody: Bool
    ) -> (record: EntryRecord, expires: TimeInterval)? {
        let begun = RemovalHistory.now
        let opened = opened
        var missing: String?
        do {
            while let content = try opened.index?.content(id, in: slot.table) {
                switch try read(content, opened, begun, withBody: withBody) {
                // Another key may share the number.
                case .record(let record): return record.key == slot.key ? (record, content.expires) : nil
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
            indexFailed(error)
        }
        return nil
    }

    /// `nil` if the file of the row is gone.
    func read(
        _ content: EntryIndex.Content, _ opened: Opened, _ begun: UInt64 = RemovalHistory.now, withBody: Bool = true
    ) throws(FileError) -> RecordFormat.Reading? {
        guard let footer = content.footer else { return .damaged }
        var body = content.body
        if withBody || footer.coding == nil {
            if let blob = content.blob { body = try opened.files?.read(blob, size: footer.body) }
            guard let body else { return nil }
            return options.format.decode(body, content.trailer, begun: begun)
        }
        if let blob = content.blob, try opened.files?.size(of: blob) == nil { return nil }
        return EntryRecord.decodeMetadata(content.trailer).map(RecordFormat.Reading.record) ?? .damaged
    }

    /// Returns the rows whose entries have not been removed or flushed.
    /// - Parameter removals: removals that were in progress before the rows were read, and may have ended since.
    func present(_ rows: [EntryIndex.Row], _ removals: [StagingArea.Scope] = []) -> [EntryIndex.Row] {
        let flushed = history.storedBefore
        return staged.withLock { staged in
            rows.filter { row in
                let slot = StagingArea.Slot(key: CacheKey(verbatim: row.key))
                switch staged.area[slot]?.change {
                case .remove: return false
                case .write: return true
                case nil:
                    return row.stored >= max(flushed, staged.area.goneBefore(slot))
                        && !removals.contains { $0.covers(slot) }
                }
            }
        }
    }

    private func accessed(
        _ id: Int, _ record: EntryRecord, expires: TimeInterval, at time: TimeInterval,
        extendedBy reader: Lifetime.Reader?
    ) -> EntryRecord? {
        let lifetime = record.lifetime
        let rule = reader.map { lifetime.read(by: $0, entered: record.value.info.stored, at: time) } ?? lifetime
        let noted = accesses.withLock { accesses -> (expires: TimeInterval, count: Int)? in
            let known = accesses[id]
            let present = known?.expires(lifetime, record.value.info, expires) ?? expires
            guard present > time else { return nil }
            let extended = rule.accessExtension == nil ? present : rule.expires(accessedAt: time)
            var access = EntryIndex.Access(time: time, count: 1 + (known?.count ?? 0))
            // The index knows the entry's own rule.
            if reader != nil || (lifetime.accessExtension == nil && present != expires) { access.given = extended }
            // Of reads at a time, the one that began last counts.
            if let known, known.time > time { (access.time, access.given) = (known.time, known.given) }
            accesses[id] = access
            return (extended, known == nil ? accesses.count : 0)
        }
        guard let noted else { return nil }
        if reader != nil { expiries.note(noted.expires) }
        if noted.count > 0, noted.count.isMultiple(of: 512) { writer.run { self.writeAccesses() } }
        var record = record
        record.lifetime = Lifetime(expires: noted.expires, accessExtension: rule.accessExtension)
        return record
    }

    // MARK: Partial bodies

    static let mostPartials = 1_024

    /// - Parameter claim: tells whether the entry was removed, or a complete one kept, since the fetch began.
    func keepPartial(_ partial: PartialBody, for key: CacheKey, claim: Claim) {
        guard partial.bytes.count <= options.partialLimit else { return dropPartial(of: key) }
        let record = EntryRecord(partial, for: key, now: now())
        stage(.write(record), for: .init(key: key, table: .partial), ifAllowed: { claim.allowsPartial })
    }

    func dropPartial(of key: CacheKey) { stage(.remove, for: .init(key: key, table: .partial)) }

    func partial(of key: CacheKey) -> PartialBody? {
        guard let (record, _) = find(.init(key: key, table: .partial), EntryIndex.id(of: key)),
            !record.lifetime.isExpired(at: now().timeIntervalSince1970)
        else { return nil }
        return PartialBody(record.value)
    }

    func shutdown() async {
        staged.withLock { $0.isClosed = true }
        await synchronize()
        writer.run {
            if self.opened.isWritable { _ = self.repeatFailedRemovals() }
            self.writeAccesses()
            self.opened.index?.close()
            self.replaceOpened(Opened(isClosed: true))
        }
        await writer.shutdown()
    }

    // MARK: State

    var isClosed: Bool { staged.withLock { $0.isClosed } }

    var opened: Opened { state.withLock { $0.opened } }

    func replaceOpened(_ opened: Opened) {
        let old = state.withLock { exchange(&$0.opened, with: opened) }
        _ = consume old
    }

    var sizeLimit: Int? {
        get { state.withLock { $0.sizeLimit } }
        set {
            state.withLock { $0.sizeLimit = newValue.map { max(0, $0) } }
            writer.run { self.keepLimit() }
        }
    }

    /// A full disk fails every write: a warning comes at most once a minute, and `debug` messages between.
    func complain(_ message: Logger.Message, _ error: (any Error)?) {
        let time = now().timeIntervalSince1970
        let isQuiet = state.withLock { state in
            guard time - state.lastComplaint > 60 || time < state.lastComplaint else { return true }
            state.lastComplaint = time
            return false
        }
        logger.log(
            level: isQuiet ? .debug : .warning, message,
            metadata: error.map { ["error": "\($0)", "folder": "\(options.folder)"] })
    }
}
