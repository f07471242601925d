import Foundation
import Logging
import Synchronization

// The disk tier's folder, format version 3:
//
//     dipper-cache       the marker: says that the folder is the cache's, and of which format. Made first, in an empty
//                        folder; a folder without it is not touched (CacheFolder.swift).
//     blobs/ab/NAME      one record per file (EntryRecord.swift says what is in it), for entries larger than
//                        `inlineLimit`. The file is the truth: a hit opens it and nothing else.
//     index.sqlite       application_id "DIPR", user_version 2. Table `small` holds the records of small entries;
//                        table `entry` one row per entry, small or large, for listing and limits; table `total`
//                        their number and size, kept by triggers, so that opening costs the same at any size. Index
//                        `entry_by_origin` finds entries that were made from others, by their keys.
//     index-2.sqlite     takes the place of an index that was damaged, and so on; the last one counts (IndexFile.swift).
//     partial/NAME       the beginning of a body that was broken off, as a record (PartialFiles.swift).
//     staging/ID/        files being written by one process, which holds a lock on `.lock` in it (StagingFolder.swift).
//
// All of it belongs to one user and is for that user alone: folders have mode 0700, files 0600, SQLite's included. No
// symbolic link in it is followed. Names that the cache cannot have made are neither read nor removed.
//
// NAME is the key's SHA-256 unless configured otherwise; "ab" are its first two characters. Records may hold bodies that
// are compressed; sizes are those on disk, and say which entries are small.
//
// Writing a large entry: (1) the file is written under staging; in one transaction of the index it is (2) renamed into
//   place, and (3) its row is committed.
//   Killed before 2: the staging folder's lock is gone; whoever opens the store next removes the folder.
//   Killed before 3: a file without a row, or with the row of the entry before. Readers find it; the next sweep lists it.
//   So no file is ever half written under its name.
// Writing a small entry: row and record are committed in one transaction; a file of that name is removed in the next one,
//   if the row is still that of a small entry.
//   Killed in between: the file stands for the entry until the next sweep, which keeps what was stored last.
// Removing: the file, then the row, in one transaction.
//   Killed in between: a row without a file; the next sweep removes it.
// Files are renamed and removed only in transactions: of two processes that write one key, or of which one writes and one
//   removes, whoever comes last finds the file that belongs to the row. What was found damaged is looked at again there.
// Nothing is flushed to the device per entry, unless the request asks for it. After a power cut a file may be torn: its
//   checksum says so, and it is removed. SQLite in WAL mode keeps the index consistent. The index notes for which start of
//   the machine it has been compared with the files; after another start, and after a process was killed, they are compared
//   in the background, in small steps: rows and files without the other, and sizes, are put right (Sweep.swift).
// Writing a durable entry: its file is flushed before it is renamed, then the folder, then the commit of its row
//   (`synchronous = FULL`); for a small one the commit, and then the folder from which a file of its name may just have been
//   removed. Then it counts as written. Whoever waits for a write waits also for the one that takes its place.
// A write that cannot be made, or for which there is no room among what waits, takes the earlier version away: out of date,
//   it must not be found. Where not even that can be done, readers of this process pass over it.
// A lost or damaged index is made anew and filled from the files by a sweep; small entries are lost with it. One of another
//   program or version is refused like a foreign folder.
// Several processes may share the folder: files appear and vanish in one step, SQLite locks the rest.

/// The disk tier: what survives the process.
///
/// Reads are made on the caller's thread. Changes are staged, seen by reads at once, and carried out by a thread of
/// the tier's own. Nothing here throws: what cannot be read is not there, what cannot be written is not kept, and the
/// log says so.
final class DiskTier: Sendable {
    struct Options: Sendable {
        var folder: String
        /// The most that all entries together may take, in bytes; `nil` for no limit.
        var sizeLimit: Int?
        /// Records up to this size are kept in the index.
        var inlineLimit = 2_048
        /// Bytes that may wait to be written before prefetching pauses; at twice as many nothing is started, and at
        /// four times as many new entries are not kept on disk, and their earlier versions are removed.
        var stagingLimit = 8 << 20
        /// The most that the beginnings of broken off bodies may take, in bytes.
        var partialLimit = 128 << 20
        var naming = FileNaming.sha256
        var compression = StorageCompression.off
        /// Names the time since the machine was started: what was not flushed before that may be lost.
        var boot = Boot.current
        /// Begins the names of the threads.
        var name = "dipper"
    }

    let options: Options
    let logger: Logger
    let history: StoreHistory
    let now: @Sendable () -> Date
    let writer: WorkerPool
    private let state: Mutex<State>
    let accesses = Mutex<[String: TimeInterval]>([:])
    let staged = Mutex(Staged())
    let partials = Mutex(PartialChanges())
    /// Another process holds the index: nothing can be written for now, and nobody waits for room.
    let isStalled = Atomic(false)
    /// Long work that is done in steps.
    let jobs = Mutex(DiskJobs())
    /// Told when staging is filling up and when there is room again.
    let onBacklog: @Sendable (BacklogNotice) -> Void
    /// Told what was removed without having been named; from the writer's thread.
    let onCleaned: (@Sendable (CacheEvent.Cleaning) -> Void)?

    /// What is open; replaced as a whole when the folder or the index has to be made anew.
    struct Opened: Sendable {
        var files: BlobFiles?
        var partials: PartialFiles?
        var index: EntryIndex?
        /// Tells whether the index at the path is still the one that is open.
        var indexFile: IndexFile?
        /// Another process holds the index, which is opened once that lets go. Files are read meanwhile.
        var isIndexHeld = false
        /// The index was damaged, and this is a new one.
        var isIndexNew = false
        /// A store that was open here has ended without closing.
        var foundAbandoned = false
        /// Why nothing can be kept on disk, if that is so.
        var problem: StoreProblem?
        var isClosed = false

