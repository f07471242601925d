import CSQLite
import Foundation
import Synchronization

struct SQLiteError: Error, CustomStringConvertible {
    let code: Int32
    let message: String

    init(code: Int32, _ message: String? = nil) {
        self.code = code
        self.message = message ?? String(cString: sqlite3_errstr(code))
    }

    static let cannotOpen = SQLITE_CANTOPEN
    static let busy = SQLITE_BUSY

    var primaryCode: Int32 { code & 0xff }
    var description: String { "SQLite error \(code): \(message)" }
}

protocol SQLiteValue {
    func bind(to statement: OpaquePointer, _ parameter: Int32) -> Int32
}

extension Int: SQLiteValue {
    func bind(to statement: OpaquePointer, _ parameter: Int32) -> Int32 {
        sqlite3_bind_int64(statement, parameter, Int64(self))
    }
}

extension Double: SQLiteValue {
    func bind(to statement: OpaquePointer, _ parameter: Int32) -> Int32 {
        sqlite3_bind_double(statement, parameter, self)
    }
}

extension String: SQLiteValue {
    func bind(to statement: OpaquePointer, _ parameter: Int32) -> Int32 {
        sqlite3_bind_text(statement, parameter, self, Int32(clamping: utf8.count), dipper_sqlite_copying())
    }
}

extension Data: SQLiteValue {
    func bind(to statement: OpaquePointer, _ parameter: Int32) -> Int32 {
        // No bytes would be bound as NULL.
        if isEmpty { return sqlite3_bind_zeroblob(statement, parameter, 0) }
        return withUnsafeBytes {
            sqlite3_bind_blob64(statement, parameter, $0.baseAddress, UInt64($0.count), dipper_sqlite_copying())
        }
    }
}

// Unchecked: SQLitePool lends a connection to one thread at a time.
final class SQLiteConnection: @unchecked Sendable {
    /// The present row of a statement. Each value is `nil` if its column holds a value of another kind.
    struct Row {
        fileprivate let statement: OpaquePointer

        private func holds(_ kind: Int32, _ column: Int32) -> Bool { sqlite3_column_type(statement, column) == kind }

        func isNull(_ column: Int32) -> Bool { holds(SQLITE_NULL, column) }

        func integer(_ column: Int32) -> Int? {
            holds(SQLITE_INTEGER, column) ? Int(sqlite3_column_int64(statement, column)) : nil
        }

        func time(_ column: Int32) -> TimeInterval? {
            holds(SQLITE_FLOAT, column) || holds(SQLITE_INTEGER, column)
                ? sqlite3_column_double(statement, column).bounded : nil
        }

        func text(_ column: Int32) -> String? {
            holds(SQLITE_TEXT, column) || holds(SQLITE_BLOB, column)
                ? String(decoding: bytes(column), as: UTF8.self) : nil
        }

        func blob(_ column: Int32) -> Data? {
            guard holds(SQLITE_BLOB, column) else { return nil }
            let bytes = bytes(column)
            // As a sequence, the bytes would be copied by a slower way.
            return bytes.baseAddress.map { Data(bytes: $0, count: bytes.count) } ?? Data()
        }

