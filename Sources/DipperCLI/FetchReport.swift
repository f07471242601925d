import Dipper
import Foundation

struct Answer {
    var source: ResponseSource
    var status: Int
    /// If a picture was encoded again, the bytes of the new file.
    var body: Data
    /// Set if a picture was encoded again.
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
    var fileError: String?

    private var answer: Answer? { try? result.get() }
    private var error: DipperError? { if case .failure(let error) = result { error } else { nil } }

    mutating func write(to file: URL) {
        guard let answer else { return }
        let file = answer.picture.map { file.appendingPathExtension($0.format.fileExtension) } ?? file
        do {
            try BodyFiles.write(answer.body, to: file.path)
            self.file = file.path
        } catch {
            fileError = error.description
        }
    }

    var isFailure: Bool { error != nil || fileError != nil }

    var body: Data { answer?.body ?? Data() }
    var bytes: Int { body.count }

    private var failure: String? { error?.description ?? fileError }

    var json: JSONLine {
        let source: ResponseSource? = answer?.source ?? (attempts > 0 ? .network : nil)
        let status = answer?.status ?? error?.status
        var line: JSONLine = [
            "url": url, "queue": queue.rawValue, "source": source?.rawValue, "status": status, "bytes": bytes,
            "milliseconds": milliseconds, "attempts": attempts,
        ]
        line.add("key", key)
        line.add("width", answer?.picture?.size.width)
        line.add("height", answer?.picture?.size.height)
        line.add("file", file)
        line.add("error", failure)
        return line
    }

    var row: String? {
        guard let answer else { return nil }
        let took = "\(milliseconds) ms".padded(9)
        let queue = self.queue.rawValue.padded(4, isLeft: true)
        let source = answer.source.rawValue.padded(7, isLeft: true)
        let size = ByteCount.describe(bytes).padded(9)
        let tries = attempts > 1 ? "  (\(attempts) attempts)" : ""
        let picture = answer.picture.map { "  \($0.format) \($0.size)" } ?? ""
        let target = file.map { " → \($0)" } ?? ""
        return "\(queue)  \(source) \(size) \(took)  \(url)\(picture)\(target)\(tries)"
    }

    var complaint: String? {
        let tries = error != nil && attempts > 1 ? ", after \(attempts) attempts" : ""
        return failure.map { "\(url): \($0)\(tries)" }
    }
}

struct RunSummary {
    var requests = 0
    var networkRequests = 0
    var bytes = 0
    var failed = 0
    var milliseconds = 0

    var json: String {
        let line: JSONLine = [
            "requests": requests, "networkRequests": networkRequests, "bytes": bytes, "failed": failed,
            "milliseconds": milliseconds,
        ]
        return "{\"summary\":\(line.text)}"
    }

    var text: String {
        "\(requests) asked, \(networkRequests) network requests, \(ByteCount.describe(bytes)), \(failed) failed, "
            + "\(milliseconds) ms"
    }
}

/// A line at the bottom of a terminal that is written over and over. Without a terminal, nothing is written.
enum ProgressLine {
    static let isShown = isatty(STDERR_FILENO) == 1

    static func show(_ text: String) {
        guard isShown else { return }
        var size = winsize()
        // A longer line would move the terminal on, each time.
        let columns = ioctl(STDERR_FILENO, UInt(TIOCGWINSZ), &size) == 0 && size.ws_col > 0 ? Int(size.ws_col) : 80
        _ = write(Data("\r\u{1B}[K\(text.prefix(columns - 1))".utf8), to: STDERR_FILENO)
    }

    static func clear() { show("") }
}
