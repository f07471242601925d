package import Foundation

/// Programs of the package, built beside the tests.
package enum Built {
    package static func executable(_ name: String) -> URL {
        URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath().deletingLastPathComponent()
            .appendingPathComponent(name)
    }
}

/// Returns the lines that are written to a pipe, read on a thread until its last writer is gone.
package func linesWritten(to pipe: FileHandle) -> AsyncStream<String> {
    let (stream, continuation) = AsyncStream.makeStream(of: String.self)
    // Reading blocks, so it needs a thread outside of Swift concurrency.
    Thread.detachNewThread {
        var rest = Data()
        var buffer = [UInt8](repeating: 0, count: 4096)
        // Of a named pipe, the first writer may come later.
        var state = pollfd(fd: pipe.fileDescriptor, events: Int16(POLLIN), revents: 0)
        while poll(&state, 1, -1) > 0, case let count = read(state.fd, &buffer, buffer.count), count > 0 {
            rest += buffer.prefix(count)
            while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
                continuation.yield(String(decoding: rest[..<end], as: UTF8.self))
                rest = Data(rest[rest.index(after: end)...])
            }
        }
        withExtendedLifetime(pipe) { continuation.finish() }
    }
    return stream
}

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
        try process.run()
        lines = linesWritten(to: output.fileHandleForReading).makeAsyncIterator()
    }

    deinit { end() }

    package func write(_ text: String) {
        input.fileHandleForWriting.write(Data(text.utf8))
    }

    package func nextLine() async -> String? { await lines.next(isolation: #isolation) }

    /// Kills the program. SIGKILL is needed because children of Dispatch's threads start with all other signals
    /// blocked.
    package func end() {
        if process.isRunning { kill(process.processIdentifier, SIGKILL) }
        process.waitUntilExit()
    }
}
