import Foundation

/// Every change is one transaction.
extension EntryIndex {
    enum Change: Sendable {
        case put(Row, body: Data?, in: Table)
        case remove(Int, from: Table)
    }

    /// - Returns: the files that no row names any more.
    func write(_ durability: Durability = .relaxed, _ changes: [Change]) throws -> [String] {
        try accounted(durability) { db, account in
            for change in changes {
                switch change {
                case .put(let row, let body, let table):
                    if let old = try Summary.of(row.id, table, db) { account.remove(old, table) }
                    try Self.put(row, body, table, db)
                    if table == .entry { account.change.add(.init(bytes: row.size, entries: 1)) }
                case .remove(let id, let table):
                    if let old = try Summary.of(id, table, db) { try account.delete(old, table, db) }
                }
            }
        }.blobs
    }

    private struct Summary {
        let id: Int
        let size: Int
        let blob: String?
        let isPresent: Bool
        let stored: TimeInterval
        let expires: TimeInterval
        let uses: UInt8

        static func query(_ table: Table) -> String {
            "SELECT id, size, blob, \(table.isPresent), stored, expires, uses FROM \(table.rawValue)"
        }

        static func of(_ id: Int, _ table: Table, _ db: SQLiteConnection) throws -> Summary? {
            try db.first("\(query(table)) WHERE id = ?", id) { try Summary($0) }
        }

        init(_ row: SQLiteConnection.Row) throws {
            guard let id = row.integer(0) else { throw Damage() }
            self.id = id
            size = try EntryIndex.number(row, 1)
            blob = row.text(2)
            isPresent = row.integer(3) == 1
            stored = EntryIndex.moment(row, 4)
            expires = EntryIndex.time(row, 5) ?? .infinity
            uses = UInt8(clamping: row.integer(6) ?? 0)
        }
    }

    private struct Account {
        var blobs: [String] = []
        var change = Totals()

        mutating func remove(_ row: Summary, _ table: Table) {
            if let blob = row.blob { blobs.append(blob) }
            if table == .entry, row.isPresent { change.add(.init(bytes: -row.size, entries: -1)) }
        }

        mutating func delete(_ row: Summary, _ table: Table, _ db: SQLiteConnection) throws {
            remove(row, table)
            // Callers repeat the removal until nothing is left: a row that cannot be removed would keep them forever.
            guard try db.run("DELETE FROM \(table.rawValue) WHERE id = ?", row.id) == 1 else { throw Damage() }
        }
    }

    private func accounted(
        _ durability: Durability = .relaxed, _ body: (SQLiteConnection, inout Account) throws -> Void
    ) throws -> Account {
        try transaction(durability) { db in
            var account = Account()
            try body(db, &account)
            if account.change != Totals() {
                let changed = try db.run(
                    "UPDATE total SET bytes = max(0, bytes + ?), entries = max(0, entries + ?)", account.change.bytes,
                    account.change.entries)
                guard changed == 1 else { throw Damage() }
            }
            return account
        }
    }

    private static func put(_ row: Row, _ body: Data?, _ table: Table, _ db: SQLiteConnection) throws {
        let turn = max(Self.turn(row.accessed), try Self.nextTurn(table, db))
        try db.run(
            """
            INSERT OR REPLACE INTO \(table.rawValue)
                (place, id, key, url, size, stored, accessed, expires, extension, turn, uses, blob, trailer, body)
            VALUES (
                (SELECT 1 + max(cleared, ifnull((SELECT max(place) FROM \(table.rawValue)), 0)) FROM total),
                ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?
            )
            """, row.id, Data(row.key.utf8), row.url == row.key ? nil : Data(row.url.utf8), row.size, row.stored,
            row.accessed, row.lifetime.expires.isFinite ? row.lifetime.expires : nil,
            row.lifetime.accessExtension.map { min($0, Lifetime.longest) }, turn, row.blob, row.trailer, body)
    }

