import Foundation
import Logging
import Synchronization

// The disk tier's folder, format version 3:
//
//     dipper-cache       the marker: says that the folder is the cache's, and of which format. Created first, in an
//                        empty folder; the cache does not touch a folder without it (CacheFolder.swift).
//     blobs/ab/NAME      one record per file (EntryRecord.swift describes it), for entries larger than `inlineLimit`.
//                        The file decides, not the index: a hit opens it and nothing else. A `RecordCodec` encodes
//                        whole records, here and in every place below that has records; the index has no more in
//                        clear than keys, URLs, times and sizes, and a record's label repeats these.
//     index.sqlite       application_id "DIPR", user_version 2. Table `small` holds the records of small entries;
//                        table `entry` one row per entry, small or large, for listing and limits; table `total`
//                        their number and size, kept by triggers, so that opening costs the same at any size. SQL index
//                        `entry_by_origin` finds derived entries by their keys. Table `entry_use` counts uses if the
//                        eviction order needs that (EntryIndex+Uses.swift).
//     index-2.sqlite     replaces an index that was damaged, and so on; the highest number counts (IndexFile.swift).
//     partial/NAME       a partial body, as a record (PartialFiles.swift).
//     staging/ID/        files being written by one store, which holds a lock on `.lock` in it (StagingFolder.swift).
//
// All files belong to one user and are for that user alone: folders have mode 0700, files 0600, SQLite's included. The
// cache follows no symbolic link in the folder, and neither reads nor removes files with names that it cannot have
// made.
//
// NAME is the key's SHA-256 unless configured otherwise; "ab" are its first two characters. Records may hold compressed
// bodies. Sizes are those on disk, and decide which entries are small.
//
// Writing a large entry: (1) the file is written under staging; in one transaction of the index (2) the file is renamed
//   into place, and (3) its row is committed.
//   Killed before 2: the lock of the staging folder is released; the next store to open removes the folder.
//   Killed before 3: a file without a row, or with the row of the earlier entry. Readers find the file; the next sweep
//   lists it. No file is ever half written under its name.
// Writing a small entry: row and record are committed in one transaction. The next transaction removes a file of that
//   name, if the row is still that of a small entry.
//   Killed in between: readers find the file until the next sweep, which keeps the version that was stored last.
// Removing: the file, then the row, in one transaction.
//   Killed in between: a row without a file; the next sweep removes it.
// Files are renamed and removed in transactions, unless the index cannot be changed. If two processes write one key, or
//   one writes and one removes it, the later one therefore finds the file that belongs to the row. An entry that was
//   found damaged is checked again in a transaction.
// Nothing is flushed to the device per entry, unless the request asks for it. After a power cut a file may be torn: its
//   checksum is then wrong, and the file is removed. SQLite in WAL mode keeps the index consistent. The index records
//   the boot of the machine for which it has been compared with the files. After another boot, and after a process was
//   killed, files and index are compared in the background, in small steps: rows without files, files without rows, and
//   sizes are corrected (Sweep.swift).
// Writing a durable entry: its file is flushed before it is renamed, then the folder, then the commit of its row
//   (`synchronous = FULL`). For a small entry the commit is flushed, then the folder from which a file of its name may
//   just have been removed. Then the entry counts as written. A caller that waits for a write also waits for the one
//   that replaces it.
// A write that fails, or for which staging has no room, removes the earlier version, which is out of date and must not
//   be found. If the removal fails as well, readers of this process ignore the earlier version.
// A lost or damaged index is made anew and filled from the files by a sweep; its small entries are lost. An index of
//   another program or version is refused, as a foreign folder is.
// Several processes may share the folder: files appear and disappear in one step, and SQLite locks the index.

/// The disk tier, whose entries survive the process.
///
/// Reads run on the caller's thread. Changes are staged, where reads see them at once, and carried out by the tier's
/// own writer thread. No method throws: an entry that cannot be read counts as absent, an entry that cannot be written
/// is not kept, and the log reports the failure.
final class DiskTier: Sendable {
    struct Options: Sendable {
        var folder: String
        /// The largest total size of all entries, in bytes; `nil` for no limit.
        var sizeLimit: Int?
        /// The size of the largest record that is kept in the index, in bytes.
        var inlineLimit = 2_048
        /// The number of bytes that may wait to be written before prefetching pauses. At twice as many, nothing is
        /// started. At four times as many, new entries are not kept on disk, and their earlier versions are removed.
        var stagingLimit = 8 << 20
        /// The largest total size of all partial bodies, in bytes.
        var partialLimit = 128 << 20
        var naming = FileNaming.sha256
        var compression = StorageCompression.off
        var recordCodec: (any RecordCodec)?
        var evictionOrder = EvictionOrder.leastRecentlyUsed
        /// The identifier of the current boot of the machine. Writes from before the boot that were not flushed may be
        /// lost.
        var boot = Boot.current
        var faults: (any DiskFaults)?
        /// The prefix of the threads' names.
        var name = "dipper"

