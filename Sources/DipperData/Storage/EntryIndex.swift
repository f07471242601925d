import Foundation
import GRDB
import Synchronization

/// The SQLite index of the disk tier: the records of small entries, and the data for listing entries and keeping
/// limits.
///
/// For larger entries the files decide, not the index. Reads and transactions throw ``IndexError``, which contains
/// GRDB's error or ``Damage``.
final class EntryIndex: Sendable {
    struct Totals: Sendable, Hashable {
        var bytes = 0
        var entries = 0
    }

    struct Row: Sendable {
        var name: String
        var key: String
        var url: String
        var size: Int
        var stored: TimeInterval
        var accessed: TimeInterval
        var lifetime: Lifetime
        /// The record of a small entry, which is kept here and not in a file.
        var record: Data?
    }

    /// The error thrown if the file is a database of another program, or of another version of Dipper.
    struct ForeignDatabase: Error {}

    /// The error thrown if the index contains impossible values, because it has been damaged.
    struct Damage: Error {}

    private static let applicationID = 0x4449_5052
    private static let version = 2

    private let pool: DatabasePool
    private let closing = ClosingGate()
    /// The rule that decides which entries leave first.
    let order: EvictionOrder
    /// Whether the database was empty when this call opened it.
    let isNew: Bool
    private let faults: (any DiskFaults)?

    // Callers that must wait longer for the lock try several times.
    private static let patience = "PRAGMA busy_timeout = 2000"

    /// - Parameters:
    ///   - boot: the identifier of the current boot of the machine.
    ///   - order: the rule that decides which entries leave first.
    ///   - isWaiting: whether to wait up to two seconds if another process holds the index; otherwise the call fails at
    ///     once. Opening needs the lock because the first process to open an index writes to it.
    init(
        path: String, boot: String, order: EvictionOrder = .leastRecentlyUsed, isWaiting: Bool = true,
        faults: (any DiskFaults)? = nil
    ) throws {
        self.order = order
        self.faults = faults
        var configuration = Configuration()
        configuration.busyMode = isWaiting ? .timeout(2) : .immediateError
        configuration.maximumReaderCount = 2
        configuration.label = "dipper.index"
        configuration.prepareDatabase { db in
            // Before the pool changes the journal mode, which would change another program's database. SQLite alone may
            // open the file: closing it elsewhere would drop the locks of the other connections of this process.
            if !db.configuration.readonly, try Self.version(db) ?? Self.version != Self.version {
                throw ForeignDatabase()
            }
            // A power cut may lose the latest entries, never the database; nothing is flushed per entry.
            try db.execute(
                sql: """
                    PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 4000; PRAGMA cache_size = -1024
                    """)
            if db.configuration.readonly { try db.execute(sql: Self.patience) }
        }
        pool = try DatabasePool(path: path, configuration: configuration)
        isNew = try pool.writeWithoutTransaction { try Self.version($0) } == nil
        if isNew { try pool.write { try Self.create($0, boot) } }
        if order.countsUses { try pool.writeWithoutTransaction { try Self.createUses($0) } }
        try pool.writeWithoutTransaction { try $0.execute(sql: Self.patience) }
    }

    /// Returns the version of the tables; `nil` if the database is empty.
    /// - Throws: ``ForeignDatabase`` if it has tables of another program.
    private static func version(_ db: Database) throws -> Int? {
        var version: Int?
        // One transaction, because another process may create the tables between two reads.
        try db.inTransaction(.deferred) {
            if try Int.fetchOne(db, sql: "PRAGMA application_id") == applicationID {
                version = try Int.fetchOne(db, sql: "PRAGMA user_version")
            } else if try Int.fetchOne(db, sql: "SELECT count(*) FROM sqlite_master") != 0 {
                throw ForeignDatabase()
            }
            return .commit
        }
        return version
    }

    /// The SQL condition for derived entries, which are found by their keys. A cache of bytes has few of them, so
    /// `entry_by_origin` contains them alone; a query must contain this condition to use it.
    static let isDerived = "instr(key, x'0A23') > 0"

