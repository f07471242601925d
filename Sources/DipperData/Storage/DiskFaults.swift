import CSQLite
import Foundation

/// An operation that the disk tier asks of a disk.
package enum DiskOperation: Sendable {
    case read, write, flush, remove
}

/// The faults of a disk that a test orders; see `FailingDisk` of DipperTesting. The disk tier asks for them before it
/// reads, writes, flushes or removes the file of an entry, and before it reads or changes the index.
package protocol DiskFaults: Sendable {
    /// Returns the number of the error (`errno`) with which the operation fails; `nil` if there is none. May take its
    /// time, as a slow disk does.
    func error(for operation: DiskOperation) -> Int32?
}

extension DiskFaults {
    /// - Throws: the error with which the operation on a file fails, if it does.
    func check(_ operation: DiskOperation, _ name: String) throws(FileError) {
        if let code = error(for: operation) { throw FileError("\(operation)", name, code) }
    }

    /// - Throws: the error that SQLite reports for such a failure, if there is one.
    func checkIndex(_ operation: DiskOperation) throws {
        switch error(for: operation) {
        case nil: return
        case ENOSPC?: throw SQLiteError(code: SQLITE_FULL)
        case EROFS?: throw SQLiteError(code: SQLITE_READONLY)
        default: throw SQLiteError(code: SQLITE_IOERR)
        }
    }
}
