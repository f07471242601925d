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

/// The recording of a running workload, with numbered notes whose places in the log of writes are marked.
final class Notebook: Sendable {
    private let state: Mutex<Recording>

    init(_ recording: Recording) { state = Mutex(recording) }

    var recording: Recording { state.withLock { $0 } }

    func fail(_ text: String) { state.withLock { $0.failures.append(text) } }

    func add(_ note: Recording.Note) {
        state.withLock { recording in
            write_log_mark(UInt64(recording.notes.count))
            recording.notes.append(note)
        }
    }
}
