internal import DipperTesting
package import Foundation
internal import ProcessShims

/// Programs of the package, built beside the tests.
package enum Built {
    package static func executable(_ name: String) -> String {
        URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath().deletingLastPathComponent()
            .appendingPathComponent(name).path
    }
}

package struct Unavailable: Error {
    package let what: String

    package init(what: String) { self.what = what }
}

extension FileHandle {
    /// Returns a file in memory that contains a text and is read from its beginning.
    package static func inMemory(_ text: String = "") throws -> FileHandle {
        let file = FileHandle(fileDescriptor: dipper_memory_file("dipper-test"), closeOnDealloc: true)
        try file.write(contentsOf: Data(text.utf8))
        try file.seek(toOffset: 0)
        return file
    }
}

/// A program that runs in a process group of its own, with no file of this process but the given ones. Releasing it
/// kills the group.
///
/// Foundation's `Process` is not used: to find the files to close, it reads past the entries of `/proc/self/fd`, which
/// crashes now and then.
package final class ChildProcess: Sendable {
    package struct Output: Sendable {
        /// The exit status, or minus the number of the signal that ended the program.
        package let status: Int32
        package let data: Data
        package let errors: String
    }

    private let id: pid_t
    /// Standard output and standard error. Files, unlike pipes, are never full: nobody has to read them meanwhile.
    private let kept: [FileHandle]
    /// The status once the process has been waited for. From then on, another process may have its number.
    private let ended = Box<Int32?>(nil)

    /// Starts a program. Closes the given files in this process.
    /// - Parameters:
    ///   - program: the path of the program.
    ///   - input: the standard input; `nil` for an empty one.
    ///   - output: the standard output; `nil` keeps it for ``output()``.
    ///   - errors: the standard error; `nil` keeps it for ``output()``.
    package init(
        _ program: String, _ arguments: [String], input: FileHandle? = nil, output: FileHandle? = nil,
        errors: FileHandle? = nil, environment: [String: String] = ProcessInfo.processInfo.environment,
        in folder: String = "."
    ) throws {
        func pointers(_ texts: [String]) -> [UnsafeMutablePointer<CChar>?] { texts.map { strdup($0) } + [nil] }
        let words = pointers([program] + arguments)
        let variables = pointers(environment.map { "\($0.key)=\($0.value)" })
        defer { for text in words + variables { free(text) } }
        let kept = [try FileHandle.inMemory(), try FileHandle.inMemory()]
        let files = [input, output ?? kept[0], errors ?? kept[1]].map { $0?.fileDescriptor ?? -1 }
        var id = pid_t()
        let error = dipper_spawn(&id, program, words, variables, folder, files, 3)
        for file in [input, output, errors] { try? file?.close() }
        guard error == 0 else { throw Unavailable(what: "\(program): \(String(cString: strerror(error)))") }
        self.id = id
        self.kept = kept
        // The thread does not hold the object, and leaves no zombie.
        Thread.detachNewThread { [id, ended] in reap(id, ended) }
    }

    deinit { end() }

    /// Sends a signal to the program, unless it has been waited for.
    package func send(_ signal: Int32) { ended.update { if $0 == nil { kill(id, signal) } } }

    /// Kills the program and all that it has started, and waits for the end of the program.
    package func end() {
        ended.update { if $0 == nil { kill(-id, SIGKILL) } }
        reap(id, ended)
    }

    /// Waits for the end of the program. Kills it if the task is cancelled, or after ten minutes.
    package func output() async -> Output {
        do { try await ended.wait(within: .seconds(600)) { $0 != nil } } catch { end() }
        return waitForOutput()
    }

    /// Blocks the thread until the end of the program.
    package func waitForOutput() -> Output {
        let status = reap(id, ended)
        let texts = kept.map { FileManager.default.contents(atPath: "/proc/self/fd/\($0.fileDescriptor)") ?? Data() }
        return Output(status: status, data: texts[0], errors: String(decoding: texts[1], as: UTF8.self))
    }
}

/// Blocks the thread until a process has ended; returns its status, which it keeps in `ended`.
@discardableResult
private func reap(_ id: pid_t, _ ended: Box<Int32?>) -> Int32 {
    if let status = ended.value { return status }
    var information = siginfo_t()
    // The kernel keeps the process's number until the lock is held, so that no signal goes to another process.
    while waitid(P_PID, id_t(id), &information, WEXITED | WNOWAIT) != 0, errno == EINTR {}
    return ended.update { status in
        if let status { return status }
        // What the program has left running ends with it.
        kill(-id, SIGKILL)
        var word: Int32 = 0
        waitpid(id, &word, 0)
        let result = word & 0x7F == 0 ? word >> 8 & 0xFF : -(word & 0x7F)
        status = result
        return result
    }
}

/// Runs a program and returns what it prints. Blocks the thread. The error names the arguments and the input.
@discardableResult
package func runProgram(
    _ program: String, _ arguments: [String], input: String = "", in folder: String = "."
) throws -> Data {
    let output = try ChildProcess(program, arguments, input: .inMemory(input), in: folder).waitForOutput()
    guard output.status == 0 else {
        throw Unavailable(what: "failed: \(arguments.joined(separator: " "))\n\(input)\n\(output.errors)")
    }
    return output.data
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

/// A program that is told and tells lines. Releasing it kills the program.
package struct LineTool: Sendable {
    package let process: ChildProcess
    private let input: FileHandle
    private let lines: AsyncStream<String>

    /// Writing to a program that has ended is an error, not the end of the tests.
    private static let ignoresBrokenPipes: Void = { _ = signal(SIGPIPE, SIG_IGN) }()

    package init(_ program: String, _ arguments: [String]) throws {
        Self.ignoresBrokenPipes
        let (input, output) = (Pipe(), Pipe())
        process = try ChildProcess(
            program, arguments, input: input.fileHandleForReading, output: output.fileHandleForWriting)
        self.input = input.fileHandleForWriting
        lines = linesWritten(to: output.fileHandleForReading)
    }

    /// Writes to the program, unless it has ended: then ``nextLine()`` returns `nil`.
    package func write(_ text: String) { try? input.write(contentsOf: Data(text.utf8)) }

    package func nextLine() async -> String? { await lines.first { _ in true } }

    package func end() { process.end() }
}