        /// The form in which entries are written.
        var format: RecordFormat { RecordFormat(compression: compression, codec: recordCodec) }
    }

    let options: Options
    let logger: Logger
    let history: StoreHistory
    let now: @Sendable () -> Date
    let writer: Workers
    private let state: Mutex<State>
    let accesses = Mutex<[String: EntryIndex.Access]>([:])
    let staged = Mutex(Staged())
    let partials = Mutex(PartialChanges())
    /// Whether another process holds the index, so that nothing can be written for now. Nothing waits for room then.
    let isStalled = Atomic(false)
    /// The jobs that have not ended, which work in steps.
    let jobs = Mutex(DiskJobs())
    /// Called when staging fills up and when there is room again.
    let onBacklog: @Sendable (BacklogNotice) -> Void
    /// The hub that is told of writes, and of entries that were removed without being named.
    let events: EventHub?

    /// The open parts of the store, replaced as a whole when the folder or the index is opened anew.
    struct Opened: Sendable {
        var files: BlobFiles?
        var partials: PartialFiles?
        var index: EntryIndex?
        /// The file of the open index, which tells whether the index at the path is still the same.
        var indexFile: IndexFile?
        /// Whether another process holds the index. The index is opened once that process releases it; files are read
        /// meanwhile.
        var isIndexHeld = false
        /// Whether the index replaces a damaged one.
        var isIndexNew = false
        /// Whether an earlier store in this folder ended without closing.
        var foundAbandoned = false
        /// The reason why nothing can be kept on disk; `nil` if there is none.
        var problem: StoreProblem?
        var isClosed = false

        /// Whether the folder and the index at the path are still the open ones.
        var isPresent: Bool { index != nil && indexFile?.isCurrent == true }
    }

    private struct State {
        var opened = Opened()
        var sizeLimit: Int?
        var lastComplaint: TimeInterval = -.infinity
        /// The time before which stored entries do not count: they were cleared but could not be removed.
        var clearedBefore: TimeInterval = -.infinity
    }

    init(
        _ options: Options, logger: Logger, history: StoreHistory = StoreHistory(), now: @escaping @Sendable () -> Date,
        onBacklog: @escaping @Sendable (BacklogNotice) -> Void = { _ in },
        events: EventHub? = nil
    ) {
        var options = options
        options.stagingLimit = min(max(1, options.stagingLimit), 1 << 40)
        self.options = options
        writer = Workers(name: JoinableThread.name(options.name, "disk"), threads: 1)
        self.logger = logger
        self.history = history
        self.now = now
        self.onBacklog = onBacklog
        self.events = events
        state = Mutex(State(sizeLimit: options.sizeLimit.map { max(0, $0) }))
        reopen(isWaiting: false)
    }

    // MARK: Reads

    /// Returns the entry of a key; `nil` if there is none, if it has expired, or if its checksum is wrong. An entry
    /// with a wrong checksum is removed.
    func entry(for key: CacheKey) -> EntryRecord? {
        let begun = StoreHistory.now
        let (item, isHidden) = staged.withLock { ($0.area[key], $0.area.isHidden(key)) }
        let time = now().timeIntervalSince1970
        if let item {
            guard case .write(let record) = item.change, !record.lifetime.isExpired(at: time) else { return nil }
            return record
        }
        if isHidden { return nil }
        let name = options.naming.name(key)
        let opened = opened
        guard let record = fileRecord(name, opened.files, begun) ?? smallRecord(name, opened.index, begun) else {
            return nil
        }
        // A custom rule may give two keys one name.
        guard record.key == key, !isGone(record.value.info.stored) else { return nil }
        if record.lifetime.isExpired(at: time), !wasExtended(name, record.lifetime, time, opened.index) {
            return nil
        }
        noteAccess(name, time)
        return record
    }

    func contains(_ key: CacheKey) -> Bool { info(of: key) != nil }

    /// Returns the metadata of an entry. Reads no more than the metadata of a large entry's file, unless a codec has
    /// encoded it, and does not count as an access.
    func info(of key: CacheKey) -> EntryInfo? {
        let (item, isHidden) = staged.withLock { ($0.area[key], $0.area.isHidden(key)) }
        let time = now().timeIntervalSince1970
        if let item {
            guard case .write(let record) = item.change, !record.lifetime.isExpired(at: time) else { return nil }
            return record.value.info
        }
        if isHidden { return nil }
        let name = options.naming.name(key)
        let opened = opened
        let file = opened.files?.readMetadata(name)
        if let file, !file.isEncoded {
            guard let head = file.bytes.withUnsafeBytes({ EntryRecord.decodeMetadata($0) }), head.key == key,
                !isGone(head.info.stored),
                !head.lifetime.isExpired(at: time) || wasExtended(name, head.lifetime, time, opened.index)
            else { return nil }
            return head.info
        }
        let encoded = file.flatMap { _ in fileRecord(name, opened.files, StoreHistory.now) }
        guard let record = encoded ?? smallRecord(name, opened.index, StoreHistory.now), record.key == key,
            !isGone(record.value.info.stored),
            !record.lifetime.isExpired(at: time) || wasExtended(name, record.lifetime, time, opened.index)
        else { return nil }
        return record.value.info
    }

