import ArgumentParser
import Dipper
import Foundation

struct GetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "get",
        abstract: "Fetch URLs, urgent ones first.",
        discussion: """
            URLs given as arguments or by --from are urgent. URLs given by --slow and --slow-from are fetched one at a \
            time, and only while no urgent URL waits or runs.

            Example: dipper get https://example.org/now.jpg --slow https://example.org/later.jpg --out pictures
            """)

    @Argument(help: ArgumentHelp("The urgent URLs.", valueName: "URL"))
    var urls: [String] = []

    @Option(help: ArgumentHelp("A file with one urgent URL per line; - for standard input.", valueName: "FILE"))
    var from: String?

    @Option(help: ArgumentHelp("A URL to prefetch; may be repeated.", valueName: "URL"))
    var slow: [String] = []

    @Option(help: ArgumentHelp("A file with one URL to prefetch per line; - for standard input.", valueName: "FILE"))
    var slowFrom: String?

    @OptionGroup var options: FetchOptions
    @OptionGroup var store: StoreOptions

    func validate() throws {
        guard !urls.isEmpty || from != nil || !slow.isEmpty || slowFrom != nil else {
            throw ValidationError("Name at least one URL.")
        }
        guard from != "-" || slowFrom != "-" else {
            throw ValidationError("Only one of --from and --slow-from can read standard input.")
        }
    }

    func run() async throws {
        let urgent = try urls + URLList.read(from)
        let later = try slow + URLList.read(slowFrom)
        throw try await FetchSession(options, store).run { session in
            for url in urgent { session.ask(url, .fast) }
            for url in later { session.ask(url, .slow) }
        }
    }
}

struct PrefetchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "prefetch",
        abstract: "Fetch URLs into the cache, one at a time.",
        discussion: "URLs that are already in the cache, and fresh, are not fetched again.")

    @Argument(help: ArgumentHelp("The URLs to prefetch.", valueName: "URL"))
    var urls: [String] = []

    @Option(help: ArgumentHelp("A file with one URL per line; - for standard input.", valueName: "FILE"))
    var from: String?

    @OptionGroup var options: FetchOptions
    @OptionGroup var store: StoreOptions

    func validate() throws {
        guard !urls.isEmpty || from != nil else { throw ValidationError("Name at least one URL.") }
    }

    func run() async throws {
        let all = try urls + URLList.read(from)
        throw try await FetchSession(options, store).run { session in
            for url in all { session.ask(url, .slow) }
        }
    }
}

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
        throw try await FetchSession(options, store).run { session in
            var number = 0
            for await line in Self.linesOfStandardInput() {
                if Task.isCancelled { break }
                number += 1
                let words = line.trimmingCharacters(in: URLList.blanks).split(whereSeparator: \.isWhitespace).map(
                    String.init)
                if await !Self.perform(words, in: session) {
                    let shown = words.map { Redaction.standard.text($0) }.joined(separator: " ")
                    warn("line \(number) is not understood: \(shown)")
                    session.noteBadLine()
                }
            }
        }
    }

    /// Returns `false` if the words are not a command.
    private static func perform(_ words: [String], in session: FetchSession) async -> Bool {
        guard let verb = words.first, !verb.hasPrefix("#") else { return true }
        switch (verb, words.count) {
        case ("get", 2): session.ask(words[1], .fast)
        case ("slow", 2): session.ask(words[1], .slow)
        case ("demote", 2): session.demote(words[1])
        case ("cancel", 2): session.cancel(words[1])
        case ("wait", 1): await session.wait()
        case ("sleep", 2):
            guard let seconds = Double(words[1]), seconds >= 0, seconds < 1e6 else { return false }
            try? await Task.sleep(for: .seconds(seconds))
        default: return false
        }
        return true
    }

    /// A thread reads the lines, because reading blocks. The sequence ends early if its task is cancelled.
    private static func linesOfStandardInput() -> AsyncStream<String> {
        AsyncStream { continuation in
            Thread.detachNewThread {
                while let line = readLine() { continuation.yield(line) }
                continuation.finish()
            }
        }
    }
}
