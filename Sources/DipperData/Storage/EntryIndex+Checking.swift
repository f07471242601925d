import Foundation

/// Checks of the index itself, and requests to compare it with the files.
extension EntryIndex {
    func isSound() throws -> Bool {
        try hasOwnSchema() && integrityProblems().isEmpty && read(Self.isPlausible)
    }

    private func hasOwnSchema() throws -> Bool {
        let schema: (SQLiteConnection) throws -> [String] = { db in
            try db.all("SELECT type || ' ' || name || ' ' || ifnull(sql, '') FROM sqlite_master ORDER BY 1") {
                guard let text = $0.text(0) else { throw Damage() }
                return text
            }
        }
        let fresh = try SQLiteConnection(":memory:", patience: 0)
        try Self.create(fresh, "")
        return try read(schema) == schema(fresh)
    }

    func integrityProblems() throws -> [String] {
        try read { db in
            try db.all("PRAGMA integrity_check(20)") { $0.text(0) ?? "" }.filter { $0 != "ok" }
        }
    }

    func isCounted() throws -> Bool {
        try read { db in
            try db.first(
                """
                SELECT count(*) = 1
                    AND sum(bytes) = (SELECT ifnull(sum(size), 0) FROM entry WHERE \(Self.isPresent))
                    AND sum(entries) = (SELECT count(*) FROM entry WHERE \(Self.isPresent))
                FROM total
                """
            ) { $0.integer(0) } == 1
        }
    }

    func recount() throws {
        try transaction { db in
            try db.run(script: Self.recount)
        }
    }

    static let recount = """
        INSERT INTO total
            SELECT ifnull(sum(size), 0), count(*), (SELECT ifnull(max(cleared), 0) FROM total) FROM entry
            WHERE place > (SELECT ifnull(max(cleared), 0) FROM total);
        DELETE FROM total WHERE rowid < (SELECT max(rowid) FROM total)
        """

    /// Returns the number of the latest request for a comparison of rows and files; `nil` if they have been compared in
    /// this boot, and nobody has asked for it since.
    func dueSweep(boot: String) throws -> Int? {
        try read { db in
            try db.first("SELECT boot, due FROM swept") { $0.text(0) == boot ? nil : $0.integer(1) ?? 0 }
        }
    }

    func requestSweep() throws {
        try transaction { db in
            _ = try db.run("UPDATE swept SET boot = 'due', due = due + 1")
        }
    }

    /// Has no effect if somebody has asked for another comparison since.
    func endSweep(_ number: Int, boot: String) throws {
        try transaction { db in
            _ = try db.run("UPDATE swept SET boot = ? WHERE due = ?", boot, number)
        }
    }
}
