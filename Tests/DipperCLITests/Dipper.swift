import Foundation
import TestSupport
import Testing

/// The tool as a user starts it.
struct Dipper {
    struct Output {
        var status: Int32
        /// Standard output as it is.
        var text: String
        var errors: String
        var lines: [String] { text.split(separator: "\n").map(String.init) }

        /// The calls of a run with `--json`, by URL; the last one for a URL asked for twice.
        var calls: [[String: Any]] {
            lines.compactMap { try? JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any] }
                .filter { $0["summary"] == nil }
        }
        var summary: [String: Any] {
            lines.compactMap { try? JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any] }
                .compactMap { $0["summary"] as? [String: Any] }.first ?? [:]
        }
    }

    static var executable: URL { Built.executable("dipper") }

    /// Runs the tool to its end.
    static func run(_ arguments: [String], input: String? = nil, environment: [String: String] = [:]) async throws
        -> Output
    {
        try await Running(arguments, input: input, environment: environment).output()
    }

    /// The tool while it runs.
    final class Running {
        let process = Process()
        private let out = Pipe()
        private let err = Pipe()
        private var inputPipe: Pipe?
        private let outText: Task<String, Never>
        private let errText: Task<String, Never>

        /// - Parameter keepsInputOpen: standard input does not end with the input given.
        init(
            _ arguments: [String], input: String? = nil, environment: [String: String] = [:],
            keepsInputOpen: Bool = false
        ) throws {
            process.executableURL = Dipper.executable
            process.arguments = arguments
            process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
            process.standardOutput = out
            process.standardError = err
            if let input {
                let pipe = Pipe()
                process.standardInput = pipe
                pipe.fileHandleForWriting.write(Data(input.utf8))
                if keepsInputOpen { inputPipe = pipe } else { try pipe.fileHandleForWriting.close() }
            } else {
                process.standardInput = FileHandle.nullDevice
            }
            try process.run()
            // Both pipes are read at a time, each on a thread that may block.
            outText = Self.read(out.fileHandleForReading.fileDescriptor)
            errText = Self.read(err.fileHandleForReading.fileDescriptor)
        }

        func output() async throws -> Output {
            let (text, errorText) = (await outText.value, await errText.value)
            process.waitUntilExit()
            let status = process.terminationReason == .exit ? process.terminationStatus : -process.terminationStatus
            return Output(status: status, text: text, errors: errorText)
        }

        private static func read(_ descriptor: Int32) -> Task<String, Never> {
            Task {
                await withCheckedContinuation { continuation in
                    DispatchQueue.global().async {
                        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: false)
                        continuation.resume(returning: String(decoding: handle.readDataToEndOfFile(), as: UTF8.self))
                    }
                }
            }
        }
    }
}