    /// - Returns: the files that no row names any more; `nil` if the row no longer is as it was read.
    func remove(_ id: Int, from table: Table = .entry, ifStill content: Content) throws -> [String]? {
        var isStill = false
        let account = try accounted { db, account in
            isStill = try db.hasRow(
                "SELECT 1 FROM \(table.rawValue) WHERE id = ? AND trailer = ? AND blob IS ? AND body IS ?", id,
                content.trailer, content.blob, content.body)
            if isStill, let row = try Summary.of(id, table, db) { try account.delete(row, table, db) }
        }
        return isStill ? account.blobs : nil
    }

    /// Flushes a row with everything written before it; `false` if the row no longer is as it was read.
    func flush(_ id: Int, ifStill content: Content) throws -> Bool {
        try transaction(.durable) { db in
            // SQLite flushes only after a change.
            try db.run(
                """
                UPDATE entry SET accessed = accessed + 0.001
                WHERE id = ? AND trailer = ? AND blob IS ? AND \(Self.isPresent)
                """, id, content.trailer, content.blob) == 1
        }
    }

    // MARK: Uses

    /// Accesses to an entry that have not been written to the index.
    struct Access: Sendable, Hashable {
        /// The last access, in seconds since 1970.
        var time: TimeInterval
        var count = 1
        /// The expiration by the rule of a request that has read the entry; `nil` for the entry's rule.
        var given: TimeInterval?

        /// - Parameter indexed: the expiration in the index.
        func expires(_ lifetime: Lifetime, _ info: EntryInfo, _ indexed: TimeInterval) -> TimeInterval {
            // An access to an earlier entry of the key does not count.
            if let given { return time < info.stored ? indexed : given }
            return lifetime.accessExtension == nil ? indexed : max(indexed, lifetime.expires(accessedAt: time))
        }
    }

    /// The place of an entry in the order of eviction, by its last use; the lowest goes first.
    private static func turn(_ time: TimeInterval) -> Int { Int(min(max(time, 0), 1e12) * 1e6) }

    /// Returns a turn behind those of the same time, and of later times if the clock was set back.
    private static func nextTurn(_ table: Table, _ db: SQLiteConnection) throws -> Int {
        try db.first("SELECT max(turn) FROM \(table.rawValue)") { ($0.integer(0) ?? 0) &+ 1 } ?? 1
    }

    func touch(_ accesses: Slice<[Int: Access]>) throws {
        try transaction { db in
            for (id, access) in accesses {
                try db.run(
                    """
                    UPDATE entry SET accessed = max(accessed, ?1), turn = max(turn, ?2), uses = min(uses + ?3, 255),
                        expires = CASE WHEN ?1 < accessed THEN expires WHEN ?5 THEN ?6 WHEN extension IS NULL THEN expires
                            WHEN extension < 0 THEN -extension ELSE ?1 + extension END
                    WHERE id = ?4
                    """, access.time, Self.turn(access.time), access.count, id, access.given == nil ? 0 : 1,
                    access.given.flatMap { $0.isFinite ? $0 : nil })
            }
        }
    }

    // MARK: Removal of many

    /// Makes all rows count as removed, and leaves those of entries to be removed.
    /// - Returns: the entries, and the files of the partial bodies.
    func clear() throws -> (Totals, blobs: [String]) {
        try transaction { db in
            let totals = try Self.totals(db)
            let changed = try db.run(
                """
                UPDATE total SET bytes = 0, entries = 0,
                    cleared = max(cleared, ifnull((SELECT max(place) FROM entry), 0))
                """)
            guard changed == 1 else { throw Damage() }
            let blobs = try db.all("SELECT blob FROM partial") { $0.text(0) }.compactMap { $0 }
            try db.run("DELETE FROM partial")
            return (totals, blobs)
        }
    }

    private static let isCleared = "place <= (SELECT cleared FROM total)"

    func hasCleared() throws -> Bool {
        try read { try $0.hasRow("SELECT 1 FROM entry WHERE \(Self.isCleared) LIMIT 1") }
    }

    enum Selection: Sendable {
        case cleared
        /// The entries that leave first, until at most so many bytes remain.
        case oldest(untilSize: Int)
        case expired(at: TimeInterval)
        case derived(of: CacheKey)
        /// The entries stored before a time, among those after a number.
        case stored(before: TimeInterval, after: Int?)
        /// The partial bodies that have expired or were stored before a time, then the oldest until the limits hold.
        case partials(
            expiredAt: TimeInterval = -.infinity, storedBefore: TimeInterval = -.infinity, bytes: Int = .max,
            count: Int = .max)