    private static func create(_ db: Database, _ boot: String) throws {
        // Another process may have created the tables first.
        guard try !db.tableExists("entry") else { return }
        try db.execute(
            sql: """
                PRAGMA application_id = \(applicationID);
                PRAGMA user_version = \(version);
                CREATE TABLE entry (
                    id INTEGER PRIMARY KEY,
                    name TEXT NOT NULL UNIQUE,
                    key BLOB NOT NULL,
                    url BLOB,
                    size INTEGER NOT NULL,
                    stored REAL NOT NULL,
                    accessed REAL NOT NULL,
                    expires REAL,
                    extension REAL
                );
                CREATE INDEX entry_by_access ON entry (accessed);
                CREATE INDEX entry_by_expiration ON entry (expires) WHERE expires IS NOT NULL;
                CREATE INDEX entry_by_origin ON entry (key) WHERE \(isDerived);
                CREATE TABLE small (id INTEGER PRIMARY KEY, record BLOB NOT NULL);
                CREATE TABLE total (bytes INTEGER NOT NULL, entries INTEGER NOT NULL);
                CREATE TABLE sweep (phase INTEGER NOT NULL, position TEXT NOT NULL);
                CREATE TABLE boot (id TEXT NOT NULL);
                INSERT INTO total VALUES (0, 0);
                CREATE TRIGGER entry_added AFTER INSERT ON entry BEGIN
                    UPDATE total SET bytes = bytes + NEW.size, entries = entries + 1;
                END;
                CREATE TRIGGER entry_removed AFTER DELETE ON entry BEGIN
                    UPDATE total SET bytes = bytes - OLD.size, entries = entries - 1;
                    DELETE FROM small WHERE id = OLD.id;
                END;
                CREATE TRIGGER entry_replaced AFTER UPDATE OF size ON entry BEGIN
                    UPDATE total SET bytes = bytes + NEW.size - OLD.size;
                    DELETE FROM small WHERE id = OLD.id;
                END;
                """)
        try db.execute(sql: "INSERT INTO boot VALUES (?)", arguments: [boot])
    }

    /// Returns whether tables, indexes and triggers are as they were created.
    func hasOwnSchema() throws -> Bool {
        let all = "SELECT type || ' ' || name || ' ' || ifnull(sql, '') FROM sqlite_master ORDER BY 1"
        let actual = try read { try String.fetchAll($0, sql: all) }
        let expected = try DatabaseQueue().write { db in
            try Self.create(db, "")
            if actual.contains(where: { $0.hasPrefix("table entry_use ") }) { try Self.addUses(db) }
            return try String.fetchAll(db, sql: all)
        }
        return actual == expected
    }

    /// Reads from the database. The gate delays `close()` until the read has ended, because GRDB does not expect a pool
    /// to be closed while it is read.
    func read<Result>(_ body: (Database) throws -> Result) throws -> Result {
        do {
            try faults?.checkIndex(.read)
            return try closing.whileOpen { try pool.unsafeRead(body) }
        } catch {
            throw IndexError(cause: error, index: self)
        }
    }

    /// Writes the log into the database, so that the next process to open it finds nothing to do, and closes the
    /// database.
    func close() throws {
        try? pool.writeWithoutTransaction { db in
            // The checkpoint does not wait for other processes.
            try db.execute(sql: "PRAGMA busy_timeout = 0")
            try db.checkpoint(.truncate)
        }
        try closing.alone { try pool.close() }
    }

    // MARK: Reads

    func totals() throws -> Totals {
        try read(Self.totals)
    }

    static func totals(_ db: Database) throws -> Totals {
        guard let row = try GRDB.Row.fetchOne(db.cachedStatement(sql: "SELECT bytes, entries FROM total")) else {
            return Totals()
        }
        return try Totals(bytes: number(row, 0), entries: number(row, 1))
    }

    func smallRecord(_ name: String) throws -> Data? {
        try read { db in
            try Data.fetchOne(
                db.cachedStatement(
                    sql: "SELECT record FROM small WHERE id = (SELECT id FROM entry WHERE name = ?)"),
                arguments: [name])
        }
    }

