import ArgumentParser
import Dipper
import Foundation

struct BatchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "batch",
        abstract: "Run commands from standard input, each line as it arrives.",
        discussion: """
            get URL        fetch the URL urgently
            slow URL       prefetch the URL, while no urgent URL waits or runs
            demote URL     turn urgent calls for the URL into prefetches
            cancel URL     cancel all calls for the URL
            sleep SECONDS  wait before the next line
            wait           wait until all calls of the earlier lines have ended

            Empty lines and lines that start with # are skipped. A line that is not understood is reported on standard \
            error, and the exit status is then 2.
            """)

    @OptionGroup var options: FetchOptions
    @OptionGroup var store: StoreOptions

    func run() async throws {
        let session = try FetchSession(options, store)
        throw try await session.run { session in
            var number = 0
            for await line in linesOfStandardInput() {
                number += 1
                if session.isInterrupted { break }
                guard let command = BatchLine(line) else {
                    let words = line.split(whereSeparator: \.isWhitespace).map { Redaction.standard.text(String($0)) }
                    warn("dipper: line \(number) is not understood: \(words.joined(separator: " "))")
                    session.noteBadLine()
                    continue
                }
                await command.perform(in: session)
            }
        }
    }
}

private enum BatchLine {
    case nothing
    case get(String)
    case slow(String)
    case demote(String)
    case cancel(String)
    case sleep(Double)
    case wait

    init?(_ line: String) {
        let words = line.split(whereSeparator: \.isWhitespace).map(String.init)
        guard let verb = words.first, !verb.hasPrefix("#") else {
            self = .nothing
            return
        }
        switch (verb, words.count) {
        case ("get", 2): self = .get(words[1])
        case ("slow", 2): self = .slow(words[1])
        case ("demote", 2): self = .demote(words[1])
        case ("cancel", 2): self = .cancel(words[1])
        case ("wait", 1): self = .wait
        case ("sleep", 2):
            guard let seconds = Double(words[1]), seconds >= 0, seconds < 1e6 else { return nil }
            self = .sleep(seconds)
        default: return nil
        }
    }

    func perform(in session: FetchSession) async {
        switch self {
        case .nothing: break
        case .get(let url): session.get(url)
        case .slow(let url): session.slowGet(url)
        case .demote(let url): session.demote(url)
        case .cancel(let url): session.cancel(url)
        case .sleep(let seconds): try? await Task.sleep(for: .seconds(seconds))
        case .wait: await session.wait()
        }
    }
}

/// A separate thread reads the lines, because reading blocks. The sequence ends early if the task that iterates is
/// cancelled.
private func linesOfStandardInput() -> AsyncStream<String> {
    AsyncStream { continuation in
        Thread.detachNewThread {
            while let line = readLine() { continuation.yield(line) }
            continuation.finish()
        }
    }
}