        private func bytes(_ column: Int32) -> UnsafeRawBufferPointer {
            // Before the count, which belongs to the form asked for last.
            let start = sqlite3_column_blob(statement, column)
            return UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(statement, column)))
        }
    }

    private let database: OpaquePointer
    private var statements: [String: OpaquePointer] = [:]
    /// Nearly always the next one as well. The comparison of a text with itself takes no time.
    private var latest: (sql: String, statement: OpaquePointer)?
    private var memo: (sql: String, version: UInt32, number: Int?)?

    /// - Parameter patience: how long to wait for another process that holds the database, in milliseconds.
    convenience init(_ path: String, patience: Int32) throws(SQLiteError) {
        try self.init(name: path, SQLITE_OPEN_READWRITE)
        setPatience(patience)
    }

    convenience init(readingOnly path: String) throws {
        do {
            try self.init(name: path, SQLITE_OPEN_READONLY)
            setPatience(50)
            _ = try first("SELECT 1 FROM sqlite_master") { _ in true }
        } catch let error as SQLiteError where error.primaryCode == SQLITE_CANTOPEN {
            // Without a log SQLite opens only a file that is declared unchanging.
            let escaped = path.addingPercentEncoding(withAllowedCharacters: .urlPathAllowed) ?? path
            try self.init(name: "file:\(escaped)?immutable=1", SQLITE_OPEN_READONLY | SQLITE_OPEN_URI)
        }
    }

    private init(name: String, _ flags: Int32) throws(SQLiteError) {
        var database: OpaquePointer?
        let code = sqlite3_open_v2(name, &database, flags | SQLITE_OPEN_NOMUTEX, nil)
        guard code == SQLITE_OK, let database else {
            let error = SQLiteError(code: code)
            sqlite3_close_v2(database)
            throw error
        }
        self.database = database
        sqlite3_extended_result_codes(database, 1)
    }

    deinit {
        for statement in statements.values { sqlite3_finalize(statement) }
        sqlite3_close_v2(database)
    }

    func setPatience(_ milliseconds: Int32) { sqlite3_busy_timeout(database, milliseconds) }

    func run(script: String) throws(SQLiteError) {
        try check(sqlite3_exec(database, script, nil, nil, nil))
    }

    /// The statement is prepared once for each connection, so it must be one of a few.
    @discardableResult
    func run(_ sql: String, _ values: (any SQLiteValue)?...) throws(SQLiteError) -> Int {
        let statement = try bound(sql, values)
        defer { reset(statement) }
        while try step(statement) {}
        return Int(sqlite3_changes(database))
    }

    func hasRow(_ sql: String, _ values: (any SQLiteValue)?...) throws(SQLiteError) -> Bool {
        let statement = try bound(sql, values)
        defer { reset(statement) }
        return try step(statement)
    }

    /// Returns the number that a statement gives, which is run again only once the database has changed. For use while a
    /// row is read: then both are of one state.
    func remembered(_ sql: String) throws -> Int? {
        var version: UInt32 = 0
        try check(sqlite3_file_control(database, "main", SQLITE_FCNTL_DATA_VERSION, &version))
        if let memo, memo.version == version, memo.sql == sql { return memo.number }
        let number = try first(sql) { $0.integer(0) }
        memo = (sql, version, number)
        return number
    }

    /// Hits of small entries are fast: the value needs no array.
    func first<Result>(_ sql: String, id: Int, body: (Row) throws -> Result?) throws -> Result? {
        let statement = try prepared(sql)
        try check(sqlite3_bind_int64(statement, 1, Int64(id)))
        defer { sqlite3_reset(statement) }
        return try step(statement) ? body(Row(statement: statement)) : nil
    }

    func first<Result>(
        _ sql: String, _ values: (any SQLiteValue)?..., body: (Row) throws -> Result?
    ) throws -> Result? {
        let statement = try bound(sql, values)
        defer { reset(statement) }
        return try step(statement) ? body(Row(statement: statement)) : nil
    }

    func all<Result>(_ sql: String, _ values: (any SQLiteValue)?..., body: (Row) throws -> Result) throws -> [Result] {
        let statement = try bound(sql, values)
        defer { reset(statement) }
        var results: [Result] = []
        while try step(statement) { results.append(try body(Row(statement: statement))) }
        return results
    }

    func transaction<Result>(_ body: () throws -> Result) throws -> Result {
        try run("BEGIN IMMEDIATE")
        do {
            let result = try body()
            try run("COMMIT")
            return result
        } catch {
            // SQLite may have undone it already.
            if sqlite3_get_autocommit(database) == 0 { _ = try? run("ROLLBACK") }
            throw error
        }
    }

    func checkpoint() throws(SQLiteError) {
        try check(sqlite3_wal_checkpoint_v2(database, nil, SQLITE_CHECKPOINT_TRUNCATE, nil, nil))
    }

    private func bound(_ sql: String, _ values: [(any SQLiteValue)?]) throws(SQLiteError) -> OpaquePointer {
        let statement = try prepared(sql)
        for (index, value) in values.enumerated() {
            let parameter = Int32(index + 1)
            try check(value?.bind(to: statement, parameter) ?? sqlite3_bind_null(statement, parameter))
        }
        return statement
    }

    private func prepared(_ sql: String) throws(SQLiteError) -> OpaquePointer {
        if let latest, latest.sql == sql { return latest.statement }
        if let statement = statements[sql] {
            latest = (sql, statement)
            return statement
        }
        var statement: OpaquePointer?
        try check(sqlite3_prepare_v3(database, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &statement, nil))
        guard let statement else { throw SQLiteError(code: SQLITE_MISUSE, "no statement") }
        statements[sql] = statement
        return statement
    }

    private func step(_ statement: OpaquePointer) throws(SQLiteError) -> Bool {
        switch sqlite3_step(statement) {
        case SQLITE_ROW: return true
        case SQLITE_DONE: return false
        case let code: throw error(code)
        }
    }

    private func reset(_ statement: OpaquePointer) {
        sqlite3_reset(statement)
        sqlite3_clear_bindings(statement)
    }

    private func check(_ code: Int32) throws(SQLiteError) { if code != SQLITE_OK { throw error(code) } }

    private func error(_ code: Int32) -> SQLiteError {
        SQLiteError(code: code, String(cString: sqlite3_errmsg(database)))
    }
}

/// The connections of one process to a database with a log: one writer and a few readers.
final class SQLitePool: Sendable {
    private static let mostReaders = 4

    private let open: @Sendable () throws -> SQLiteConnection
    /// Used by one thread at a time, that of the disk tier.
    private let writer: Mutex<SQLiteConnection?>
    private let readers = Mutex<[SQLiteConnection]?>([])
    private let permits = DispatchSemaphore(value: mostReaders)

    init(writer: SQLiteConnection?, reader open: @escaping @Sendable () throws -> SQLiteConnection) {
        self.writer = Mutex(writer)
        self.open = open
    }

    func write<Result>(_ body: (SQLiteConnection) throws -> Result) throws -> Result {
        guard let writer = writer.withLock({ $0 }) else { throw SQLiteError(code: SQLITE_MISUSE, "closed") }
        return try body(writer)
    }

    func read<Result>(_ body: (SQLiteConnection) throws -> Result) throws -> Result {
        permits.wait()
        defer { permits.signal() }
        let (free, isClosed) = readers.withLock { ($0?.popLast(), $0 == nil) }
        if isClosed { throw SQLiteError(code: SQLITE_MISUSE, "closed") }
        let connection = try free ?? open()
        defer { readers.withLock { $0?.append(connection) } }
        return try body(connection)
    }

    /// Closes connections; those in use close when they are given back. Later reads and writes fail.
    func close() {
        let free = readers.withLock { exchange(&$0, with: nil) }
        _ = consume free
        let last = writer.withLock { exchange(&$0, with: nil) }
        _ = consume last
    }
}
