import CCrypto
import Foundation

// Why SQLite and not LMDB, measured on one machine with 20,000 rows: LMDB reads a row of 500 bytes in 0.9 µs where
// SQLite takes 6.5 and a plain file 8, and writes it in 4 µs where SQLite takes 20. But a process stopped while it
// writes to LMDB blocks the others' writes for good; without a flush for each commit a power cut may damage LMDB, where
// SQLite loses the latest commits at most; and a read error or a file cut short ends the program by a signal, because
// LMDB maps the file. For the last reason SQLite does not map it either.

/// The index of what is stored: a file of a body counts only if a row names it.
///
/// Reads and transactions throw ``IndexError`` around ``SQLiteError`` or ``Damage``.
final class EntryIndex: Sendable {
    enum Table: String, Sendable {
        case entry
        /// Partial bodies of interrupted transfers, which do not count as entries.
        case partial

        var isPresent: String { self == .entry ? EntryIndex.isPresent : "1" }
    }

    struct Totals: Sendable, Hashable {
        var bytes = 0
        var entries = 0

        mutating func add(_ other: Self) {
            bytes += other.bytes
            entries += other.entries
        }
    }

    struct Damage: Error {}
    struct Suspicion: Error {}

    private static let applicationID = 0x4449_5052
    private static let version = 4

    private let pool: SQLitePool
    let order: EvictionOrder
    let isNew: Bool
    private let faults: (any DiskFaults)?

    private static let patience: Int32 = 2_000
    private static let cacheSize = "PRAGMA cache_size = -1024"

    /// - Parameters:
    ///   - isWaiting: whether to wait up to two seconds for another process that holds the index. The first process to
    ///     open an index writes to it, and needs the lock.
    ///   - logPages: the number of pages, of 4 KiB, in the log before they are written into the database.
    init(
        path: String, boot: String, order: EvictionOrder = .leastRecentlyUsed, isWaiting: Bool = true,
        logPages: Int = 4_000, faults: (any DiskFaults)? = nil
    ) throws {
        self.order = order
        self.faults = faults
        let db = try SQLiteConnection(path, patience: isWaiting ? Self.patience : 0)
        // Before the journal mode changes, which would change another program's database. SQLite alone may open the
        // file: closing it elsewhere would drop the locks of this process's other connections.
        let version = try Self.version(db)
        guard version ?? Self.version == Self.version else { throw Self.foreign(path) }
        guard try db.first("PRAGMA journal_mode = WAL", body: { $0.text(0) }) == "wal" else {
            throw SQLiteError(code: SQLiteError.cannotOpen, "the index cannot have a log")
        }
        try db.run(script: "PRAGMA synchronous = NORMAL; PRAGMA secure_delete = ON; \(Self.cacheSize)")
        try db.run(script: "PRAGMA wal_autocheckpoint = \(logPages)")
        isNew = version == nil
        if isNew {
            try db.transaction { try Self.create(db, boot) }
        } else if try !Self.isPlausible(db) {
            throw Damage()
        }
        db.setPatience(Self.patience)
        pool = SQLitePool(writer: db) {
            // A file is busy as well while this process closes another connection to it.
            let reader = try SQLiteConnection(path, patience: Self.patience)
            try reader.run(script: "PRAGMA query_only = 1; \(Self.cacheSize)")
            return reader
        }
    }

    init(readingOnly path: String) throws {
        (order, faults, isNew) = (.leastRecentlyUsed, nil, false)
        let open = { @Sendable in try SQLiteConnection(readingOnly: path) }
        guard try Self.version(open()) == Self.version else { throw Self.foreign(path) }
        pool = SQLitePool(writer: nil, reader: open)
    }

    private static func foreign(_ path: String) -> StoreProblem {
        StoreProblem("the index '\(path)' was made by another program or another version of Dipper", isRefusal: true)
    }

    /// Returns `nil` if the database is empty, and zero if it has tables of another program.
    private static func version(_ db: SQLiteConnection) throws -> Int? {
        // One transaction, because another process may create the tables between two reads.
        try db.run("BEGIN")
        defer { _ = try? db.run("COMMIT") }
        if try db.first("PRAGMA application_id", body: { $0.integer(0) }) == applicationID {
            return try db.first("PRAGMA user_version") { $0.integer(0) }
        }
        return try db.hasRow("SELECT 1 FROM sqlite_master") ? 0 : nil
    }

    /// The SQL condition for entries that were written after the store was cleared last.
    // mutant Clearing|SharedFolder: `SELECT cleared FROM` => `SELECT 0 * cleared FROM`
    static let isPresent = "place > (SELECT cleared FROM total)"

    /// The SQL condition for derived entries, by their keys. A query must contain it to use `entry_by_origin`.
    static let isDerived = "instr(key, x'0A23') > 0"

