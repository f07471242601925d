import GRDB

/// The kind of a failure of the index.
enum IndexFailure {
    /// Another process or thread holds it: the same may succeed later.
    case busy
    /// The machine has failed: disk full, out of memory, no permission.
    case machine
    /// The index belongs to another program or another version.
    case foreign
    /// The index cannot be read, or holds impossible values.
    case damage
    /// The index may be damaged; opening it anew and checking it tells.
    case suspicion

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
        guard let error = error as? DatabaseError else {
            self = .machine
            return
        }
        switch error.resultCode {
        case .SQLITE_NOTADB, .SQLITE_CORRUPT: self = .damage
        case .SQLITE_BUSY, .SQLITE_LOCKED, .SQLITE_PROTOCOL, .SQLITE_SCHEMA: self = .busy
        // A missing table, a broken constraint, a value of another type come of a flipped byte or another's hand.
        case .SQLITE_ERROR, .SQLITE_CONSTRAINT, .SQLITE_MISMATCH, .SQLITE_FORMAT, .SQLITE_INTERNAL: self = .suspicion
        // A read that comes up short may be the file's fault; all others are the machine's.
        case .SQLITE_IOERR: self = error.extendedResultCode == .SQLITE_IOERR_SHORT_READ ? .suspicion : .machine
        default: self = .machine
        }
    }
}
