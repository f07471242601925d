import Foundation

/// The columns of a row, and how they are written and read.
extension EntryIndex {
    struct Row: Sendable {
        var id: Int
        var key: String
        var addresses: Addresses
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
        /// Whether the other table has a row of the same number.
        var hasPartial = true

        var footer: RecordFormat.Footer? { RecordFormat.Footer(trailer) }
    }

    // Rows are in the order of writing, so that a batch fills pages one after the other: four times as fast as by id.
    // The body comes last, so that reading the other columns does not touch its pages.
    static let columns = """
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

    static func put(_ row: Row, _ body: Data?, _ table: Table, _ db: SQLiteConnection) throws {
        let turn = max(Self.turn(row.accessed), try Self.nextTurn(table, db))
        try db.run(
            """
            INSERT INTO \(table.rawValue)
                (place, id, key, url, size, stored, accessed, expires, extension, turn, uses, blob, trailer, body)
            VALUES (
                (SELECT 1 + max(cleared, ifnull((SELECT max(place) FROM \(table.rawValue)), 0)) FROM total),
                ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?
            )
            """, row.id, Data(row.key.utf8), row.addresses.text == row.key ? nil : Data(row.addresses.text.utf8),
            row.size, row.stored, row.accessed, row.lifetime.expires.isFinite ? row.lifetime.expires : nil,
            row.lifetime.accessExtension.map { min($0, .longest) }, turn, row.blob, row.trailer, body)
    }

    static func row(_ id: Int, _ table: Table, _ db: SQLiteConnection) throws -> Row? {
        try db.first("\(Row.query(table)) WHERE id = ?", id) { try Row($0) }
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

    /// Returns some rows in the order of a query, and the number of all rows that match it, at most one more than
    /// ``EntryQuery/mostCounted`` for a search. Reads the whole table unless the order is that of use.
    func page(_ query: EntryQuery) throws -> (rows: [Row], total: Int) {
        let url = "lower(CAST(ifnull(nullif(url, x''), key) AS TEXT))"
        // NULL for an entry that is not derived from another.
        let made = "lower(substr(CAST(key AS TEXT), nullif(instr(CAST(key AS TEXT), char(10) || '#'), 0) + 1))"
        let matches = """
            +\(Self.isPresent) AND (
                ?1 = '' OR instr(substr(\(url), 1, instr(\(url) || '?', '?') - 1), ?1) > 0
                OR instr(substr(\(made), 1, instr(\(made) || char(10), char(10)) - 1), ?1) > 0
            )
            """
        let column =
            switch query.order {
            case .used: "turn"
            case .stored: "stored"
            case .size: "size"
            case .expires: "ifnull(expires, 9e99)"
            case .url: url
            }
        let text = query.text.lowercased()
        return try read { db in
            // What is sorted are places, not whole rows, so that a page far down comes soon.
            let order = "ORDER BY \(column) \(query.isAscending ? "ASC" : "DESC")"
            let places = "SELECT place FROM entry WHERE \(matches) \(order) LIMIT ?2 OFFSET ?3"
            let rows = try db.all(
                "\(Row.query(.entry)) WHERE place IN (\(places)) \(order)", text, query.limit, query.offset,
                body: Row.init)
            let total =
                try text.isEmpty
                ? Self.totals(db).entries
                : db.first(
                    "SELECT count(*) FROM (SELECT 1 FROM entry WHERE \(matches) LIMIT ?2)", text,
                    EntryQuery.mostCounted + 1
                ) { $0.integer(0) }
            return (rows, total ?? 0)
        }
    }

    func derivedRows(of key: CacheKey, limit: Int) throws -> [Row] {
        try read { db in try Self.derivedRows(of: key, limit: limit, db).filter(\.isPresent) }
    }

    static func derivedRows(of key: CacheKey, limit: Int, _ db: SQLiteConnection) throws -> [Row] {
        let first = key.derivedPrefix
        // `$` follows `#`, so this key comes right after all keys with the prefix.
        let end = String(first.dropLast()) + "$"
        return try db.all(
            "\(Row.query(.entry)) WHERE \(Self.isDerived) AND key >= ? AND key < ? LIMIT ?", Data(first.utf8),
            Data(end.utf8), limit, body: Row.init)
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

    // Constants: hits of small entries are fast.
    private static let entryContent = """
        SELECT blob, trailer, expires, body, place, EXISTS (SELECT 1 FROM partial WHERE id = ?1) FROM entry WHERE id = ?1
        """
    private static let partialContent = "SELECT blob, trailer, expires, body, place FROM partial WHERE id = ?"
    private static let cleared = "SELECT cleared FROM total"

    func content(_ id: Int, in table: Table = .entry) throws -> Content? {
        try read { db in
            try db.first(table == .entry ? Self.entryContent : Self.partialContent, id: id) { row in
                // As in ``isPresent``.
                let cleared = table == .entry ? try db.remembered(Self.cleared) : -1
                // mutant Clearing|SharedFolder: `place > cleared else` => `place >= 0 else`
                guard let cleared, let place = row.integer(4), place > cleared else { return nil }
                let content = Content(
                    blob: row.text(0), trailer: row.blob(1) ?? Data(), body: row.blob(3),
                    expires: Self.time(row, 2) ?? .infinity, hasPartial: table == .entry && row.integer(5) != 0)
                guard (content.blob == nil) != (content.body == nil) else { throw Damage() }
                return content
            }
        }
    }

    static func number(_ row: SQLiteConnection.Row, _ column: Int32) throws -> Int {
        guard let number = row.integer(column), (0...1 << 50).contains(number) else { throw Damage() }
        return number
    }

    /// `nil` for NULL. An impossible time is the fault of its row alone and becomes 0.
    static func time(_ row: SQLiteConnection.Row, _ column: Int32) -> TimeInterval? {
        row.isNull(column) ? nil : row.time(column) ?? 0
    }

    /// A time in the past; 0 for a missing or infinite one.
    static func moment(_ row: SQLiteConnection.Row, _ column: Int32) -> TimeInterval {
        time(row, column).flatMap { $0.isFinite ? $0 : nil } ?? 0
    }
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
            id: id, key: key, addresses: row.text(2).map { Addresses($0) } ?? Addresses(key),
            size: try EntryIndex.number(row, 3),
            stored: EntryIndex.moment(row, 4), accessed: EntryIndex.moment(row, 5),
            lifetime: Lifetime(
                expires: EntryIndex.time(row, 6) ?? .infinity, accessExtension: EntryIndex.time(row, 7)),
            blob: row.text(8), trailer: row.blob(9) ?? Data(), uses: UInt8(clamping: row.integer(10) ?? 0),
            isPresent: row.integer(11) == 1)
    }
}
