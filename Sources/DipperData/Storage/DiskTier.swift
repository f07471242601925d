import Foundation
import Logging
import Synchronization

// The disk tier's folder, format version 4:
//
//     dipper-cache     the marker (CacheFolder.swift)
//     index.sqlite     application_id "DIPR", user_version 4. Tables `entry` and `partial` have a row for each entry
//                      and partial body: key, URL, times, size, the trailer with metadata and checksum
//                      (RecordFormat.swift), and a small body, or the name of its file. A row of `partial` without
//                      size and body, with a status from 400, is the memory of a failure. Table `total` has the number
//                      and the size of all entries, so that opening costs the same at any size, and the place up to
//                      which rows have been cleared. Table `swept` has the boot in which rows and files were compared.
//     index-2.sqlite   replaces a damaged index, and so on; the highest number counts (IndexFile.swift).
//     blobs/ab/NAME    the body of one row, as it came, compressed, or encoded by a `RecordCodec`. That of a partial body
//                      may be longer than its row says, because it grows while the rest arrives (GrowingFiles.swift).
//     stores/ID.lock   a lock says that the store ID is open (StoreLock.swift).
//     leases/          locks and sockets by which open stores fetch a key once for all (LeaseFile.swift).
//     reserve          256 KiB of nothing, which a removal on a full disk gives up for the log of the index.
//
// All files are for one user alone: folders have mode 0700, files 0600, SQLite's included. The cache follows no
// symbolic link in the folder, and neither reads nor removes files with names that it cannot have made.
//
// A body's file has a name that is used once (BlobName), and no byte of it is ever changed. Writing an entry: the file, then a
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
// The index needs room to remove a row. On a full disk a removal gives up the reserve, or, if that has gone, files of
// bodies: their rows count as absent, as after a power cut. The reserve is made anew as soon as there is room.
//
// A write that fails, or for which staging has no room, removes the earlier version, which is out of date. If the
// removal fails as well, readers of this process ignore that version.
// Several processes may share the folder: SQLite locks the index, and no file is shared before its row is there.

/// Keeps entries that survive the process. No method throws: an unreadable entry counts as absent, and the log reports
/// failures.
final class DiskTier: Sendable {
    struct Options: Sendable {
        var folder: String
        var sizeLimit: Int?
        /// The size of the largest record whose body is in the index, in bytes. Up to 16 KB a row is read as fast as a
        /// row and a file, and at half of that written three times as fast.
        var inlineLimit = 8 << 10
        /// The number of bytes that may wait to be written before prefetching pauses. At twice as many, no fetch
        /// starts; at four times as many, of which an entry counts for a sixteenth at most, new entries are not kept on
        /// disk, and their earlier versions are removed.
        var stagingLimit = 8 << 20
        var partialLimit = 128 << 20
        /// The number of entries whose accesses may wait while another process holds the index.
        var mostAccesses = 1 << 16
        var naming = FileNaming.sha256
        var compression = StorageCompression.off
        var recordCodec: (any RecordCodec)?
        var evictionOrder = EvictionOrder.leastRecentlyUsed
        /// Writes of an earlier boot that were not flushed may be lost.
        var boot = Boot.current
        var faults: (any DiskFaults)?
        var sharesLeases = false
        var name = "dipper"

        var format: RecordFormat { RecordFormat(compression: compression, codec: recordCodec) }
    }

    let options: Options
    let logger: Logger
    let history: RemovalHistory
    let now: @Sendable () -> Date
    let expiries: ExpiryWatch
    let events: EventHub?
    /// Its thread alone changes what is on disk.
    let writer: Workers
    let growing = Mutex(GrowingFiles())
    private let onBacklog: @Sendable () -> Void
    /// Nobody reads or writes a file or the index while holding it.
    let state: Mutex<State>

    struct State: Sendable {
        var opened = Opened()
        var sizeLimit: Int?
        /// The accesses that have not been written to the index, by the numbers of rows.
        var accesses: [Int: EntryIndex.Access] = [:]
        /// When many accesses were written last.
        fileprivate var accessesWritten: TimeInterval = -.infinity
        var staged: StagingArea
        var isWriting = false
        /// Whether another process holds the index, so that nothing can be written. Nothing waits for room then.
        var isStalled = false
        /// How often a tier that ends still tries to change an index that another process holds. Then the rest stays
        /// unwritten.
        var lastAttempts = Self.mostLastAttempts
        static let mostLastAttempts = 5
        var isClosed = false
        /// The files whose rows are gone, and that could not be deleted.
        var undeleted: Set<String> = []
        /// Whether a removal, or the deletion of more files than are remembered, has failed since somebody asked last.
        var hasFailedRemoval = false
        /// The size of the files that removals on a full disk may still give up, in bytes, until there is room.
        var bodiesLeft = BlobFiles.mostGivenUp
        /// When eviction for the sake of the volume was last seen to free nothing.
        var lastVainEviction: TimeInterval = -.infinity
        /// The jobs that have not ended, by their numbers.
        var jobs: [UInt64: JobKind] = [:]
        fileprivate var backlog = StorageBacklog.none
        fileprivate(set) var lastFailure: String?
        fileprivate var lastComplaint: TimeInterval = -.infinity

