import Foundation

/// Functions that find and run other programs.
enum Command {
    struct Output {
        let output: String
        let errors: String

        /// Returns the numbers that the program printed.
        /// - Throws: ``BenchError`` if there are not so many.
        func numbers(_ count: Int) throws -> [Double] {
            let numbers = output.split(whereSeparator: \.isWhitespace).compactMap { Double($0) }
            guard numbers.count >= count else { throw BenchError("a program printed \(output)") }
            return numbers
        }
    }

    /// Runs a program and waits for its end.
    /// - Throws: ``BenchError`` with the program's output and standard error, if its exit status is not 0.
    @discardableResult
    static func run(_ program: String, _ arguments: [String]) throws -> Output {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: program)
        process.arguments = arguments
        // Output goes to files, because pipes would have to be drained while the program runs.
        let output = try TemporaryFile()
        let errors = try TemporaryFile()
        process.standardOutput = output.handle
        process.standardError = errors.handle
        process.standardInput = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        let result = Output(output: output.text, errors: errors.text)
        guard process.terminationStatus == 0 else {
            let command = ([program] + arguments).joined(separator: " ")
            throw BenchError(
                "\(command) ended with \(process.terminationStatus): \(result.errors)\(result.output)")
        }
        return result
    }

    /// Runs a program that prints one number, and returns it.
    static func number(_ program: String, _ arguments: [String]) throws -> Double {
        try run(program, arguments).numbers(1)[0]
    }

    /// Returns the path of a program; `nil` if it is not installed.
    static func find(_ name: String) -> String? {
        let path = (ProcessInfo.processInfo.environment["PATH"] ?? "") + ":/usr/sbin:/sbin"
        return path.split(separator: ":").map { "\($0)/\(name)" }
            .first { FileManager.default.isExecutableFile(atPath: $0) }
    }

    static func require(_ name: String) throws -> String {
        guard let path = find(name) else {
            throw BenchError("\(name) is not installed; `make deps-bench` installs it")
        }
        return path
    }

    /// The path of this program, to run it as a child process.
    static let myself = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
}

/// A temporary file without a name.
private struct TemporaryFile {
    let handle: FileHandle

    init() throws {
        guard let file = tmpfile() else { throw BenchError("no temporary file") }
        handle = FileHandle(fileDescriptor: dup(fileno(file)), closeOnDealloc: true)
        fclose(file)
    }

    var text: String {
        try? handle.seek(toOffset: 0)
        return String(decoding: (try? handle.readToEnd()) ?? Data(), as: UTF8.self)
    }
}
