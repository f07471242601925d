import ArgumentParser
import Foundation

/// Texts with one URL a line.
enum URLList {
    /// The lines of a file, or of standard input for `-`. Empty lines and lines that start with `#` are left out.
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

/// The lines of standard input as they come, read on a thread of their own because reading blocks.
/// Ends early if the task that iterates is cancelled.
func linesOfStandardInput() -> AsyncStream<String> {
    AsyncStream { continuation in
        Thread.detachNewThread {
            while let line = readLine() { continuation.yield(line) }
            continuation.finish()
        }
    }
}
