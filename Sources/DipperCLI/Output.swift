import Foundation
import Logging
import Synchronization

/// Writes one line at once, so that a program at the other end of a pipe sees it immediately.
func tell(_ line: String) { StandardOutput.write(Data((onOneLine(line) + "\n").utf8)) }

/// Writes one line to standard error, with the name of the tool.
func warn(_ line: String) {
    ProgressLine.clear()
    _ = write(Data("dipper: \(onOneLine(line))\n".utf8), to: STDERR_FILENO)
}

/// Returns zero, or the `errno` of the failure.
func write(_ data: Data, to file: Int32) -> Int32 {
    do { try FileHandle(fileDescriptor: file).write(contentsOf: data) } catch { return errno }
    return 0
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
        _ = firstError.compareExchange(
            expected: 0, desired: dipper.write(data, to: STDOUT_FILENO), ordering: .relaxed)
    }

    /// Opens standard streams that are closed, for nothing: what is printed must not go into a file that is opened later.
    static func occupy() {
        for file in STDIN_FILENO...STDERR_FILENO where fcntl(file, F_GETFD) == -1 {
            _ = open("/dev/null", file == STDIN_FILENO ? O_WRONLY : O_RDONLY)
        }
    }
}

/// One JSON object on a line, its members in the order given.
struct JSONLine: ExpressibleByDictionaryLiteral {
    private var members: [(String, (any Encodable)?)]

    /// A member without a value is written as `null`.
    init(dictionaryLiteral members: (String, (any Encodable)?)...) { self.members = members }

    mutating func add(_ name: String, _ value: (any Encodable)?) {
        if let value { members.append((name, value)) }
    }

    var text: String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let texts = members.map { name, value in
            let data = value.flatMap { try? encoder.encode($0) } ?? Data("null".utf8)
            return "\"\(name)\":\(String(decoding: data, as: UTF8.self))"
        }
        return "{\(texts.joined(separator: ","))}"
    }
}

struct CommandFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }

    init(cannot verb: String, _ path: String, _ error: Int32 = errno) {
        self.init("cannot \(verb) '\(path)': \(String(cString: strerror(error)))")
    }
}

/// Prints what the cache logs like the tool's other messages.
struct MessageLog: LogHandler {
    var (metadata, logLevel) = (Logger.Metadata(), Logger.Level.warning)

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) { warn("\(event.message)" + (event.metadata?["error"].map { ": \($0)" } ?? "")) }
}

/// Errors may have several lines, and names of files any character.
func onOneLine(_ text: String) -> String {
    String(String.UnicodeScalarView(text.unicodeScalars.map { $0.properties.generalCategory == .control ? " " : $0 }))
}

extension String {
    /// Returns the text in a column of at least a width: on the right, or on the left.
    func padded(_ width: Int, isLeft: Bool = false) -> String {
        let space = String(repeating: " ", count: max(0, width - count))
        return isLeft ? self + space : space + self
    }
}
