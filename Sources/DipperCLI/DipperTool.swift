import ArgumentParser
import Dipper
import Foundation

@main
struct DipperTool: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dipper",
        abstract: "Fetch files and pictures through a cache that loads urgent URLs first.",
        discussion: """
            Urgent URLs are fetched at once, several at a time. Slow URLs are fetched one at a time, and only while no \
            urgent URL waits or runs. Calls for the same URL share one fetch, and the answers are kept in the cache \
            folder.

            A file named - is standard input or standard output.

            Exit status: 0 success, 1 failure, 2 a line given to batch was not understood, 64 wrong usage, \
            130 interrupted. If standard output cannot be written, the exit status is 1.

            Failures are printed to standard error, one line each, unless --json is given. Passwords in URLs, and the \
            values of parameters such as token and signature, are never printed.
            """,
        version: "dipper \(DataCache.libraryVersion)",
        subcommands: [
            GetCommand.self, BatchCommand.self, PrefetchCommand.self, StatsCommand.self, ListCommand.self,
            ShowCommand.self, InspectCommand.self, ExportCommand.self, RemoveCommand.self, TrimCommand.self,
            ClearCommand.self,
            VerifyCommand.self, InfoCommand.self, ConvertCommand.self, SheetCommand.self,
        ])

    static func main() async {
        ImageCache.runDecoderIfAsked()
        StandardOutput.occupy()
        await Interrupt.watch()
        var status = ExitCode.success
        do {
            var command = try parseAsRoot()
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
        } catch {
            status = exitCode(for: error)
            let message = fullMessage(for: error)
            if status.isSuccess, !message.isEmpty {
                StandardOutput.write(Data((message + "\n").utf8))
            } else if status == .failure, !message.isEmpty {
                warn(Redaction.standard.sentence("\(error)"))
            } else if !message.isEmpty {
                // The message may quote arguments, which may be URLs.
                _ = write(Data((Redaction.standard.sentence(message) + "\n").utf8), to: STDERR_FILENO)
            }
        }
        if let error = StandardOutput.error {
            // A reader that has closed the pipe needs no message.
            if error != EPIPE { warn("standard output: \(String(cString: strerror(error)))") }
            if status.isSuccess { status = .failure }
        }
        Foundation.exit(status.rawValue)
    }
}
