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
struct JSONLine {
    enum Value {
        case string(String)
        case int(Int)
        case bool(Bool)
        case strings([String])
        case object(JSONLine)
        case null
    }

    private var members: [(name: String, value: Value)] = []

    mutating func add(_ name: String, _ value: Value) {
        members.append((name, value))
    }

    var text: String {
        "{" + members.map { "\(Self.quote($0.name)):\(Self.text($0.value))" }.joined(separator: ",") + "}"
    }

    private static func text(_ value: Value) -> String {
        switch value {
        case .string(let text): quote(text)
        case .int(let number): String(number)
        case .bool(let bool): bool ? "true" : "false"
        case .strings(let texts): "[" + texts.map(quote).joined(separator: ",") + "]"
        case .object(let line): line.text
        case .null: "null"
        }
    }

    private static func quote(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": quoted += "\\\""
            case "\\": quoted += "\\\\"
            case "\n": quoted += "\\n"
            case "\r": quoted += "\\r"
            case "\t": quoted += "\\t"
            case "\u{0}"..."\u{1F}":
                let hex = String(scalar.value, radix: 16)
                quoted += "\\u" + String(repeating: "0", count: 4 - hex.count) + hex
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }
}
