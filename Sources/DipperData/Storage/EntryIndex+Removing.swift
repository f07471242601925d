import Foundation

extension EntryIndex {
    /// - Returns: the files that no row names any more; `nil` if the row no longer is as it was read.
    func remove(_ id: Int, from table: Table = .entry, ifStill content: Content) throws -> [String]? {
        var isStill = false
        let account = try accounted { db, account in
            isStill = try db.hasRow(
                "SELECT 1 FROM \(table.rawValue) WHERE id = ? AND trailer = ? AND blob IS ? AND body IS ?", id,
                content.trailer, content.blob, content.body)
            if isStill, let row = try Self.row(id, table, db) { try account.delete(row, table, db) }
        }
        return isStill ? account.blobs : nil
    }

    /// Makes all rows count as removed, and leaves those of entries to be removed.
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

    func freeBytes() throws -> Int {
        try read { try $0.first("PRAGMA freelist_count") { try Self.number($0, 0) << 12 } ?? 0 }
    }

    private static let isCleared = "place <= (SELECT cleared FROM total)"

    func hasCleared() throws -> Bool {
        try read { try $0.hasRow("SELECT 1 FROM entry WHERE \(Self.isCleared) LIMIT 1") }
    }

    enum Selection: Sendable {
        case cleared
        case oldest(untilSize: Int)
        case expired(at: TimeInterval)
        case derived(of: CacheKey)
        /// The rows with other keys than the URL itself, which was asked for or answered.
        case url(String, Table)
        case stored(before: TimeInterval, after: Int?)
        /// The partial bodies that have expired or were stored before a time, then the oldest until the limits hold; of
        /// the remembered failures, which have no size, likewise.
        case partials(
            expiredAt: TimeInterval = -.infinity, storedBefore: TimeInterval = -.infinity, bytes: Int = .max,
            count: Int = .max, sparing: Set<Int> = [])

        fileprivate var table: Table {
            if case .url(_, let table) = self { table } else if case .partials = self { .partial } else { .entry }
        }
    }

    /// - Parameter most: how many rows to remove; partial bodies are removed all at once.
    /// - Returns: the entries that were removed, all files, and what is left to remove, if anything is.
    func removeSome(
        of selection: Selection, atMost most: Int = 64
    ) throws -> (totals: Totals, blobs: [String], rest: Selection?) {
        var rest: Selection?
        let account = try accounted { db, account in
            let selected = try select(selection, most, db)
            for row in selected.rows { try account.delete(row, selection.table, db) }
            rest = selected.rest
        }
        return (Totals(bytes: -account.change.bytes, entries: -account.change.entries), account.blobs, rest)
    }

    private func select(
        _ selection: Selection, _ most: Int, _ db: SQLiteConnection
    ) throws -> (rows: [Row], rest: Selection?) {
        let query = Row.query(selection.table)
        let rows: [Row]
        switch selection {
        case .cleared:
            rows = try db.all("\(query) WHERE \(Self.isCleared) LIMIT ?", most, body: Row.init)
        case .expired(let time):
            rows = try db.all("\(query) WHERE expires <= ? LIMIT ?", time, most, body: Row.init)
        case .derived(let key):
            rows = try Self.derivedRows(of: key, limit: most, db)
        case .url(let url, _):
            // A line feed and the byte after it: between them are the texts that begin with the URL.
            rows = try db.all(
                "\(query) WHERE \(Self.isOfURL) LIMIT ?4", Data(url.utf8), Data("\(url)\n".utf8),
                Data("\(url)\u{b}".utf8), most, body: Row.init)
        case .stored(let time, let last):
            // A step looks at a limited number of rows, even if it removes none.
            let following = try db.all(
                "\(query) WHERE id >= ? ORDER BY id LIMIT ?", last.map { $0 &+ 1 } ?? .min,
                last == .max ? 0 : 4 * most, body: Row.init)
            return (
                following.filter { $0.stored < time },
                following.last.map { Selection.stored(before: time, after: $0.id) }
            )
        case .oldest(let size):
            return try selectOldest(untilSize: size, most, db)
        case .partials(let time, let limit, let bytes, let count, let spared):
            let all = try db.all("\(query) ORDER BY turn", body: Row.init).filter { !spared.contains($0.id) }
            var leaving: [Row] = []
            for rows in [all.filter { $0.size > 0 }, all.filter { $0.size == 0 }] {
                var (size, left) = (rows.reduce(0) { min($0 + $1.size, 1 << 60) }, rows.count)
                for row in rows
                where row.stored < limit || row.lifetime.expires <= time || size > bytes || left > count {
                    leaving.append(row)
                    (size, left) = (size - row.size, left - 1)
                }
            }
            return (leaving, nil)
        }
        return (rows, rows.isEmpty ? nil : selection)
    }

    private func selectOldest(
        untilSize size: Int, _ most: Int, _ db: SQLiteConnection
    ) throws -> (rows: [Row], rest: Selection?) {
        var excess = try Self.totals(db).bytes - size
        var leaving: [Row] = []
        var turn = try Self.nextTurn(.entry, db)
        let rows = try db.all(
            // The plus sign makes SQLite go by turn and not by place.
            "\(Row.query(.entry)) WHERE +\(Self.isPresent) ORDER BY turn LIMIT ?", most,
            body: Row.init)
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
