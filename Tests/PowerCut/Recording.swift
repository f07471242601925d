import Foundation
import Synchronization
import WriteLog

/// The file operations of a workload, with notes that mark when each call was made and when it was acknowledged.
struct Recording: Codable {
    enum Note: Codable {
        /// A write was requested.
        case writing(key: String, version: UInt64, isDurable: Bool)
        /// A write was acknowledged.
        case wrote(key: String, version: UInt64, isDurable: Bool)
        case removing(key: String)
        /// A clear was requested; any entry may be gone.
        case removingAll
    }

    var seed: UInt64
    /// The cache's limit, in bytes; with one, any entry may be evicted at any time.
    var limit: Int?
    var steps: [Step] = []
    var notes: [Note] = []
    /// The versions that the server had at the end of the workload.
    var served: [String: UInt64] = [:]
    /// Calls that failed without an expected reason.
    var failures: [String] = []
}

/// The numbered notes of a workload, whose places in the log of writes are marked.
final class Notebook: Sendable {
    private let notes = Mutex<[Recording.Note]>([])
    private let failed = Mutex<[String]>([])
    /// Whether the cache has a size limit, so that entries may be evicted at any time.
    let isLimited: Bool

    init(isLimited: Bool) { self.isLimited = isLimited }

    func fail(_ text: String) { failed.withLock { $0.append(text) } }

    var failures: [String] { failed.withLock { $0 } }

    func add(_ note: Recording.Note) {
        notes.withLock { notes in
            write_log_mark(UInt64(notes.count))
            notes.append(note)
        }
    }

    var all: [Recording.Note] { notes.withLock { $0 } }
}
