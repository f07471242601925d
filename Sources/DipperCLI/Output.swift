import Foundation
import Synchronization

/// Writes a line to standard output at once, so that a program at the other end of a pipe sees the line immediately.
func tell(_ line: String) { StandardOutput.write(Data((line + "\n").utf8)) }

/// Writes a line to standard error.
func warn(_ line: String) {
    try? FileHandle.standardError.write(contentsOf: Data((line + "\n").utf8))
}

/// Standard output. A failure to write ends no download, but changes the exit status.
enum StandardOutput {
    /// The `errno` of the first failure; zero if there was none.
    private static let firstError = Atomic<Int32>(0)

    static var error: Int32? {
        let error = firstError.load(ordering: .relaxed)
        return error == 0 ? nil : error
    }

    static func write(_ data: Data) {
        data.withUnsafeBytes { bytes in
            var rest = bytes[...]
            while !rest.isEmpty {
                let count = Foundation.write(
                    STDOUT_FILENO, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
                if count >= 0 {
                    rest = rest.dropFirst(count)
                } else if errno != EINTR {
                    _ = firstError.compareExchange(expected: 0, desired: errno, ordering: .relaxed)
                    return
                }
            }
        }
    }
}