    /// Returns the time at which an entry expires, with its accesses counted: infinite for never, `nil` if there is no
    /// such entry.
    func expiration(_ name: String) throws -> TimeInterval? {
        try read { db in
            try GRDB.Row.fetchOne(
                db.cachedStatement(sql: "SELECT expires FROM entry WHERE name = ?"), arguments: [name]
            ).map { Self.time($0, 0) ?? .infinity }
        }
    }

    func row(_ name: String) throws -> Row? {
        try read { db in
            try GRDB.Row.fetchOne(
                db.cachedStatement(sql: "SELECT \(Self.columns) FROM entry WHERE name = ?"), arguments: [name]
            ).map(Self.row)
        }
    }

    private static let columns = "name, key, url, size, stored, accessed, expires, extension"

    private static func row(_ row: GRDB.Row) throws -> Row {
        guard let name = String.fromDatabaseValue(row[0]), let key = text(row, 1),
            let stored = moment(row, 4), let accessed = moment(row, 5)
        else { throw Damage() }
        return Row(
            name: name, key: key, url: text(row, 2) ?? key, size: try number(row, 3),
            stored: stored, accessed: accessed,
            lifetime: Lifetime(expires: time(row, 6) ?? .infinity, accessExtension: time(row, 7)))
    }

    /// Returns the text of a column. Text is stored as bytes, because SQLite ends bound text at its first zero.
    static func text(_ row: GRDB.Row, _ column: Int) -> String? {
        let value: DatabaseValue = row[column]
        if case .blob(let bytes) = value.storage { return String(decoding: bytes, as: UTF8.self) }
        return String.fromDatabaseValue(value)
    }

    /// Returns a count or a size. GRDB's own subscript traps on a value of another type, which damage can cause.
    static func number(_ row: GRDB.Row, _ column: Int) throws -> Int {
        guard let number = Int.fromDatabaseValue(row[column]), (0...1 << 50).contains(number) else {
            throw Damage()
        }
        return number
    }

    /// Returns a number of seconds; `nil` for NULL. An impossible time is the fault of its row alone and counts as long
    /// ago. Times far in the future, which earlier versions wrote for "never", stay far in the future.
    private static func time(_ row: GRDB.Row, _ column: Int) -> TimeInterval? {
        let value: DatabaseValue = row[column]
        if value.isNull { return nil }
        guard let time = TimeInterval.fromDatabaseValue(value), time > -1e15 else { return 0 }
        return min(time, 1e15)
    }

    /// Returns a time in the past; `nil` for NULL. A time that would count as never becomes 0.
    private static func moment(_ row: GRDB.Row, _ column: Int) -> TimeInterval? {
        time(row, column).map { $0 < Lifetime.longest ? $0 : 0 }
    }

    /// Returns up to `limit` rows that follow a name, in the order of their names.
    func rows(after name: String, limit: Int) throws -> [Row] {
        try read { db in
            let rows = try GRDB.Row.fetchAll(
                db.cachedStatement(sql: "SELECT \(Self.columns) FROM entry WHERE name > ? ORDER BY name LIMIT ?"),
                arguments: [name, limit]
            ).map(Self.row)
            // A caller that continues after the last row must come to an end.
            guard rows.last.map({ $0.name > name }) ?? true else { throw Damage() }
            return rows
        }
    }

    // MARK: Writes

    /// Adds or replaces rows and removes others, in one transaction.
    /// - Parameter change: called while nothing else can change the index, to put files in place and to remove others.
    ///   Returns the rows to add or replace, and the names of the rows to remove.
    func write(
        _ durability: Durability = .relaxed, _ change: () throws -> (rows: [Row], removed: [String])
    ) throws {
        try transaction(durability) { db in
            let (rows, names) = try change()
            let upsert = try db.cachedStatement(
                sql: """
                    INSERT INTO entry (name, key, url, size, stored, accessed, expires, extension)
                    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
                    ON CONFLICT (name) DO UPDATE SET key = excluded.key, url = excluded.url, size = excluded.size,
                        stored = excluded.stored, accessed = excluded.accessed, expires = excluded.expires,
                        extension = excluded.extension
                    """)
            let addSmall = try db.cachedStatement(
                sql: "INSERT INTO small (id, record) SELECT id, ? FROM entry WHERE name = ?")
            for row in rows {
                try upsert.execute(arguments: Self.arguments(row))
                guard let record = row.record else { continue }
                try addSmall.execute(arguments: [record, row.name])
                guard db.changesCount == 1 else { throw Damage() }
            }
            try Self.remove(names, db)
        }
    }

