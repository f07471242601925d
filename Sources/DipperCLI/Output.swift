import Foundation
import Synchronization

/// Writes at once, so that a program at the other end of a pipe sees the line immediately.
func tell(_ line: String) { StandardOutput.write(Data((line + "\n").utf8)) }

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
        encoder.outputFormatting = .withoutEscapingSlashes
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
}

/// Errors may have several lines.
func onOneLine(_ text: String) -> String { text.split(whereSeparator: \.isNewline).joined(separator: " ") }

extension String {
    /// Returns the text in a column of at least a width: on the right, or on the left.
    func padded(_ width: Int, isLeft: Bool = false) -> String {
        let space = String(repeating: " ", count: max(0, width - count))
        return isLeft ? self + space : space + self
    }
}
