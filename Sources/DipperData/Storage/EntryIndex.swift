import Foundation
import GRDB
import Synchronization

/// The SQLite side of the disk tier: small records, and what is needed to list entries and keep limits.
///
/// Not the truth about larger entries, whose files speak for themselves. Throws GRDB's errors.
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
        /// The record itself, if it is kept here and not in a file.
        var record: Data?
    }

    /// The file is a database, but not one of ours, or of a later version.
    struct ForeignDatabase: Error {}

    /// The index says what cannot be: it has been damaged.
    struct Damage: Error {}

    private static let applicationID = 0x4449_5052
    private static let version = 1

    private let pool: DatabasePool
    private let closing = ClosingGate()
    private let hasDerivedIndex = Atomic(false)
    /// Whether this call made the database.
    let isNew: Bool

    init(path: String) throws {
        var configuration = Configuration()
        configuration.busyMode = .timeout(10)
        configuration.maximumReaderCount = 2
        configuration.label = "dipper.index"
        configuration.prepareDatabase { db in
            // A power cut may lose the latest entries, never the database; nothing is flushed per entry.
            try db.execute(
                sql: """
                    PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 4000; PRAGMA cache_size = -1024
                    """)
        }
        pool = try DatabasePool(path: path, configuration: configuration)
        let version = try pool.read { db -> Int? in
            guard try Int.fetchOne(db, sql: "PRAGMA application_id") == Self.applicationID else {
                guard try Int.fetchOne(db, sql: "SELECT count(*) FROM sqlite_master") == 0 else {
                    throw ForeignDatabase()
                }
                return nil
            }
            return try Int.fetchOne(db, sql: "PRAGMA user_version")
        }
        if let version, version != Self.version { throw ForeignDatabase() }
        isNew = version == nil
        if isNew { try pool.write(Self.create) }
    }

    /// Entries that were made from others are found by their keys. There are few of them in a cache of bytes, so that the
    /// index is of those alone; a query must name the same condition to use it.
    private static let isDerived = "instr(key, char(10) || '#') > 0"
    private static let createDerivedIndex =
        "CREATE INDEX IF NOT EXISTS entry_by_origin ON entry (key) WHERE \(isDerived)"

    private static func create(_ db: Database) throws {
        // Another process may have come first.
        guard try !db.tableExists("entry") else { return }
        try db.execute(
            sql: """
                PRAGMA application_id = \(applicationID);
                PRAGMA user_version = \(version);
                CREATE TABLE entry (
                    id INTEGER PRIMARY KEY,
                    name TEXT NOT NULL UNIQUE,
                    key TEXT NOT NULL,
                    url TEXT,
                    size INTEGER NOT NULL,
                    stored REAL NOT NULL,
                    accessed REAL NOT NULL,
                    expires REAL,
                    extension REAL
                );
                CREATE INDEX entry_by_access ON entry (accessed);
                CREATE INDEX entry_by_expiration ON entry (expires) WHERE expires IS NOT NULL;
                \(createDerivedIndex);
                CREATE TABLE small (id INTEGER PRIMARY KEY, record BLOB NOT NULL);
                CREATE TABLE total (bytes INTEGER NOT NULL, entries INTEGER NOT NULL);
                CREATE TABLE rebuilding (shard TEXT NOT NULL);
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
    }

    /// GRDB does not expect a pool to be closed while it is read.
    private func read<Result>(_ body: (Database) throws -> Result) throws -> Result {
        try closing.whileOpen { try pool.unsafeRead(body) }
    }

    /// Brings the log into the database, so that the next one to open it finds nothing to do, and closes it.
    func close() throws {
        try? pool.writeWithoutTransaction { db in
            // Not if that means waiting for another process.
            try db.execute(sql: "PRAGMA busy_timeout = 0")
            try db.checkpoint(.truncate)
        }
        try closing.alone { try pool.close() }
    }

    // MARK: Reading

    func totals() throws -> Totals {
        try read(Self.totals)
    }

    private static func totals(_ db: Database) throws -> Totals {
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

    /// When the entry expires by now, accesses counted; `nil` if there is no such entry.
    func expiration(_ name: String) throws -> TimeInterval? {
        try read { db in
            try GRDB.Row.fetchOne(
                db.cachedStatement(sql: "SELECT expires FROM entry WHERE name = ?"), arguments: [name]
            ).map { try Self.time($0, 0) ?? .infinity }
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
        guard let name = String.fromDatabaseValue(row[0]), let key = String.fromDatabaseValue(row[1]),
            let stored = try time(row, 4), let accessed = try time(row, 5)
        else { throw Damage() }
        return Row(
            name: name, key: key, url: String.fromDatabaseValue(row[2]) ?? key, size: try number(row, 3),
            stored: stored, accessed: accessed,
            lifetime: Lifetime(expires: try time(row, 6) ?? .infinity, accessExtension: try time(row, 7)))
    }

    /// A count or a size. GRDB's own subscript traps on a value of another type, which damage can bring about.
    private static func number(_ row: GRDB.Row, _ column: Int) throws -> Int {
        guard let number = Int.fromDatabaseValue(row[column]), (0...1 << 50).contains(number) else {
            throw Damage()
        }
        return number
    }

    /// Seconds; `nil` for NULL.
    private static func time(_ row: GRDB.Row, _ column: Int) throws -> TimeInterval? {
        let value: DatabaseValue = row[column]
        if value.isNull { return nil }
        guard let time = TimeInterval.fromDatabaseValue(value), abs(time) < 1e15 else { throw Damage() }
        return time
    }

    /// Entries in the order of their names, some at a time.
    func rows(after name: String, limit: Int) throws -> [Row] {
        try read { db in
            let rows = try GRDB.Row.fetchAll(
                db.cachedStatement(sql: "SELECT \(Self.columns) FROM entry WHERE name > ? ORDER BY name LIMIT ?"),
                arguments: [name, limit]
            ).map(Self.row)
            // Whoever goes on from the last one must come to an end.
            guard rows.last.map({ $0.name > name }) ?? true else { throw Damage() }
            return rows
        }
    }

    /// The least recently used entries.
    func oldest(_ limit: Int) throws -> [(name: String, size: Int)] {
        try names("SELECT name, size FROM entry ORDER BY accessed LIMIT ?", [limit])
    }

    /// Entries whose keys lie in a range, of those that were made from others.
    func derived(from first: String, before end: String, limit: Int) throws -> [(name: String, size: Int)] {
        // Databases of earlier programs have no such index, and go on being theirs, too. Made when it is first needed: to
        // open a large one must not take longer.
        if !hasDerivedIndex.exchange(true, ordering: .relaxed) {
            try transaction { try $0.execute(sql: Self.createDerivedIndex) }
        }
        return try names(
            "SELECT name, size FROM entry WHERE \(Self.isDerived) AND key >= ? AND key < ? LIMIT ?",
            [first, end, limit])
    }

    func expired(at time: TimeInterval, limit: Int) throws -> [(name: String, size: Int)] {
        try names("SELECT name, size FROM entry WHERE expires <= ? LIMIT ?", [time, limit])
    }

    private func names(_ sql: String, _ arguments: StatementArguments) throws -> [(name: String, size: Int)] {
        try read { db in
            try GRDB.Row.fetchAll(db.cachedStatement(sql: sql), arguments: arguments).map { row in
                guard let name = String.fromDatabaseValue(row[0]) else { throw Damage() }
                return (name, try Self.number(row, 1))
            }
        }
    }

    /// What SQLite finds wrong with the file; empty if it is sound.
    func integrityProblems() throws -> [String] {
        try read { db in
            try String.fetchAll(db, sql: "PRAGMA integrity_check(20)").filter { $0 != "ok" }
        }
    }

    // MARK: Writing

    /// Adds rows or puts them in place of those of their names, in one transaction, and removes others.
    func write(_ rows: [Row], removing names: [String] = [], _ durability: Durability = .relaxed) throws {
        try transaction(durability) { db in
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
    func addMissing(_ rows: [Row]) throws {
        try transaction { db in
            let insert = try db.cachedStatement(
                sql: """
                    INSERT INTO entry (name, key, url, size, stored, accessed, expires, extension)
                    VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING
                    """)
            for row in rows { try insert.execute(arguments: Self.arguments(row)) }
        }
    }

    /// A URL that is the key is not written twice.
    private static func arguments(_ row: Row) -> StatementArguments {
        [
            row.name, row.key, row.url == row.key ? nil : row.url, row.size, row.stored, row.accessed,
            row.lifetime.expires.isFinite ? row.lifetime.expires : nil, row.lifetime.accessExtension,
        ]
    }

    func remove(_ names: [String]) throws {
        guard !names.isEmpty else { return }
        try transaction { db in _ = try Self.remove(names, db) }
    }

    /// Removes entries that the index itself has named. If none of them can be removed, the index is damaged: whoever
    /// asks for more of them would never come to an end.
    func removeListed(_ names: [String]) throws {
        try transaction { db in
            guard try Self.remove(names, db) > 0 else { throw Damage() }
        }
    }

    /// Removes an entry if the condition holds while nobody else can change the index.
    func remove(_ name: String, onlyIf condition: () -> Bool) throws {
        try transaction { db in
            if condition() { try Self.remove([name], db) }
        }
    }

    /// Those of the names that have no row.
    func missing(_ names: [String]) throws -> Set<String> {
        try read { db in
            let find = try db.cachedStatement(sql: "SELECT 1 FROM entry WHERE name = ?")
            return try Set(names.filter { try Int.fetchOne(find, arguments: [$0]) == nil })
        }
    }

    @discardableResult
    private static func remove(_ names: [String], _ db: Database) throws -> Int {
        guard !names.isEmpty else { return 0 }
        let remove = try db.cachedStatement(sql: "DELETE FROM entry WHERE name = ?")
        var removed = 0
        for name in names {
            try remove.execute(arguments: [name])
            removed += db.changesCount
        }
        return removed
    }

    func removeAll() throws {
        try transaction { db in try db.execute(sql: "DELETE FROM entry; UPDATE total SET bytes = 0, entries = 0") }
    }

    /// Notes accesses: name and time.
    func touch(_ accesses: [String: TimeInterval]) throws {
        try transaction { db in
            let update = try db.cachedStatement(
                sql: """
                    UPDATE entry SET accessed = max(accessed, ?1),
                        expires = CASE WHEN extension IS NULL THEN expires ELSE ?1 + extension END
                    WHERE name = ?2
                    """)
            for (name, time) in accesses { try update.execute(arguments: [time, name]) }
        }
    }

    /// Puts sizes and totals right.
    func recount() throws {
        try transaction { db in
            try db.execute(
                sql: """
                    DELETE FROM small WHERE id NOT IN (SELECT id FROM entry);
                    DELETE FROM total;
                    INSERT INTO total SELECT ifnull(sum(size), 0), count(*) FROM entry;
                    """)
        }
    }

    // MARK: Rebuilding

    /// The last folder that has been read in; `nil` if no rebuilding is under way.
    func rebuildPosition() throws -> String? {
        try read { db in try String.fetchOne(db, sql: "SELECT shard FROM rebuilding") }
    }

    func setRebuildPosition(_ shard: String?) throws {
        try transaction { db in
            try db.execute(sql: "DELETE FROM rebuilding")
            if let shard { try db.execute(sql: "INSERT INTO rebuilding VALUES (?)", arguments: [shard]) }
        }
    }

    /// Flushed to the device before it returns, with all transactions before it, if it is to be durable.
    private func transaction(_ durability: Durability = .relaxed, _ body: (Database) throws -> Void) throws {
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
