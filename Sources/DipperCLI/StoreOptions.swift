import ArgumentParser
import Dipper
import Foundation
import Logging

/// What every command takes.
struct StoreOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The folder of the cache. (default: $XDG_CACHE_HOME/dipper or ~/.cache/dipper)", valueName: "DIR"))
    var cacheDir: String?

    @Flag(help: "Print JSON, one object a line.")
    var json = false

    var directory: URL {
        if let cacheDir { return URL(fileURLWithPath: cacheDir, isDirectory: true) }
        let environment = ProcessInfo.processInfo.environment
        if let base = environment["XDG_CACHE_HOME"], base.hasPrefix("/") {
            return URL(fileURLWithPath: base, isDirectory: true).appendingPathComponent("dipper")
        }
        return FileManager.default.homeDirectoryForCurrentUser.appendingPathComponent(".cache/dipper")
    }

    func configuration() -> DataCache.Configuration {
        var configuration = DataCache.Configuration(directory: directory)
        configuration.name = "dipper"
        var logger = Logger(label: "dipper") { StreamLogHandler.standardError(label: $0) }
        logger.logLevel = .warning
        configuration.logger = logger
        configuration.callbackQueue = .serial(label: "dipper.output")
        return configuration
    }

    /// Opens the cache, hands it over, and closes it whatever happens.
    func withCache<Result>(_ body: (DataCache) async throws -> Result) async throws -> Result {
        let cache = DataCache(configuration())
        do {
            let result = try await body(cache)
            await cache.shutdown()
            return result
        } catch {
            await cache.shutdown()
            throw error
        }
    }
}

/// One URL and the headers it was fetched with: together they name an entry.
struct EntryOptions: ParsableArguments {
    @Argument(help: ArgumentHelp("The URL it was fetched from.", valueName: "URL"))
    var url: String

    @Option(
        name: .customLong("header"),
        help: ArgumentHelp("A header it was fetched with; may be repeated.", valueName: "'NAME: VALUE'"))
    var headers: [HeaderArgument] = []

    var key: CacheKey { request(url, headers).cacheKey }
}

func request(_ url: String, _ headers: [HeaderArgument]) -> DataRequest {
    DataRequest(string: url).with(\.headers, HTTPHeaders(headers.map { .init($0.name, $0.value) }))
}

/// `Name: value`.
struct HeaderArgument: ExpressibleByArgument {
    let name: String
    let value: String

    init?(argument: String) {
        guard let colon = argument.firstIndex(of: ":") else { return nil }
        name = argument[..<colon].trimmingCharacters(in: .whitespaces)
        value = argument[argument.index(after: colon)...].trimmingCharacters(in: .whitespaces)
        if name.isEmpty { return nil }
    }
}
