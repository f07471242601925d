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

    struct Row: Sendable {
        var id: Int
        var key: String
        var url: String
        /// In bytes, of body and trailer on disk.
        var size: Int
        var stored: TimeInterval
        var accessed: TimeInterval
        var lifetime: Lifetime
        var blob: String?
        /// The metadata and the checksum; see RecordFormat.swift.
        var trailer: Data
        var uses: UInt8 = 0
        var isPresent = true
    }

    struct Content: Sendable {
        var blob: String?
        var trailer: Data
        var body: Data?
        /// As far as accesses have been recorded; infinite for never.
        var expires: TimeInterval

        var footer: RecordFormat.Footer? { RecordFormat.Footer(trailer) }
    }

    struct Damage: Error {}

    private static let applicationID = 0x4449_5052
    private static let version = 4

    private let pool: SQLitePool
    let order: EvictionOrder
    let isNew: Bool
    private let faults: (any DiskFaults)?

    private static let patience: Int32 = 2_000
    private static let cacheSize = "PRAGMA cache_size = -1024"

    /// - Parameter isWaiting: whether to wait up to two seconds for another process that holds the index. The first
    ///   process to open an index writes to it, and needs the lock.
    init(
        path: String, boot: String, order: EvictionOrder = .leastRecentlyUsed, isWaiting: Bool = true,
        faults: (any DiskFaults)? = nil
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
        try db.run(
            script:
                "PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 4000; PRAGMA secure_delete = ON; \(Self.cacheSize)"
        )
        isNew = version == nil
        if isNew {
            try db.transaction { try Self.create(db, boot) }
        } else if try !Self.isPlausible(db) {
            throw Damage()
        }
        db.setPatience(Self.patience)
        pool = SQLitePool(writer: db) {
            let reader = try SQLiteConnection(path, patience: 50)
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

    static func create(_ db: SQLiteConnection, _ boot: String) throws {
        if try db.hasRow("SELECT 1 FROM sqlite_master WHERE name = 'entry'") { return }
        // Rows are in the order of writing, so that a batch fills pages one after the other: four times as fast as by
        // id. The body comes last, so that reading the other columns does not touch its pages.
        let columns = """
            (
                place INTEGER PRIMARY KEY,
                id INTEGER NOT NULL UNIQUE,
                key BLOB NOT NULL,
                url BLOB,
                size INTEGER NOT NULL,
                stored REAL NOT NULL,
                accessed REAL NOT NULL,
                expires REAL,
                extension REAL,
                turn INTEGER NOT NULL,
                uses INTEGER NOT NULL,
                blob TEXT,
                trailer BLOB NOT NULL,
                body BLOB
            )
            """
        try db.run(
            script: """
                PRAGMA application_id = \(applicationID);
                PRAGMA user_version = \(version);
                CREATE TABLE entry \(columns);
                CREATE INDEX entry_by_turn ON entry (turn);
                CREATE INDEX entry_by_expiration ON entry (expires) WHERE expires IS NOT NULL;
                CREATE INDEX entry_by_origin ON entry (key) WHERE \(isDerived);
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
        let digest = MessageDigest.sha256.digest(key.string)
        return Int(truncatingIfNeeded: digest.withUnsafeBytes { UInt64(bigEndian: $0.loadUnaligned(as: UInt64.self)) })
    }

    func totals() throws -> Totals { try read(Self.totals) }

    static func totals(_ db: SQLiteConnection) throws -> Totals {
        try db.first("SELECT bytes, entries FROM total") {
            try Totals(bytes: number($0, 0), entries: number($0, 1))
        } ?? Totals()
    }

    // Constants: hits of small entries are fast.
    private static let entryContent = "SELECT blob, trailer, expires, body FROM entry WHERE id = ? AND \(isPresent)"
    private static let partialContent = "SELECT blob, trailer, expires, body FROM partial WHERE id = ?"

    func content(_ id: Int, in table: Table = .entry) throws -> Content? {
        try read { db in
            try db.first(table == .entry ? Self.entryContent : Self.partialContent, id) { row in
                let content = Content(
                    blob: row.text(0), trailer: row.blob(1) ?? Data(), body: row.blob(3),
                    expires: Self.time(row, 2) ?? .infinity)
                guard (content.blob == nil) != (content.body == nil) else { throw Damage() }
                return content
            }
        }
    }

    func firstExpiration() throws -> TimeInterval? {
        try read {
            try $0.first(
                "SELECT expires FROM entry WHERE expires IS NOT NULL AND +\(Self.isPresent) ORDER BY expires LIMIT 1"
            ) { $0.real(0) }
        }
    }

    static func number(_ row: SQLiteConnection.Row, _ column: Int32) throws -> Int {
        guard let number = row.integer(column), (0...1 << 50).contains(number) else { throw Damage() }
        return number
    }

    /// `nil` for NULL. An impossible time is the fault of its row alone and becomes 0.
    static func time(_ row: SQLiteConnection.Row, _ column: Int32) -> TimeInterval? {
        if row.isNull(column) { return nil }
        guard let time = row.real(column), time > -1e15 else { return 0 }
        return min(time, 1e15)
    }

    /// A time in the past; 0 for a missing or infinite one.
    static func moment(_ row: SQLiteConnection.Row, _ column: Int32) -> TimeInterval {
        time(row, column).flatMap { $0 < Lifetime.longest ? $0 : nil } ?? 0
    }

    func rows(in table: Table = .entry, after id: Int?, limit: Int) throws -> [Row] {
        try read { db in
            let rows = try db.all(
                "\(Row.query(table)) WHERE id >= ? AND \(table.isPresent) ORDER BY id LIMIT ?",
                id.map { $0 &+ 1 } ?? .min, id == .max ? 0 : limit, body: Row.init)
            // A caller that continues after the last row must come to an end.
            if let id, let last = rows.last, last.id <= id { throw Damage() }
            return rows
        }
    }

    func names(_ blob: String, _ id: Int) throws -> Bool {
        try read { db in
            try db.hasRow(
                """
                SELECT 1 FROM entry WHERE id = ?1 AND blob = ?2 UNION ALL
                SELECT 1 FROM partial WHERE id = ?1 AND blob = ?2
                """, id, blob)
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

extension EntryIndex.Row {
    static func query(_ table: EntryIndex.Table) -> String {
        """
        SELECT id, key, url, size, stored, accessed, expires, extension, blob, trailer, uses, \(table.isPresent)
        FROM \(table.rawValue)
        """
    }

    init(_ row: SQLiteConnection.Row) throws {
        guard let id = row.integer(0), let key = row.text(1) else { throw EntryIndex.Damage() }
        self.init(
            id: id, key: key, url: row.text(2) ?? key, size: try EntryIndex.number(row, 3),
            stored: EntryIndex.moment(row, 4), accessed: EntryIndex.moment(row, 5),
            lifetime: Lifetime(
                expires: EntryIndex.time(row, 6) ?? .infinity, accessExtension: EntryIndex.time(row, 7)),
            blob: row.text(8), trailer: row.blob(9) ?? Data(), uses: UInt8(clamping: row.integer(10) ?? 0),
            isPresent: row.integer(11) == 1)
    }
}
