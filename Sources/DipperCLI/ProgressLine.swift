import Foundation
import Synchronization

/// A line at the bottom of a terminal that is written over and over. Without a terminal, nothing is written.
final class ProgressLine: Sendable {
    let isShown = isatty(STDERR_FILENO) == 1
    private let isThere = Mutex(false)

    func show(_ text: String) {
        guard isShown else { return }
        isThere.withLock { isThere in
            try? FileHandle.standardError.write(contentsOf: Data("\r\u{1B}[K\(text.prefix(110))".utf8))
            isThere = true
        }
    }

    func clear() {
        guard isShown else { return }
        isThere.withLock { isThere in
            if isThere { try? FileHandle.standardError.write(contentsOf: Data("\r\u{1B}[K".utf8)) }
            isThere = false
        }
    }
}
