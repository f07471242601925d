import Foundation
import GRDB

// The table `entry_use` exists once a cache that counts uses has opened the index. It has one row per entry:
//
//     turn    the place of the entry in the line of those to leave; the lowest is next
//     uses    the number of uses; see `EvictionOrder.spared`
//
// Triggers keep its rows in step with those of `entry`, also in processes that do not count uses and in earlier
// versions of Dipper. These need nothing else of it, so the version of the index stays the same.

/// The uses of entries, for an ``EvictionOrder`` that counts them.
extension EntryIndex {
    /// Accesses to an entry that have not been written to the index.
    struct Access: Sendable, Hashable {
        /// The time of the last one, in seconds since 1970.
        var time: TimeInterval
        var count = 1
    }

    /// Creates the table of uses unless it exists. Entries that are there leave in the order of their last accesses.
    static func createUses(_ db: Database) throws {
        guard try !hasUses(db) else { return }
        try db.inTransaction(.immediate) {
            try addUses(db)
            return .commit
        }
    }

    static func addUses(_ db: Database) throws {
        // Another process may have created the table first.
        guard try !hasUses(db) else { return }
        try db.execute(
            sql: """
                CREATE TABLE entry_use (id INTEGER PRIMARY KEY, turn INTEGER NOT NULL, uses INTEGER NOT NULL);
                CREATE INDEX entry_use_by_turn ON entry_use (turn);
                INSERT INTO entry_use SELECT id, row_number() OVER (ORDER BY accessed), 0 FROM entry;
                CREATE TRIGGER entry_use_added AFTER INSERT ON entry BEGIN
                    DELETE FROM entry_use WHERE id = NEW.id;
                    INSERT INTO entry_use VALUES (NEW.id, (SELECT ifnull(max(turn), 0) + 1 FROM entry_use), 0);
                END;
                CREATE TRIGGER entry_use_removed AFTER DELETE ON entry BEGIN
                    DELETE FROM entry_use WHERE id = OLD.id;
                END;
                CREATE TRIGGER entry_use_replaced AFTER UPDATE OF size ON entry BEGIN
                    UPDATE entry_use SET turn = (SELECT max(turn) + 1 FROM entry_use), uses = 0 WHERE id = NEW.id;
                END;
                """)
    }

    /// Returns whether the table exists, asking the database each time.
    private static func hasUses(_ db: Database) throws -> Bool {
        try Int.fetchOne(db, sql: "SELECT count(*) FROM sqlite_master WHERE name = 'entry_use'") != 0
    }

    /// Counts accesses, each with the name of the entry, and puts the entries at the end of the line.
    func countUses(_ accesses: [String: Access], _ db: Database) throws {
        guard order.countsUses else { return }
        let update = try db.cachedStatement(
            sql: """
                UPDATE entry_use SET turn = (SELECT max(turn) + 1 FROM entry_use), uses = min(uses + ?1, 255)
                WHERE id = (SELECT id FROM entry WHERE name = ?2)
                """)
        for (name, access) in accesses.sorted(by: { $0.value.time < $1.value.time }) {
            try update.execute(arguments: [access.count, name])
        }
    }

    /// Returns the entries that leave so that `excess` bytes are free, at most `limit` of them, and spares the others
    /// that were before them in the line. Empty if uses are not counted.
    func leastUsed(_ excess: Int, _ limit: Int, _ db: Database) throws -> [(name: String, size: Int)] {
        guard order.countsUses else { return [] }
        let next = try db.cachedStatement(
            sql: """
                SELECT name, size, uses, entry.id FROM entry_use JOIN entry ON entry.id = entry_use.id
                ORDER BY turn LIMIT ?
                """)
        let spare = try db.cachedStatement(
            sql: "UPDATE entry_use SET turn = (SELECT max(turn) + 1 FROM entry_use), uses = ? WHERE id = ?")
        var excess = excess
        var leaving: [(name: String, size: Int)] = []
        // So that no transaction takes long, all others leave as if they had not been used.
        var left = 4_096
        while leaving.isEmpty, case let rows = try GRDB.Row.fetchAll(next, arguments: [limit]), !rows.isEmpty {
            for row in rows where excess > 0 {
                guard let name = String.fromDatabaseValue(row[0]) else { throw Damage() }
                let size = try Self.number(row, 1)
                if left > 0, let uses = order.spared(UInt8(clamping: try Self.number(row, 2))) {
                    try spare.execute(arguments: [Int(uses), try Self.number(row, 3)])
                    left -= 1
                } else {
                    leaving.append((name, size))
                    excess -= size
                }
            }
        }
        return leaving
    }
}
