package import Foundation

/// A running program and the lines that it prints.
package final class LineTool {
    private let process = Process()
    private let input = Pipe()
    private var lines: AsyncStream<String>.Iterator

    package init(_ executable: URL, _ arguments: [String]) throws {
        let output = Pipe()
        process.executableURL = executable
        process.arguments = arguments
        process.standardInput = input
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        let (stream, continuation) = AsyncStream.makeStream(of: String.self)
        lines = stream.makeAsyncIterator()
        try process.run()
        let handle = output.fileHandleForReading
        // Reading blocks, so it needs a thread outside of Swift concurrency.
        Thread {
            var rest = Data()
            while case let data = handle.availableData, !data.isEmpty {
                rest += data
                while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
                    continuation.yield(String(decoding: rest[..<end], as: UTF8.self))
                    rest = Data(rest[rest.index(after: end)...])
                }
            }
            continuation.finish()
        }.start()
    }

    deinit { end() }

    package func write(_ text: String) {
        input.fileHandleForWriting.write(Data(text.utf8))
    }

    /// Returns the next line of output; `nil` when the program has ended.
    package func nextLine() async -> String? { await lines.next(isolation: #isolation) }

    /// Kills the program. SIGKILL is needed because children of Dispatch's threads start with all other signals
    /// blocked.
    package func end() {
        if process.isRunning { kill(process.processIdentifier, SIGKILL) }
        process.waitUntilExit()
    }
}
