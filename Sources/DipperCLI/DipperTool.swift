import ArgumentParser

@main
struct DipperTool: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dipper",
        abstract: "Fetch files and pictures through a cache that knows what is urgent.",
        discussion: """
            Urgent URLs are fetched at once, several at a time. Slow ones are fetched one by one with what is left \
            of the link, and wait while urgent work runs. No URL is fetched twice at a time, and what has been \
            fetched is kept in the cache folder.

            Exit status: 0 all well, 1 some URL failed, 2 a line given to batch was not understood, \
            64 bad usage, 130 interrupted.
            """,
        subcommands: [
            GetCommand.self, BatchCommand.self, PrefetchCommand.self, StatsCommand.self, ListCommand.self,
            ShowCommand.self, ExportCommand.self, RemoveCommand.self, TrimCommand.self, ClearCommand.self,
            VerifyCommand.self, InfoCommand.self, ConvertCommand.self, SheetCommand.self,
        ])
}
