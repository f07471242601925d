import CSQLite
import Foundation

/// The file of the index: `index.sqlite`, or `index-N.sqlite` after N − 1 damaged ones; the highest number is current.
///
/// The cache sets a damaged index aside by creating the next file; the first process to do so wins. Files are not
/// renamed and names not used again, because SQLite in another process survives neither.
struct IndexFile: Sendable {
    let folder: Folder
    let number: Int
    private let identity: [UInt64]

    static func name(_ number: Int) -> String { number == 1 ? "index.sqlite" : "index-\(number).sqlite" }
    private static let companions = ["-wal", "-shm", "-journal"]

    var path: String { folder.path + "/" + Self.name(number) }

    static func current(in folder: Folder) throws -> IndexFile {
        let names = try folder.listing()
        // Left by a process that was killed while it marked the folder.
        for name in names where CacheFolder.isUnfinishedMarker(name, in: folder) { folder.remove(name) }
        return try IndexFile(folder, names.compactMap(number(of:)).max() ?? 1)
    }

    /// `nil` if there is no index, or if it is incomplete without its log.
    static func pathReadingOnly(in folder: Folder) -> String? {
        guard let names = try? folder.listing(), let name = names.compactMap(number(of:)).max().map(name),
            folder.file(name) != nil,
            folder.entry(name + "-wal").map({ $0.st_size == 0 }) ?? true
        else { return nil }
        return folder.path + "/" + name
    }

    private init(_ folder: Folder, _ number: Int) throws {
        self.folder = folder
        self.number = number
        let name = Self.name(number)
        if folder.entry(name) == nil { try folder.makeEmptyFile(name) }
        for name in [name] + Self.companions.map({ name + $0 }) where folder.entry(name) != nil {
            guard folder.file(name) != nil else {
                throw StoreProblem(
                    "'\(folder.path)/\(name)' is a link, no file, or belongs to another user", isRefusal: true)
            }
        }
        guard let status = folder.file(name) else { throw FileError("stat", folder.path + "/" + name, ENOENT) }
        identity = Self.identity(status)
    }

    /// Whether the paths of folder and file still lead to them, and the index has not been set aside.
    var isCurrent: Bool {
        Self.identity(path) == identity && Self.identity(folder.path) == Self.identity(folder.status)
            && folder.entry(Self.name(number + 1)) == nil
    }

    private static func identity(_ status: stat) -> [UInt64] { [UInt64(status.st_dev), UInt64(status.st_ino)] }

    private static func identity(_ path: String) -> [UInt64]? {
        var status = stat()
        return stat(path, &status) == 0 ? identity(status) : nil
    }

    /// Returns the file that replaces this damaged one, which stays for inspection until the next one is damaged.
    func next() throws -> IndexFile {
        let next = try IndexFile(folder, number + 1)
        try removeOlder(than: number)
        return next
    }

    func removeOlder() { try? removeOlder(than: number) }

    private func removeOlder(than number: Int) throws {
        for old in try folder.listing().compactMap(Self.number(of:)) where old < number {
            for end in [""] + Self.companions where folder.file(Self.name(old) + end) != nil {
                folder.remove(Self.name(old) + end)
            }
        }
    }

    private static func number(of name: String) -> Int? {
        if name == Self.name(1) { return 1 }
        guard name.hasPrefix("index-"), name.hasSuffix(".sqlite"),
            let number = Int(name.dropFirst(6).dropLast(7)), (2..<1_000_000).contains(number), Self.name(number) == name
        else { return nil }
        return number
    }
}

enum IndexFailure {
    case busy
    /// The disk is full.
    case full
    /// Memory or permission is missing, or the index is another program's or version's.
    case other
    case damage
    /// An integrity check decides; an index that cannot even be opened counts as damaged.
    case suspicion

    var meansDamage: Bool { self == .damage || self == .suspicion }

    // SQLITE_IOERR_SHORT_READ, which Swift does not see.
    private static let shortRead = SQLITE_IOERR | 2 << 8
    // SQLITE_IOERR_WRITE, also for a quota, and SQLITE_IOERR_SHMSIZE.
    private static let unwritten = [SQLITE_IOERR | 3 << 8, SQLITE_IOERR | 19 << 8]

    init(_ error: any Error) {
        switch (error as? IndexError)?.cause ?? error {
        case is EntryIndex.Damage: self = .damage
        case is EntryIndex.Suspicion: self = .suspicion
        case let error as SQLiteError:
            self =
                switch error.primaryCode {
                case SQLITE_NOTADB, SQLITE_CORRUPT: .damage
                case SQLITE_FULL: .full
                case SQLITE_IOERR where Self.unwritten.contains(error.code): .full
                case SQLITE_BUSY, SQLITE_LOCKED, SQLITE_PROTOCOL, SQLITE_SCHEMA: .busy
                // A flipped byte or another program can cause a missing table, a broken constraint or a value of
                // another type.
                case SQLITE_ERROR, SQLITE_CONSTRAINT, SQLITE_MISMATCH, SQLITE_FORMAT, SQLITE_INTERNAL: .suspicion
                // A short read may mean damage. The machine causes all other I/O errors.
                case SQLITE_IOERR where error.code == Self.shortRead: .suspicion
                default: .other
                }
        default: self = .other
        }
    }
}
