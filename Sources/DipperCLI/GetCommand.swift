import ArgumentParser
import Dipper

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
    }

    func run() async throws {
        let urgent = try urls + (from.map(URLList.read) ?? [])
        let later = try slow + (slowFrom.map(URLList.read) ?? [])
        let session = try FetchSession(options, store)
        throw try await session.run { session in
            for url in urgent { session.get(url) }
            for url in later { session.slowGet(url) }
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
        let all = try urls + (from.map(URLList.read) ?? [])
        let session = try FetchSession(options, store)
        throw try await session.run { session in
            for url in all { session.slowGet(url) }
        }
    }
}
