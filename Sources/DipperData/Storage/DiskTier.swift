import Foundation
import Logging
import Synchronization

// The disk tier's folder, format version 2:
//
//     blobs/ab/NAME      one record per file (EntryRecord.swift says what is in it), for entries larger than
//                        `inlineLimit`. The file is the truth: a hit opens it and nothing else.
//     index.sqlite       application_id "DIPR", user_version 1. Table `small` holds the records of small entries;
//                        table `entry` one row per entry, small or large, for listing and limits; table `total`
//                        their number and size, kept by triggers, so that opening costs the same at any size. Index
//                        `entry_by_origin` finds entries that were made from others, by their keys.
//     index.broken       a database that was set aside because it could not be read.
//     partial/NAME       the beginning of a body that was broken off, as a record (PartialFiles.swift).
//     staging/ID/        files being written by one process, which holds a lock on the folder.
//
// NAME is the key's SHA-256 unless configured otherwise; "ab" are its first two characters. Records may hold bodies that
// are compressed; sizes are those on disk, and say which entries are small.
//
// Writing a large entry: (1) its row is committed, (2) the file is written under staging, (3) renamed into place.
//   Killed before 2: a row without a file. A reader finds no file: a miss. Eviction and `verify` drop the row.
//   Killed before 3: the staging folder's lock is gone; whoever opens the store next removes the folder.
//   So no file is ever half written under its name, and none is without a row, unless another process clears or evicts
//   at that very moment; the writer looks for that afterwards, and `verify` lists such files again.
// Writing a small entry: a file of that name is removed, then row and record are committed in one transaction.
// Removing: the file first, then the row.
// Nothing is flushed to the device per entry, unless the request asks for it. After a power cut a file may be torn: its
//   checksum says so, and it is removed. SQLite in WAL mode keeps the index consistent.
// Writing a durable entry: the commit of its row is flushed (`synchronous = FULL`), its file before it is renamed, then the
//   folder; for a small one the folder from which a file of its name may just have been removed, and then the commit.
//   Then it counts as written. Whoever waits for a durable write waits also for the one that takes its place.
// A lost or unreadable index is made anew and filled from the files in the background; small entries are lost with it.
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
        /// four times as many what comes is not kept.
        var stagingLimit = 8 << 20
        /// The most that the beginnings of broken off bodies may take, in bytes.
        var partialLimit = 128 << 20
        var naming = FileNaming.sha256
        var compression = StorageCompression.off
        /// Begins the names of the threads.
        var name = "dipper"
    }

    let options: Options
    let logger: Logger
    let now: @Sendable () -> Date
    let writer: WorkerPool
    private let state: Mutex<State>
    let accesses = Mutex<[String: TimeInterval]>([:])
    private let staged = Mutex(Staged())
    let partials = Mutex(PartialChanges())
    /// Told when staging is filling up and when there is room again.
    private let onBacklog: @Sendable (BacklogNotice) -> Void
    /// Told what was removed without having been named; from the writer's thread.
    let onCleaned: (@Sendable (CacheEvent.Cleaning) -> Void)?

    /// What is open; replaced as a whole when the folder or the index has to be made anew.
    struct Opened: Sendable {
        var files: BlobFiles?
        var index: EntryIndex?
        /// Tells whether the index at the path is still the one that is open.
        var indexFile: FileIdentity?
    }

    private struct State {
        var opened = Opened()
        var sizeLimit: Int?
        var lastComplaint: TimeInterval = -.infinity
    }

    private struct Staged {
        var area = StagingArea()
        var isWriting = false
        var backlog = StorageBacklog.none
        var notices: UInt64 = 0
        /// The store has been shut down: nothing more is taken.
        var isClosed = false

        /// The new backlog if it has changed. It ends only when half of the limit is free again.
        mutating func updateBacklog(limit: Int) -> BacklogNotice? {
            let new: StorageBacklog =
                switch area.bytes {
                case ...(limit / 2): .none
                case ...limit: min(backlog, .high)
                case ...(limit * 2): .high
                default: .full
                }
            guard new != backlog else { return nil }
            backlog = new
            notices += 1
            return BacklogNotice(backlog: new, number: notices)
        }
    }

    init(
        _ options: Options, logger: Logger, now: @escaping @Sendable () -> Date,
        onBacklog: @escaping @Sendable (BacklogNotice) -> Void = { _ in },
        onCleaned: (@Sendable (CacheEvent.Cleaning) -> Void)? = nil
    ) {
        var options = options
        options.stagingLimit = min(max(1, options.stagingLimit), 1 << 40)
        self.options = options
        writer = WorkerPool(name: JoinableThread.name(options.name, "disk"), threads: 1)
        self.logger = logger
        self.now = now
        self.onBacklog = onBacklog
        self.onCleaned = onCleaned
        state = Mutex(State(sizeLimit: options.sizeLimit))
        reopen()
    }

    // MARK: Reading

    /// The entry, unless it is not there, has expired, or fails its checksum; one that fails is removed.
    func entry(for key: CacheKey) -> EntryRecord? {
        let (item, isRemoved) = staged.withLock { ($0.area[key], $0.area.isBeingRemoved(key)) }
        let time = now().timeIntervalSince1970
        if let item {
            guard case .write(let record) = item.change, !record.lifetime.isExpired(at: time) else { return nil }
            return record
        }
        if isRemoved { return nil }
        let name = options.naming.name(key)
        let opened = opened
        guard let record = fileRecord(name, opened.files) ?? smallRecord(name, opened.index) else { return nil }
        // Two keys may share a name by a custom rule.
        guard record.key == key else { return nil }
        if record.lifetime.isExpired(at: time), !wasExtended(name, record.lifetime, time, opened.index) {
            return nil
        }
        noteAccess(name, time)
        return record
    }

    func contains(_ key: CacheKey) -> Bool { info(of: key) != nil }

    /// What is known of an entry. Reads no more than the head of its file, and does not count as a use.
    func info(of key: CacheKey) -> EntryInfo? {
        let (item, isRemoved) = staged.withLock { ($0.area[key], $0.area.isBeingRemoved(key)) }
        let time = now().timeIntervalSince1970
        if let item {
            guard case .write(let record) = item.change, !record.lifetime.isExpired(at: time) else { return nil }
            return record.value.info
        }
        if isRemoved { return nil }
        let name = options.naming.name(key)
        let opened = opened
        if let file = opened.files?.readMetadata(name) {
            guard let head = file.bytes.withUnsafeBytes({ EntryRecord.decodeMetadata($0) }), head.key == key,
                !head.lifetime.isExpired(at: time) || wasExtended(name, head.lifetime, time, opened.index)
            else { return nil }
            return head.info
        }
        guard let record = smallRecord(name, opened.index), record.key == key,
            !record.lifetime.isExpired(at: time) || wasExtended(name, record.lifetime, time, opened.index)
        else { return nil }
        return record.value.info
    }

    private func fileRecord(_ name: String, _ files: BlobFiles?) -> EntryRecord? {
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
        let record = EntryRecord.decode(bytes) { body in
            isTaken = true
            return Data(bytesNoCopy: file.bytes, count: body, deallocator: .free)
        }
        if !isTaken { free(file.bytes) }
        if record == nil { discard(name) }
        return record
    }

    private func smallRecord(_ name: String, _ index: EntryIndex?) -> EntryRecord? {
        do {
            guard let data = try index?.smallRecord(name) else { return nil }
            let record = data.withUnsafeBytes { bytes in
                EntryRecord.decode(bytes) { data.prefix($0).withUnsafeBytes { Data($0) } }
            }
            if record == nil { discard(name) }
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

    private func discard(_ name: String) {
        logger.warning("an entry is damaged and is removed", metadata: ["file": "\(name)"])
        writer.run { self.removeNow([name]) }
    }

    // MARK: Changing

    /// Keeps a record, in place of the one its key had. `whenDone` is called when it is written, or cannot be.
    func write(_ record: EntryRecord, _ durability: Durability = .relaxed, whenDone: (@Sendable () -> Void)? = nil) {
        stage(.write(record), for: record.key, durability, whenDone: whenDone)
    }

    func remove(_ key: CacheKey) {
        stage(.remove, for: key, .relaxed, whenDone: nil)
    }

    private func stage(
        _ change: StagingArea.Change, for key: CacheKey, _ durability: Durability, whenDone: (@Sendable () -> Void)?
    ) {
        let (replaced, backlog, isDropped) = staged.withLock {
            staged -> (StagingArea.Item?, BacklogNotice?, Bool) in
            if staged.isClosed { return (nil, nil, true) }
            // One entry may be larger than all that may wait; it waits alone.
            if case .write(let record) = change, staged.area.bytes > 0,
                staged.area.bytes + record.value.data.count > options.stagingLimit * 4
            {
                return (nil, nil, true)
            }
            let replaced = staged.area.add(change, for: key, durability, whenDone: whenDone)
            // Under the lock: whoever synchronizes comes behind.
            if !exchange(&staged.isWriting, with: true) { writer.run { self.writeStaged() } }
            return (replaced, staged.updateBacklog(limit: options.stagingLimit), false)
        }
        if isDropped {
            complain("an entry stays in memory only: the disk is behind, or the cache has been shut down", nil)
            whenDone?()
            return
        }
        for tell in replaced?.whenDone ?? [] { tell() }
        if let backlog { onBacklog(backlog) }
    }

    /// Forgets everything, at once for readers.
    func clear() {
        let partials = partials.withLock { $0.removeAll() }
        _ = consume partials
        remove(.all) { self.clearNow() }
    }

    /// Forgets what was made from an entry, at once for readers. See ``CacheKey/isDerived(of:)``.
    func removeDerived(of key: CacheKey) {
        remove(.derived(of: key)) { self.removeDerivedNow(of: key) }
    }

    private func remove(_ scope: StagingArea.Scope, _ work: @escaping @Sendable () -> Void) {
        let (dropped, backlog) = staged.withLock { staged in
            let dropped = staged.area.beginRemoving(scope)
            writer.run {
                work()
                self.staged.withLock { staged in
                    staged.area.endRemoving(scope)
                    staged.isWriting = true
                }
                self.writeStaged()
            }
            return (dropped, staged.updateBacklog(limit: options.stagingLimit))
        }
        if let backlog { onBacklog(backlog) }
        for item in dropped { for tell in item.whenDone { tell() } }
    }

    /// Returns when all changes asked for so far have been carried out.
    func synchronize() async {
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            if !writer.run({ continuation.resume() }) { continuation.resume() }
        }
    }

    /// Writes what is staged and ends the thread.
    func shutdown() async {
        staged.withLock { $0.isClosed = true }
        writer.run {
            self.writeAccesses()
            try? self.opened.index?.close()
            // Lets go of the staging folder and its lock.
            self.replaceOpened(Opened())
        }
        await writer.shutdown()
    }

    // MARK: The writer's thread

    private func writeStaged() {
        while true {
            let batch = staged.withLock { staged in
                let batch = staged.area.nextBatch(count: 128, bytes: 4 << 20)
                if batch.isEmpty { staged.isWriting = false }
                return batch
            }
            if batch.isEmpty { return }
            carryOut(batch)
            let (done, backlog) = staged.withLock { staged in
                (staged.area.finish(batch), staged.updateBacklog(limit: options.stagingLimit))
            }
            if let backlog { onBacklog(backlog) }
            for item in done { for tell in item.whenDone { tell() } }
        }
    }

    // MARK: What is open

    var opened: Opened { state.withLock { $0.opened } }

    func replaceOpened(_ opened: Opened) {
        let old = state.withLock { exchange(&$0.opened, with: opened) }
        _ = consume old
    }

    var sizeLimit: Int? {
        get { state.withLock { $0.sizeLimit } }
        set {
            state.withLock { $0.sizeLimit = newValue }
            writer.run { self.keepLimit() }
        }
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