    /// The SQL condition for rows with two URLs, and the one that was asked for; see ``Addresses``.
    private static let isRedirected = "instr(url, x'0A') > 0"
    private static let asked = "substr(url, instr(url, x'0A') + 1)"

    /// The SQL condition for rows with the URL `?1` as either; `?2` and `?3` are the bounds of what follows it and a line
    /// break.
    static let isOfURL = "url = ?1 OR (url > ?2 AND url < ?3) OR (\(isRedirected) AND \(asked) = ?1)"

    static func create(_ db: SQLiteConnection, _ boot: String) throws {
        if try db.hasRow("SELECT 1 FROM sqlite_master WHERE name = 'entry'") { return }
        try db.run(
            script: """
                PRAGMA application_id = \(applicationID);
                PRAGMA user_version = \(version);
                CREATE TABLE entry \(columns);
                CREATE INDEX entry_by_turn ON entry (turn);
                CREATE INDEX entry_by_expiration ON entry (expires) WHERE expires IS NOT NULL;
                CREATE INDEX entry_by_origin ON entry (key) WHERE \(isDerived);
                CREATE INDEX entry_by_url ON entry (url) WHERE url IS NOT NULL;
                CREATE INDEX entry_by_asked ON entry (\(asked)) WHERE \(isRedirected);
                CREATE TABLE partial \(columns);
                CREATE TABLE total (bytes INTEGER NOT NULL, entries INTEGER NOT NULL, cleared INTEGER NOT NULL);
                INSERT INTO total VALUES (0, 0, 0);
                CREATE INDEX partial_by_turn ON partial (turn);
                CREATE TABLE swept (boot TEXT NOT NULL, due INTEGER NOT NULL);
                """)
        try db.run("INSERT INTO swept VALUES (?, 0)", boot)
    }

    private static let lastPlace = 1 << 60

    static func isPlausible(_ db: SQLiteConnection) throws -> Bool {
        try db.first(
            """
            SELECT count(*) = 1 AND max(cleared) <= \(lastPlace)
                AND ifnull((SELECT max(place) FROM entry), 0) <= \(lastPlace)
                AND ifnull((SELECT max(place) FROM partial), 0) <= \(lastPlace)
            FROM total
            """
        ) { $0.integer(0) } == 1
    }

    func read<Result>(_ body: (SQLiteConnection) throws -> Result) throws -> Result {
        do {
            try faults?.checkIndex(.read)
            return try pool.read(body)
        } catch {
            throw IndexError(cause: error, index: self)
        }
    }

    /// A durable transaction is on the device when this returns, with all transactions before it.
    func transaction<Result>(
        _ durability: Durability = .relaxed, _ body: (SQLiteConnection) throws -> Result
    ) throws -> Result {
        do {
            try faults?.checkIndex(.write)
            if durability == .durable { try faults?.checkIndex(.flush) }
            return try pool.write { db in
                if durability == .durable { try db.run(script: "PRAGMA synchronous = FULL") }
                defer { if durability == .durable { try? db.run(script: "PRAGMA synchronous = NORMAL") } }
                return try db.transaction { try body(db) }
            }
        } catch {
            throw IndexError(cause: error, index: self)
        }
    }

    /// Writes the log into the database, so that the next process to open it finds nothing to do.
    func close() {
        try? pool.write { db in
            db.setPatience(0)
            try db.checkpoint()
        }
        pool.close()
    }

    /// Returns the number of the row of a key: the first 64 bits of its SHA-256. If two keys share a number, the later
    /// row replaces the earlier one; readers compare the keys.
    static func id(of key: CacheKey) -> Int {
        var text = key.string
        return withUnsafeTemporaryAllocation(of: UInt64.self, capacity: 4) { digest in
            text.withUTF8 { dipper_sha256($0.baseAddress, $0.count, UnsafeMutableRawPointer(digest.baseAddress)) }
            return Int(truncatingIfNeeded: UInt64(bigEndian: digest[0]))
        }
    }

    func totals() throws -> Totals { try read(Self.totals) }

    static func totals(_ db: SQLiteConnection) throws -> Totals {
        try db.first("SELECT bytes, entries FROM total") {
            try Totals(bytes: number($0, 0), entries: number($0, 1))
        } ?? Totals()
    }

    func firstExpiration() throws -> TimeInterval? {
        try read {
            try $0.first(
                "SELECT expires FROM entry WHERE expires IS NOT NULL AND +\(Self.isPresent) ORDER BY expires LIMIT 1"
            ) { $0.time(0) }
        }
    }

    /// Takes removed bytes out of the log, unless another process reads it.
    func emptyLog() throws { try pool.write { try $0.checkpoint() } }
}

/// An error with the index that threw it, which may have been replaced meanwhile.
struct IndexError: Error, CustomStringConvertible {
    let cause: any Error
    let index: EntryIndex

    var description: String { "\(cause)" }
}