        /// Asked when an access has been noted. Every transaction makes the readers of all processes read the index
        /// again, so hits must not cause one often: the order of eviction needs accesses only before it is asked for.
        /// But other processes remove what has expired by what is written.
        mutating func owesAccesses(at time: TimeInterval, isNew: Bool, extends: Bool) -> Bool {
            let isOld = abs(time - accessesWritten) > 60
            guard
                isNew && accesses.count.isMultiple(of: 8_192)
                    || isOld && (extends || isNew && accesses.count.isMultiple(of: 512))
            else { return false }
            accessesWritten = time
            return true
        }
    }

    struct Opened: Sendable {
        var files: BlobFiles?
        var index: EntryIndex?
        var indexFile: IndexFile?
        var isIndexHeld = false
        /// Whether the writer has not tried yet to open the index that is held.
        var isIndexComing = false
        var leases: FolderLeases?
        var problem: StoreProblem?
        var isClosed = false

        var isPresent: Bool {
            index != nil && files?.isThere == true && indexFile?.isCurrent ?? (files?.isReadOnly == true)
        }

        /// Whether the index has taken the place of a damaged one.
        var isIndexNew: Bool { index?.isNew == true && indexFile?.number != 1 }

        var isWritable: Bool { files?.isReadOnly == false }

        var writableIndex: EntryIndex? { isWritable ? index : nil }
    }

    init(
        _ options: Options, logger: Logger, history: RemovalHistory, now: @escaping @Sendable () -> Date,
        expiries: ExpiryWatch,
        onBacklog: @escaping @Sendable () -> Void, events: EventHub?
    ) {
        var options = options
        options.stagingLimit = min(max(1, options.stagingLimit), 1 << 40)
        self.options = options
        writer = Workers(name: JoinableThread.name(options.name, "disk"), threads: 1)
        (self.logger, self.history, self.now) = (logger, history, now)
        (self.expiries, self.onBacklog, self.events) = (expiries, onBacklog, events)
        state = Mutex(
            State(
                sizeLimit: options.sizeLimit.map { max(0, $0) }, staged: StagingArea(limit: options.stagingLimit * 4)))
        reopen(isWaiting: false)
        if opened.files?.isWritableByGroup == true {
            logger.warning(
                "the group of the cache's folder may write in it, and so delete and replace entries",
                metadata: ["folder": "\(options.folder)"])
        }
        expiries.add { [weak self] in self?.removeExpiredLater(.expiring) }
    }

    func shutdown() async {
        state.withLock { $0.isClosed = true }
        await synchronize()
        writer.run {
            _ = self.carryOutRemovals(self.state.withLock { $0.staged.removals })
            self.tryToWriteAccesses()
            self.opened.index?.close()
            self.replaceOpened(Opened(isClosed: true))
        }
        await writer.shutdown()
    }

    func noteExpiries() {
        if let next = try? opened.index?.firstExpiration() { expiries.note(next) }
    }

    var isClosed: Bool { state.withLock { $0.isClosed } }

    var backlog: StorageBacklog { state.withLock { $0.backlog } }

    var opened: Opened { state.withLock { $0.opened } }

    func replaceOpened(_ opened: Opened) {
        let old = state.withLock { exchange(&$0.opened, with: opened) }
        if old.leases !== opened.leases { old.leases?.close() }
        _ = consume old
    }

    /// The leases of those who share the folder; `nil` where it cannot have them.
    var leases: FolderLeases? { state.withLock { $0.opened.leases } }

    var sizeLimit: Int? {
        get { state.withLock { $0.sizeLimit } }
        set {
            state.withLock { $0.sizeLimit = newValue.map { max(0, $0) } }
            writer.run { self.keepLimit() }
        }
    }

    /// Changes the state. Then, without the lock, reports a change of the backlog, and the failure of dropped writes.
    @discardableResult
    func update<Result: Sendable>(_ change: (inout State) -> Result) -> Result {
        let (result, dropped, isNews) = state.withLock { state -> (Result, [StagingArea.Item], Bool) in
            let result = change(&state)
            let backlog = state.newBacklog(limit: options.stagingLimit)
            let isNews = exchange(&state.backlog, with: backlog) != backlog
            return (result, state.staged.takeDropped(), isNews)
        }
        if isNews { onBacklog() }
        for item in dropped { for tell in item.whenDone { tell(false) } }
        return result
    }

    /// A full disk fails every write: a warning comes at most once a minute, and `debug` messages between.
    func complain(_ message: Logger.Message, _ error: (any Error)?) {
        let time = now().timeIntervalSince1970
        let isQuiet = state.withLock { state in
            if let error { state.lastFailure = "\(error)" }
            guard time - state.lastComplaint > 60 || time < state.lastComplaint else { return true }
            state.lastComplaint = time
            return false
        }
        logger.log(
            level: isQuiet ? .debug : .warning, message,
            metadata: error.map { ["error": "\($0)", "folder": "\(options.folder)"] })
    }
}

extension DiskTier.State {
    /// A backlog ends only when half of the limit is free again.
    fileprivate func newBacklog(limit: Int) -> StorageBacklog {
        switch staged.bytes {
        case _ where isStalled: .none
        case ...(limit / 2): .none
        case ...limit: min(backlog, .high)
        case ...(limit * 2): .high
        default: .full
        }
    }
}

/// How far writing to disk is behind fetching: with `high` no prefetch starts, with `full` no fetch at all.
enum StorageBacklog: Sendable, Comparable {
    case none, high, full
}
