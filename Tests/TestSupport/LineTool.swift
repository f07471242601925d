package import Foundation

/// A program that runs, and what it prints line by line.
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
        // Reading blocks, which a thread of Swift's concurrency must not.
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

    /// `nil` once it has ended.
    package func nextLine() async -> String? { await lines.next(isolation: #isolation) }

    /// Ends the program. Children of Dispatch's threads are born with all other signals blocked.
    package func end() {
        if process.isRunning { kill(process.processIdentifier, SIGKILL) }
        process.waitUntilExit()
    }
}
