import Foundation

/// Every change is one transaction.
extension EntryIndex {
    /// The removal of the row with a number, and what comes in its place.
    struct Change: Sendable {
        var id: Int
        var table: Table
        var new: (row: Row, body: Data?)?
        /// A newer answer that was stored later than this, in seconds since 1970, stays.
        var requested = TimeInterval.infinity

        fileprivate func isLate(for old: Row) -> Bool {
            // A time that is still to come says nothing: the clock was set back. A row of the same time is the same.
            guard let row = new?.row, old.stored > requested, old.stored <= row.accessed, old.stored != row.stored,
                old.isPresent, old.key == row.key
            else { return false }
            // Of two that were fetched at the same time the server tells which is newer.
            guard let its = RecordFormat.generated(in: old.trailer), let own = RecordFormat.generated(in: row.trailer)
            else { return true }
            return its > own
        }
    }

    /// Returns the names of the files that no row needs any more, also of those that have come too late.
    func write(_ durability: Durability = .relaxed, _ changes: [Change]) throws -> [String] {
        var present: Set<String> = []
        let account = try accounted(durability) { db, account in
            for change in changes {
                if let old = try Self.row(change.id, change.table, db) {
                    if change.isLate(for: old) {
                        if let blob = change.new?.row.blob { account.blobs.append(blob) }
                        continue
                    }
                    try account.delete(old, change.table, db)
                }
                guard let (row, body) = change.new else { continue }
                try Self.put(row, body, change.table, db)
                if let blob = row.blob { present.insert(blob) }
                if change.table == .entry { account.change.add(.init(bytes: row.size, entries: 1)) }
            }
        }
        return account.blobs.filter { !present.contains($0) }
    }

    struct Account {
        var blobs: [String] = []
        var change = Totals()

        mutating func delete(_ row: Row, _ table: Table, _ db: SQLiteConnection) throws {
            if let blob = row.blob { blobs.append(blob) }
            if table == .entry, row.isPresent { change.add(.init(bytes: -row.size, entries: -1)) }
            // Callers repeat the removal until nothing is left: a row that cannot be removed would keep them forever.
            guard try db.run("DELETE FROM \(table.rawValue) WHERE id = ?", row.id) == 1 else { throw Damage() }
        }
    }

    func accounted(
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

    /// Accesses to an entry that have not been written to the index.
    struct Access: Sendable, Hashable {
        var time: TimeInterval
        var count = 1
        /// The expiration by the rule of a request that has read the entry; `nil` for the entry's rule.
        var given: TimeInterval?

        func expires(_ lifetime: Lifetime, _ info: EntryInfo, _ indexed: TimeInterval) -> TimeInterval {
            // An access to an earlier entry of the key does not count.
            if let given { return time < info.stored ? indexed : given }
            return lifetime.accessExtension == nil ? indexed : max(indexed, lifetime.expires(accessedAt: time))
        }
    }

    /// The place of an entry in the order of eviction, by its last use; the lowest goes first.
    static func turn(_ time: TimeInterval) -> Int { Int(min(max(time.bounded, 0), 1e12) * 1e6) }

    /// Returns a turn behind those of the same time, and of later times if the clock was set back.
    static func nextTurn(_ table: Table, _ db: SQLiteConnection) throws -> Int {
        try db.first("SELECT max(turn) FROM \(table.rawValue)") { ($0.integer(0) ?? 0) &+ 1 } ?? 1
    }

    func touch(_ accesses: [Int: Access]) throws {
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
}
