import Foundation

/// Runs other programs.
enum Command {
    struct Output {
        let output: String
        let errors: String
    }

    /// Runs a program to its end.
    /// - Throws: ``BenchError`` with what it wrote to its standard error, if its status is not 0.
    @discardableResult
    static func run(_ program: String, _ arguments: [String]) throws -> Output {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: program)
        process.arguments = arguments
        // Files, not pipes: nothing has to be drained while the program runs.
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

    /// Runs a program that prints one number.
    static func number(_ program: String, _ arguments: [String]) throws -> Double {
        let text = try run(program, arguments).output
        guard let number = Double(text.trimmingCharacters(in: .whitespacesAndNewlines)) else {
            throw BenchError("\(program) printed no number: \(text)")
        }
        return number
    }

    /// Where a program is; `nil` if it is not installed.
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

    /// This program, to be run again as a child.
    static let myself = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
}

/// A file without a name.
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