        fileprivate var table: Table { if case .partials = self { .partial } else { .entry } }
    }

    struct Removed: Sendable {
        /// Without partial bodies.
        let totals: Totals
        let blobs: [String]
        /// `nil` if nothing is left to remove.
        let rest: Selection?
    }

    /// In one transaction; partial bodies are removed all at once.
    private static let mostRemoved = 64

    func removeSome(of selection: Selection) throws -> Removed {
        var rest: Selection?
        let account = try accounted { db, account in
            let selected = try select(selection, db)
            for row in selected.rows { try account.delete(row, selection.table, db) }
            rest = selected.rest
        }
        let totals = Totals(bytes: -account.change.bytes, entries: -account.change.entries)
        return Removed(totals: totals, blobs: account.blobs, rest: rest)
    }

    private func select(
        _ selection: Selection, _ db: SQLiteConnection
    ) throws -> (rows: [Summary], rest: Selection?) {
        let query = Summary.query(selection.table)
        let rows: [Summary]
        switch selection {
        case .cleared:
            rows = try db.all("\(query) WHERE \(Self.isCleared) LIMIT ?", Self.mostRemoved, body: Summary.init)
        case .expired(let time):
            rows = try db.all("\(query) WHERE expires <= ? LIMIT ?", time, Self.mostRemoved, body: Summary.init)
        case .derived(let key):
            let first = key.derivedPrefix
            // `$` follows `#`, so this key comes right after all keys with the prefix.
            let end = String(first.dropLast()) + "$"
            rows = try db.all(
                "\(query) WHERE \(Self.isDerived) AND key >= ? AND key < ? LIMIT ?", Data(first.utf8), Data(end.utf8),
                Self.mostRemoved, body: Summary.init)
        case .stored(let time, let last):
            // A step looks at a limited number of rows, even if it removes none.
            let following = try db.all(
                "\(query) WHERE id >= ? ORDER BY id LIMIT ?", last.map { $0 &+ 1 } ?? .min,
                last == .max ? 0 : 4 * Self.mostRemoved, body: Summary.init)
            return (
                following.filter { $0.stored < time },
                following.last.map { Selection.stored(before: time, after: $0.id) }
            )
        case .oldest(let size):
            return try selectOldest(untilSize: size, db)
        case .partials(let time, let limit, let bytes, let count):
            let all = try db.all("\(query) ORDER BY turn", body: Summary.init)
            var (size, left) = (all.reduce(0) { $0 + $1.size }, all.count)
            var leaving: [Summary] = []
            for row in all where row.stored < limit || row.expires <= time || size > bytes || left > count {
                leaving.append(row)
                (size, left) = (size - row.size, left - 1)
            }
            return (leaving, nil)
        }
        return (rows, rows.isEmpty ? nil : selection)
    }

    private func selectOldest(
        untilSize size: Int, _ db: SQLiteConnection
    ) throws -> (rows: [Summary], rest: Selection?) {
        var excess = try Self.totals(db).bytes - size
        var leaving: [Summary] = []
        var turn = try Self.nextTurn(.entry, db)
        let rows = try db.all(
            // The plus sign makes SQLite go by turn and not by place.
            "\(Summary.query(.entry)) WHERE +\(Self.isPresent) ORDER BY turn LIMIT ?", Self.mostRemoved,
            body: Summary.init)
        // Bytes without entries: the totals are damaged.
        if rows.isEmpty, excess > 0 { try db.run(script: Self.recount) }
        for row in rows where excess > 0 {
            if let uses = order.spared(row.uses) {
                try db.run("UPDATE entry SET turn = ?, uses = ? WHERE id = ?", turn, Int(uses), row.id)
                turn &+= 1
            } else {
                leaving.append(row)
                excess -= row.size
            }
        }
        return (leaving, excess <= 0 || rows.isEmpty ? nil : .oldest(untilSize: size))
    }
}
