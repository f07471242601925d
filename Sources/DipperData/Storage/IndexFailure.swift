import CSQLite

/// The kind of a failure of the index.
enum IndexFailure {
    /// Another process or thread holds the index. The operation may succeed later.
    case busy
    /// The machine has failed: the disk is full, memory is short, or permission is missing.
    case machine
    /// The index belongs to another program or another version.
    case foreign
    /// The index cannot be read, or holds impossible values.
    case damage
    /// The index may be damaged. An integrity check decides; an index that cannot even be opened counts as damaged.
    case suspicion

    // SQLITE_IOERR_SHORT_READ, which Swift does not see.
    private static let shortRead = SQLITE_IOERR | 2 << 8

    init(_ error: any Error) {
        let error = (error as? IndexError)?.cause ?? error
        if error is EntryIndex.Damage {
            self = .damage
            return
        }
        if error is EntryIndex.ForeignDatabase || error is FolderRefusal {
            self = .foreign
            return
        }
        guard let error = error as? SQLiteError else {
            self = .machine
            return
        }
        switch error.primaryCode {
        case SQLITE_NOTADB, SQLITE_CORRUPT: self = .damage
        case SQLITE_BUSY, SQLITE_LOCKED, SQLITE_PROTOCOL, SQLITE_SCHEMA: self = .busy
        // A flipped byte or another program can cause a missing table, a broken constraint or a value of another type.
        case SQLITE_ERROR, SQLITE_CONSTRAINT, SQLITE_MISMATCH, SQLITE_FORMAT, SQLITE_INTERNAL: self = .suspicion
        // A short read may mean that the file is damaged. The machine is the cause of all other I/O errors.
        case SQLITE_IOERR: self = error.code == Self.shortRead ? .suspicion : .machine
        default: self = .machine
        }
    }
}
