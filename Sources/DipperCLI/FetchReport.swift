import Dipper
import Foundation
import Synchronization

struct Answer {
    var source: ResponseSource
    var status: Int
    /// If a picture was encoded anew, the bytes of the new file.
    var body: Data
    /// Set if a picture was encoded anew.
    var picture: (format: ImageFormat, size: PixelSize)?
}

struct CallReport {
    /// Without secrets.
    var url: String
    /// The digest of the entry's key, if the URL alone does not name the entry because secrets were left out of it.
    var key: String?
    var queue: FetchQueue
    var result: Result<Answer, DipperError>
    var attempts: Int
    var milliseconds: Int
    var file: String?
    /// The error, if the body could not be written to its file.
    var fileError: String?

    var isFailure: Bool {
        if case .failure = result { return true }
        return fileError != nil
    }

    var bytes: Int {
        if case .success(let answer) = result { answer.body.count } else { 0 }
    }

    var json: String {
        var line = JSONLine()
        line.add("url", .string(url))
        if let key { line.add("key", .string(key)) }
        line.add("queue", .string(queue.rawValue))
        switch result {
        case .success(let answer):
            line.add("source", .string(answer.source.rawValue))
            line.add("status", .int(answer.status))
        case .failure(let error):
            line.add("source", attempts > 0 ? .string(ResponseSource.network.rawValue) : .null)
            line.add("status", error.status.map { .int($0) } ?? .null)
        }
        line.add("bytes", .int(bytes))
        line.add("milliseconds", .int(milliseconds))
        line.add("attempts", .int(attempts))
        if case .success(let answer) = result, let size = answer.picture?.size {
            line.add("width", .int(size.width))
            line.add("height", .int(size.height))
        }
        if let file { line.add("file", .string(file)) }
        if case .failure(let error) = result {
            line.add("error", .string(error.description))
        } else if let fileError {
            line.add("error", .string(fileError))
        }
        return line.text
    }

    /// The row of the table on standard output; `nil` for a call without an answer.
    var row: String? {
        guard case .success(let answer) = result else { return nil }
        let took = Self.padded("\(milliseconds) ms", 9)
        let queue = Self.padded(self.queue.rawValue, 4, left: true)
        let source = Self.padded(answer.source.rawValue, 7, left: true)
        let size = Self.padded(ByteCount.describe(bytes), 9)
        let tries = attempts > 1 ? "  (\(attempts) attempts)" : ""
        let picture = answer.picture.map { "  \($0.format) \($0.size)" } ?? ""
        let target = file.map { " → \($0)" } ?? ""
        return "\(queue)  \(source) \(size) \(took)  \(url)\(picture)\(target)\(tries)"
    }

    /// The line for standard error; `nil` for a call that went well.
    var complaint: String? {
        switch result {
        case .success: return fileError.map { onOneLine("\(url): \($0)") }
        case .failure(let error):
            let tries = attempts > 1 ? ", after \(attempts) attempts" : ""
            return onOneLine("\(url): \(error)\(tries)")
        }
    }

    private static func padded(_ text: String, _ width: Int, left: Bool = false) -> String {
        let space = String(repeating: " ", count: max(0, width - text.count))
        return left ? text + space : space + text
    }
}

/// Errors may have several lines.
func onOneLine(_ text: String) -> String { text.split(whereSeparator: \.isNewline).joined(separator: " ") }

struct RunSummary {
    var requests = 0
    var networkRequests = 0
    var bytes = 0
    var failed = 0
    var milliseconds = 0

    var json: String {
        var inner = JSONLine()
        inner.add("requests", .int(requests))
        inner.add("networkRequests", .int(networkRequests))
        inner.add("bytes", .int(bytes))
        inner.add("failed", .int(failed))
        inner.add("milliseconds", .int(milliseconds))
        var line = JSONLine()
        line.add("summary", .object(inner))
        return line.text
    }

    var text: String {
        "\(requests) asked, \(networkRequests) network requests, \(ByteCount.describe(bytes)), \(failed) failed, "
            + "\(milliseconds) ms"
    }
}

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
