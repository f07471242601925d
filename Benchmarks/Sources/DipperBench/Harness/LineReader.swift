import Foundation

/// A blocking reader of lines from a pipe.
final class LineReader {
    private let file: FileHandle
    private var text = Data()

    init(_ file: FileHandle) { self.file = file }

    func next() throws -> String {
        while true {
            if let end = text.firstIndex(of: UInt8(ascii: "\n")) {
                let line = String(decoding: text[..<end], as: UTF8.self)
                text = Data(text[(end + 1)...])
                return line
            }
            let more = file.availableData
            guard !more.isEmpty else { throw BenchError("a program ended without a word") }
            text += more
        }
    }
}