    /// Returns whether an entry on disk with this time of storage has been flushed or cleared.
    private func isGone(_ stored: TimeInterval) -> Bool {
        stored < history.storedBefore || stored < state.withLock { $0.clearedBefore }
    }

    /// Returns the rows whose entries count: those that have not been removed, flushed or cleared.
    /// - Parameter removals: the removals that were in progress before the rows were read. They may have ended since.
    func present(_ rows: [EntryIndex.Row], _ removals: [StagingArea.Scope] = []) -> [EntryIndex.Row] {
        let rows = rows.filter { !isGone($0.stored) }
        return staged.withLock { staged in
            rows.filter { row in
                let key = CacheKey(verbatim: row.key)
                if let item = staged.area[key], case .remove = item.change { return false }
                return staged.area[key] != nil
                    || !staged.area.isHidden(key) && !removals.contains { $0.covers(key) }
            }
        }
    }

    private func fileRecord(_ name: String, _ files: BlobFiles?, _ begun: UInt64) -> EntryRecord? {
        let file: (bytes: UnsafeMutableRawPointer, count: Int)?
        do {
            file = try files?.read(name)
        } catch {
            complain("a file cannot be read", error)
            return nil
        }
        guard let file else { return nil }
        let bytes = UnsafeRawBufferPointer(start: file.bytes, count: file.count)
        var isTaken = false
        let reading = options.format.decode(bytes, begun: begun) { body in
            isTaken = true
            return Data(bytesNoCopy: file.bytes, count: body, deallocator: .free)
        }
        if !isTaken { free(file.bytes) }
        return record(reading, name)
    }

    private func smallRecord(_ name: String, _ index: EntryIndex?, _ begun: UInt64) -> EntryRecord? {
        do {
            guard let data = try index?.smallRecord(name) else { return nil }
            let reading = data.withUnsafeBytes { bytes in
                options.format.decode(bytes, begun: begun) { data.prefix($0).withUnsafeBytes { Data($0) } }
            }
            return record(reading, name)
        } catch {
            indexFailed(error)
            return nil
        }
    }

    /// Returns the record that was read. Removes a damaged one; one that cannot be decoded stays until it is replaced.
    private func record(_ reading: RecordFormat.Reading, _ name: String) -> EntryRecord? {
        switch reading {
        case .record(let record): return record
        case .unreadable(_, let error):
            if let error { complain("an entry cannot be decoded and counts as absent", error) }
        case .damaged: writer.run { self.removeDamaged(name) }
        }
        return nil
    }

    /// Returns whether accesses have extended the lifetime of an entry beyond `time`, although its record has expired.
    private func wasExtended(_ name: String, _ lifetime: Lifetime, _ time: TimeInterval, _ index: EntryIndex?) -> Bool {
        guard lifetime.accessExtension != nil else { return false }
        let access = accesses.withLock { $0[name]?.time }
        if let access, lifetime.expires(accessedAt: access) > time { return true }
        guard let expires = try? index?.expiration(name) else { return false }
        return expires > time
    }

    private func noteAccess(_ name: String, _ time: TimeInterval) {
        let count = accesses.withLock { accesses in
            accesses[name] = EntryIndex.Access(time: time, count: 1 + (accesses[name]?.count ?? 0))
            return accesses.count
        }
        if count == 512 { writer.run { self.writeAccesses() } }
    }

    // MARK: Shutdown

    /// Writes the staged changes and ends the writer thread.
    func shutdown() async {
        staged.withLock { $0.isClosed = true }
        await synchronize()
        writer.run {
            self.writeAccesses()
            try? self.opened.index?.close()
            // Releases the staging folder and its lock.
            self.replaceOpened(Opened(isClosed: true))
        }
        await writer.shutdown()
    }

    // MARK: State

    /// Whether the tier has been shut down and takes no more changes.
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

    /// Hides the present entries from readers, because they could not be removed.
    func hideAll() {
        let end = now().timeIntervalSince1970.nextUp
        state.withLock { $0.clearedBefore = max($0.clearedBefore, end) }
    }

    /// Logs a warning at most once a minute, because a full disk fails every write. Other messages have the level
    /// `debug`.
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