        /// Whether the folder and the index are still those that are open.
        var isPresent: Bool { index != nil && indexFile?.isCurrent == true }
    }

    private struct State {
        var opened = Opened()
        var sizeLimit: Int?
        var lastComplaint: TimeInterval = -.infinity
        /// Entries stored before this time do not count: they were cleared but could not be removed.
        var clearedBefore: TimeInterval = -.infinity
    }

    init(
        _ options: Options, logger: Logger, history: StoreHistory = StoreHistory(), now: @escaping @Sendable () -> Date,
        onBacklog: @escaping @Sendable (BacklogNotice) -> Void = { _ in },
        onCleaned: (@Sendable (CacheEvent.Cleaning) -> Void)? = nil
    ) {
        var options = options
        options.stagingLimit = min(max(1, options.stagingLimit), 1 << 40)
        self.options = options
        writer = WorkerPool(name: JoinableThread.name(options.name, "disk"), threads: 1)
        self.logger = logger
        self.history = history
        self.now = now
        self.onBacklog = onBacklog
        self.onCleaned = onCleaned
        state = Mutex(State(sizeLimit: options.sizeLimit.map { max(0, $0) }))
        reopen(isWaiting: false)
    }

    // MARK: Reading

    /// The entry, unless it is not there, has expired, or fails its checksum; one that fails is removed.
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
        // Two keys may share a name by a custom rule.
        guard record.key == key, !isGone(record.value.info.stored) else { return nil }
        if record.lifetime.isExpired(at: time), !wasExtended(name, record.lifetime, time, opened.index) {
            return nil
        }
        noteAccess(name, time)
        return record
    }

    func contains(_ key: CacheKey) -> Bool { info(of: key) != nil }

    /// What is known of an entry. Reads no more than the head of its file, and does not count as a use.
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
        if let file = opened.files?.readMetadata(name) {
            guard let head = file.bytes.withUnsafeBytes({ EntryRecord.decodeMetadata($0) }), head.key == key,
                !isGone(head.info.stored),
                !head.lifetime.isExpired(at: time) || wasExtended(name, head.lifetime, time, opened.index)
            else { return nil }
            return head.info
        }
        guard let record = smallRecord(name, opened.index, StoreHistory.now), record.key == key,
            !isGone(record.value.info.stored),
            !record.lifetime.isExpired(at: time) || wasExtended(name, record.lifetime, time, opened.index)
        else { return nil }
        return record.value.info
    }

    /// Whether an entry that lies on disk has been flushed or cleared.
    private func isGone(_ stored: TimeInterval) -> Bool {
        stored < history.storedBefore || stored < state.withLock { $0.clearedBefore }
    }

    /// The rows whose entries count.
    func present(_ rows: [EntryIndex.Row]) -> [EntryIndex.Row] {
        let rows = rows.filter { !isGone($0.stored) }
        return staged.withLock { staged in
            rows.filter { row in
                let key = CacheKey(verbatim: row.key)
                if let item = staged.area[key], case .remove = item.change { return false }
                return staged.area[key] != nil || !staged.area.isHidden(key)
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
        let record = EntryRecord.decode(bytes, begun: begun) { body in
            isTaken = true
            return Data(bytesNoCopy: file.bytes, count: body, deallocator: .free)
        }
        if !isTaken { free(file.bytes) }
        if record == nil {
            writer.run { self.removeDamaged(name) }
        }
        return record
    }

    private func smallRecord(_ name: String, _ index: EntryIndex?, _ begun: UInt64) -> EntryRecord? {
        do {
            guard let data = try index?.smallRecord(name) else { return nil }
            let record = data.withUnsafeBytes { bytes in
                EntryRecord.decode(bytes, begun: begun) { data.prefix($0).withUnsafeBytes { Data($0) } }
            }
            if record == nil { writer.run { self.removeDamaged(name) } }
            return record
        } catch {
            indexFailed(error)
            return nil
        }
    }

    /// Accesses may have given the entry more time than its record says.
    private func wasExtended(_ name: String, _ lifetime: Lifetime, _ time: TimeInterval, _ index: EntryIndex?) -> Bool {
        guard lifetime.accessExtension != nil else { return false }
        if let access = accesses.withLock({ $0[name] }), lifetime.expires(accessedAt: access) > time { return true }
        guard let expires = try? index?.expiration(name) else { return false }
        return expires > time
    }

    private func noteAccess(_ name: String, _ time: TimeInterval) {
        let count = accesses.withLock { accesses in
            accesses[name] = time
            return accesses.count
        }
        if count == 512 { writer.run { self.writeAccesses() } }
    }

    // MARK: Ending

    /// Writes what is staged and ends the thread.
    func shutdown() async {
        staged.withLock { $0.isClosed = true }
        await synchronize()
        writer.run {
            self.writeAccesses()
            try? self.opened.index?.close()
            // Lets go of the staging folder and its lock.
            self.replaceOpened(Opened(isClosed: true))
        }
        await writer.shutdown()
    }

    // MARK: What is open

    /// Nothing more is taken.
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

    /// Makes the present entries not count, though they could not be removed.
    func hideAll() {
        let end = now().timeIntervalSince1970.nextUp
        state.withLock { $0.clearedBefore = max($0.clearedBefore, end) }
    }

    /// Logs at most once a minute: a full disk fails every write.
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
