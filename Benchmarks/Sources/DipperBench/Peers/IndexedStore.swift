import CBenchHash
import Foundation
import GRDB

/// A prototype of the disk layout that the library does not use, in which the index is the truth.
///
/// Every entry has a row. Bodies up to `inlineLimit` are in a table of their own. Larger bodies are in files named by
/// the key's digest, which are written under another name and renamed before their row is committed. A read selects the
/// row, then reads the body and checks it. The prototype has no limits, expirations or recovery.
final class IndexedStore {
    private static let inlineLimit = 2_048
    private let root: String
    private let pool: DatabasePool

    init(root: String) throws {
        self.root = root
        for folder in ["new"] + (0..<256).map({ String(format: "%02x", $0) }) {
            mkdir(root + "/" + folder, 0o700)
        }
        var configuration = GRDB.Configuration()
        configuration.maximumReaderCount = 2
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA synchronous = NORMAL; PRAGMA mmap_size = 67108864")
        }
        pool = try DatabasePool(path: root + "/index.sqlite", configuration: configuration)
        try pool.write { db in
            guard try !db.tableExists("entry") else { return }
            try db.execute(
                sql: """
                    CREATE TABLE entry (
                        id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, key TEXT NOT NULL, url TEXT NOT NULL,
                        size INTEGER NOT NULL, checksum INTEGER NOT NULL, stored REAL NOT NULL,
                        accessed REAL NOT NULL, expires REAL);
                    CREATE INDEX entry_by_access ON entry (accessed);
                    CREATE TABLE body (id INTEGER PRIMARY KEY, bytes BLOB NOT NULL);
                    CREATE TABLE total (bytes INTEGER NOT NULL, entries INTEGER NOT NULL);
                    INSERT INTO total VALUES (0, 0);
                    CREATE TRIGGER entry_added AFTER INSERT ON entry BEGIN
                        UPDATE total SET bytes = bytes + NEW.size, entries = entries + 1;
                    END;
                    """)
        }
    }

    func close() throws { try pool.close() }

    /// Returns the number of entries and the sum of their bodies' sizes in bytes.
    func totals() throws -> (entries: Int, bytes: Int) {
        try pool.read { db in
            guard let row = try Row.fetchOne(db, sql: "SELECT entries, bytes FROM total") else {
                return (0, 0)
            }
            return (row[0], row[1])
        }
    }

    /// Writes entries in transactions of 64, like the library's writer.
    func write(_ entries: [(name: String, key: String, body: Data)]) throws {
        for start in stride(from: 0, to: entries.count, by: 64) {
            let batch = entries[start..<min(start + 64, entries.count)]
            for entry in batch where entry.body.count > Self.inlineLimit {
                try writeFile(entry.name, entry.body)
            }
            try pool.write { db in
                let add = try db.cachedStatement(
                    sql: """
                        INSERT INTO entry (name, key, url, size, checksum, stored, accessed, expires)
                        VALUES (?, ?, ?, ?, ?, ?, ?, ?)
                        """)
                let addBody = try db.cachedStatement(sql: "INSERT INTO body (id, bytes) VALUES (?, ?)")
                let now = Date.now.timeIntervalSince1970
                for entry in batch {
                    try add.execute(arguments: [
                        entry.name, entry.key, entry.key, entry.body.count, Self.checksum(entry.body), now,
                        now,
                        now + 604_800,
                    ])
                    if entry.body.count <= Self.inlineLimit {
                        try addBody.execute(arguments: [db.lastInsertedRowID, entry.body])
                    }
                }
            }
        }
    }

    func read(_ name: String) throws -> Data {
        let (id, size, checksum) = try pool.unsafeRead { db -> (Int64, Int, Int64) in
            let statement = try db.cachedStatement(
                sql: "SELECT id, size, checksum, key, expires FROM entry WHERE name = ?")
            guard let row = try Row.fetchOne(statement, arguments: [name]) else {
                throw BenchError("\(name) is missing")
            }
            return (row[0], row[1], row[2])
        }
        let body: Data
        if size <= Self.inlineLimit {
            let found = try pool.unsafeRead { db in
                try Data.fetchOne(
                    db.cachedStatement(sql: "SELECT bytes FROM body WHERE id = ?"), arguments: [id])
            }
            body = found ?? Data()
        } else {
            body = try PlainFiles.read(path(name))
        }
        guard body.count == size, Self.checksum(body) == checksum else {
            throw BenchError("\(name) is damaged")
        }
        return body
    }

    private func path(_ name: String) -> String { "\(root)/\(name.prefix(2))/\(name)" }

    private func writeFile(_ name: String, _ body: Data) throws {
        try PlainFiles.write(body, beside: root + "/new/" + name, to: path(name))
    }

    private static func checksum(_ data: Data) -> Int64 {
        data.withUnsafeBytes { Int64(bitPattern: bench_xxh3($0.baseAddress, $0.count)) }
    }
}