    /// Adds rows for entries that have none.
    static func addMissing(_ rows: [Row], _ db: Database) throws {
        guard !rows.isEmpty else { return }
        let insert = try db.cachedStatement(
            sql: """
                INSERT INTO entry (name, key, url, size, stored, accessed, expires, extension)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING
                """)
        for row in rows { try insert.execute(arguments: arguments(row)) }
    }

    /// Returns the values of a row for SQL. A URL that equals the key is not stored twice.
    private static func arguments(_ row: Row) -> StatementArguments {
        // An empty blob would be bound as NULL.
        let url: (any DatabaseValueConvertible)? =
            row.url == row.key ? nil : row.url.isEmpty ? "" as (any DatabaseValueConvertible) : Data(row.url.utf8)
        return [
            row.name, Data(row.key.utf8), url, row.size, row.stored, row.accessed,
            row.lifetime.expires.isFinite ? row.lifetime.expires : nil,
            row.lifetime.accessExtension.map { min($0, Lifetime.longest) },
        ]
    }

    @discardableResult
    static func remove(_ names: [String], _ db: Database) throws -> Int {
        guard !names.isEmpty else { return 0 }
        let remove = try db.cachedStatement(sql: "DELETE FROM entry WHERE name = ?")
        var removed = 0
        for name in names {
            try remove.execute(arguments: [name])
            removed += db.changesCount
        }
        return removed
    }

    /// Records accesses, each with the name of the entry.
    func touch(_ accesses: [String: Access]) throws {
        try transaction { db in
            let update = try db.cachedStatement(
                sql: """
                    UPDATE entry SET accessed = max(accessed, ?1),
                        expires = CASE WHEN extension IS NULL THEN expires
                            WHEN extension < 0 THEN -extension ELSE ?1 + extension END
                    WHERE name = ?2
                    """)
            for (name, access) in accesses { try update.execute(arguments: [access.time, name]) }
            try countUses(accesses, db)
        }
    }

    /// Flushes a row to the device, with everything that was written before it.
    /// - Parameter missing: called if there is no such row, while nothing else can change the index; returns the row to
    ///   add.
    /// - Returns: `false` if there is no row.
    func flush(_ name: String, orAdd missing: () -> Row?) throws -> Bool {
        var isThere = false
        try transaction(.durable) { db in
            // SQLite flushes only after a change.
            try db.cachedStatement(sql: "UPDATE entry SET accessed = accessed + 0.001 WHERE name = ?")
                .execute(arguments: [name])
            isThere = db.changesCount == 1
            guard !isThere, let row = missing() else { return }
            try Self.addMissing([row], db)
            isThere = true
        }
        return isThere
    }

    /// Runs a transaction. A durable one is on the device when this returns, with all transactions before it.
    func transaction(_ durability: Durability = .relaxed, _ body: (Database) throws -> Void) throws {
        do {
            try faults?.checkIndex(.write)
            if durability == .durable { try faults?.checkIndex(.flush) }
            try write(durability, body)
        } catch {
            throw IndexError(cause: error, index: self)
        }
    }

    private func write(_ durability: Durability, _ body: (Database) throws -> Void) throws {
        try pool.writeWithoutTransaction { db in
            if durability == .durable { try db.execute(sql: "PRAGMA synchronous = FULL") }
            defer { if durability == .durable { try? db.execute(sql: "PRAGMA synchronous = NORMAL") } }
            try db.inTransaction(.immediate) {
                try body(db)
                return .commit
            }
        }
    }
}

/// An error of an index, with the index that threw it, which may have been replaced meanwhile.
struct IndexError: Error, CustomStringConvertible {
    let cause: any Error
    let index: EntryIndex

    var description: String { "\(cause)" }
}
