import Foundation
import GRDB

/// Checks of the index, and corrections that bring it in step with the files.
extension EntryIndex {
    // MARK: Damage

    /// Returns the problems that SQLite finds in the file; empty if there are none.
    func integrityProblems() throws -> [String] {
        try read { db in
            try String.fetchAll(db, sql: "PRAGMA integrity_check(20)").filter { $0 != "ok" }
        }
    }

    /// Returns whether the totals match the rows and every record has a row.
    func isCounted() throws -> Bool {
        try read { db in
            try Bool.fetchOne(
                db,
                sql: """
                    SELECT (SELECT count(*) FROM total) = 1 AND NOT EXISTS (
                        SELECT 1 FROM total, (SELECT ifnull(sum(size), 0) AS size, count(*) AS count FROM entry) AS all_
                        WHERE total.bytes IS NOT all_.size OR total.entries IS NOT all_.count
                    ) AND NOT EXISTS (SELECT 1 FROM small WHERE id NOT IN (SELECT id FROM entry))
                    """) ?? false
        }
    }

    /// Removes records without a row and corrects the totals.
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

    /// Removes the row of an entry unless the entry is whole, which is checked while nothing else can change the index.
    /// - Parameter isWhole: called with the key and the record, as far as the index has them.
    /// - Returns: `true` if the entry was not whole.
    func remove(_ name: String, unless isWhole: (_ key: String?, _ record: Data?) -> Bool) throws -> Bool {
        var isRemoved = false
        try transaction { db in
            let row = try GRDB.Row.fetchOne(
                db.cachedStatement(
                    sql: "SELECT key, record FROM entry LEFT JOIN small ON small.id = entry.id WHERE name = ?"),
                arguments: [name])
            if isWhole(row.flatMap { Self.text($0, 0) }, row.flatMap { Data.fromDatabaseValue($0[1]) }) { return }
            try Self.remove([name], db)
            isRemoved = true
        }
        return isRemoved
    }

    // MARK: Sweep

    /// The position of a sweep, which goes through the folders of files, then through the rows.
    struct SweepPosition: Hashable, Sendable {
        enum Phase: Int, Sendable { case files, rows }
        var phase = Phase.files
        /// The last folder or row that has been compared.
        var last = ""
    }

    /// Returns the position of the sweep; `nil` if none is due.
    func sweepPosition() throws -> SweepPosition? {
        try read { db in
            try GRDB.Row.fetchOne(db, sql: "SELECT phase, position FROM sweep").map { row in
                guard let phase = SweepPosition.Phase(rawValue: try Self.number(row, 0)),
                    let last = String.fromDatabaseValue(row[1])
                else { throw Damage() }
                return SweepPosition(phase: phase, last: last)
            }
        }
    }

    func setSweepPosition(_ position: SweepPosition) throws {
        try transaction { db in
            try db.execute(sql: "DELETE FROM sweep")
            try db.execute(
                sql: "INSERT INTO sweep VALUES (?, ?)", arguments: [position.phase.rawValue, position.last])
        }
    }

    /// Records that files and rows must be compared from the beginning, and for which boot of the machine. The next
    /// process to open the store during that boot continues the comparison.
    func beginSweep(boot: String) throws {
        try transaction { db in
            try db.execute(sql: "DELETE FROM sweep; DELETE FROM boot")
            try db.execute(sql: "INSERT INTO boot VALUES (?)", arguments: [boot])
            let start = SweepPosition()
            try db.execute(sql: "INSERT INTO sweep VALUES (?, ?)", arguments: [start.phase.rawValue, start.last])
        }
    }

    /// Records that files and rows have been compared since the machine was booted.
    func endSweep(boot: String) throws {
        try transaction { db in
            try db.execute(sql: "DELETE FROM sweep; DELETE FROM boot")
            try db.execute(sql: "INSERT INTO boot VALUES (?)", arguments: [boot])
        }
    }

    /// Returns the boot of the machine since which files and rows have been compared, or for which the comparison has
    /// begun.
    func sweptBoot() throws -> String? {
        try read { try String.fetchOne($0, sql: "SELECT id FROM boot") }
    }

    /// The part of a row that is compared with the entry's file.
    struct Listed {
        var size: Int
        var stored: TimeInterval
        var accessed: TimeInterval
        /// Whether the index contains the record.
        var isSmall: Bool
    }

    /// The change to be made to an entry's row.
    enum Correction {
        case keep
        case remove
        case list(Row)
    }

    /// Compares entries with their rows and changes the rows, while nothing else can change the index.
    /// - Returns: the number of rows added or replaced, and the number of rows removed.
    @discardableResult
    func compare(
        _ names: [String], _ correct: (String, Listed?) throws -> Correction
    ) throws -> (added: Int, removed: Int) {
        var added: [Row] = []
        var removed: [String] = []
        try transaction { db in
            let find = try db.cachedStatement(
                sql: """
                    SELECT size, stored, accessed, EXISTS (SELECT 1 FROM small WHERE small.id = entry.id)
                    FROM entry WHERE name = ?
                    """)
            var changed: [String] = []
            for name in names {
                let listed = try GRDB.Row.fetchOne(find, arguments: [name]).map { row in
                    Listed(
                        size: try Self.number(row, 0), stored: TimeInterval.fromDatabaseValue(row[1]) ?? 0,
                        accessed: TimeInterval.fromDatabaseValue(row[2]) ?? 0, isSmall: try Self.number(row, 3) == 1)
                }
                switch try correct(name, listed) {
                case .keep: break
                case .remove: removed.append(name)
                case .list(let row):
                    if listed != nil { changed.append(name) }
                    added.append(row)
                }
            }
            try Self.remove(removed + changed, db)
            try Self.addMissing(added, db)
        }
        return (added.count, removed.count)
    }
}
