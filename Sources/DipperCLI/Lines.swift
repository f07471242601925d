import ArgumentParser
import Foundation

/// Lists with one URL a line.
enum URLList {
    /// Returns the lines of a file, or of standard input for `-`, without empty lines and lines that start with `#`.
    static func read(_ path: String) throws -> [String] {
        let data: Data
        if path == "-" {
            data = FileHandle.standardInput.readDataToEndOfFile()
        } else if let content = FileManager.default.contents(atPath: path) {
            data = content
        } else {
            throw ValidationError("The file '\(path)' cannot be read.")
        }
        return String(decoding: data, as: UTF8.self).split(whereSeparator: \.isNewline)
            .map { $0.trimmingCharacters(in: .whitespaces) }
            .filter { !$0.isEmpty && !$0.hasPrefix("#") }
    }
}

/// Returns the lines of standard input as they come. A separate thread reads them, because reading blocks. The sequence
/// ends early if the task that iterates is cancelled.
func linesOfStandardInput() -> AsyncStream<String> {
    AsyncStream { continuation in
        Thread.detachNewThread {
            while let line = readLine() { continuation.yield(line) }
            continuation.finish()
        }
    }
}
