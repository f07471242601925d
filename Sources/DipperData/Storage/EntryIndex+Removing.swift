import Foundation
import GRDB

/// Selection and removal of entries.
extension EntryIndex {
    /// A set of entries to remove, which a query of the index finds.
    enum Selection {
        /// The entries that leave first, as many as must go until at most `untilSize` bytes are left. `now` is the
        /// current time, in seconds since 1970.
        case oldest(untilSize: Int, now: TimeInterval)
        case expired(at: TimeInterval)
        /// Derived entries whose keys lie in a range. The upper end is not part of the range.
        case derived(from: String, before: String)
    }

    /// Removes some of the selected entries in one transaction, so that two processes never remove the same entry
    /// twice.
    /// - Parameter removeFile: called with each name before the row is removed, while nothing else can change the
    ///   index.
    /// - Returns: the number and the size of the removed entries; zero if there are no more.
    func removeSome(of selection: Selection, limit: Int = 64, removeFile: (String) -> Void) throws -> Totals {
        var removed = Totals()
        try transaction { db in
            let entries = try self.select(selection, limit, db)
            guard !entries.isEmpty else { return }
            for entry in entries { removeFile(entry.name) }
            // A row that was just listed but cannot be removed is damage. Without this check, callers that repeat the
            // removal until nothing is left would never end.
            guard try Self.remove(entries.map(\.name), db) == entries.count else { throw Damage() }
            removed = Totals(bytes: entries.reduce(0) { $0 + $1.size }, entries: entries.count)
        }
        return removed
    }

    private func select(_ selection: Selection, _ limit: Int, _ db: Database) throws -> [(name: String, size: Int)] {
        switch selection {
        case .oldest(let size, let now):
            var excess = try Self.totals(db).bytes - size
            guard excess > 0 else { return [] }
            let leastUsed = try self.leastUsed(excess, limit, db)
            if !leastUsed.isEmpty { return leastUsed }
            // An access time in the future dates from before the clock was set back. It counts as now; otherwise the
            // entry would outlive all others.
            try db.execute(sql: "UPDATE entry SET accessed = ?1 WHERE accessed > ?1", arguments: [now])
            let oldest = try Self.names("SELECT name, size FROM entry ORDER BY accessed LIMIT ?", [limit], db)
            return Array(
                oldest.prefix { entry in
                    defer { excess -= entry.size }
                    return excess > 0
                })
        case .expired(let time):
            return try Self.names("SELECT name, size FROM entry WHERE expires <= ? LIMIT ?", [time, limit], db)
        case .derived(let first, let end):
            return try Self.names(
                "SELECT name, size FROM entry WHERE \(Self.isDerived) AND key >= ? AND key < ? LIMIT ?",
                [Data(first.utf8), Data(end.utf8), limit], db)
        }
    }

    private static func names(
        _ sql: String, _ arguments: StatementArguments, _ db: Database
    ) throws -> [(name: String, size: Int)] {
        try GRDB.Row.fetchAll(db.cachedStatement(sql: sql), arguments: arguments).map { row in
            guard let name = String.fromDatabaseValue(row[0]) else { throw Damage() }
            return (name, try number(row, 1))
        }
    }
}
