import ArgumentParser
import Dipper
import Foundation

/// The options for requests to the network and to the cache.
struct RequestOptions: ParsableArguments {
    @Option(
        name: .customLong("header"),
        help: ArgumentHelp("A header to send with each request; may be repeated.", valueName: "'NAME: VALUE'"))
    var headers: [HeaderArgument] = []

    @Flag(help: "Ask the network, whatever the cache holds.")
    var refresh = false

    @Flag(help: "Answer from the cache alone.")
    var cacheOnly = false

    @Flag(help: "Neither read nor write the disk.")
    var memoryOnly = false

    @Option(help: ArgumentHelp("Urgent fetches at a time.", valueName: "N"))
    var maxFast = 8

    @Option(help: ArgumentHelp("Attempts after a failure that may pass.", valueName: "N"))
    var retries = 3

    @Option(
        help: ArgumentHelp(
            "The longest a fetch may take from its start, retries included; time in the queue does not count.",
            valueName: "SECONDS"))
    var timeout: Double?

    func validate() throws {
        try headers.validate()
        guard [refresh, cacheOnly, memoryOnly].filter({ $0 }).count <= 1 else {
            throw ValidationError("--refresh, --cache-only and --memory-only exclude each other.")
        }
        guard maxFast >= 1 else { throw ValidationError("--max-fast must be at least 1.") }
        guard retries >= 0 else { throw ValidationError("--retries must not be negative.") }
        if let timeout, !(timeout > 0 && timeout < 1e9) { throw ValidationError("--timeout must be above 0.") }
    }

    var cachePolicy: DataRequest.CachePolicy {
        if refresh {
            .ignoreCache
        } else if cacheOnly {
            .cacheOnly
        } else if memoryOnly {
            .memoryOnly
        } else {
            .useCache
        }
    }

    /// Returns the configuration of a cache with these options.
    /// - Parameter sources: the sources that the cache is asked for. If all of them are files, nothing is kept on disk.
    func configuration(_ store: StoreOptions, for sources: [PictureSource]? = nil) -> DataCache.Configuration {
        var configuration = store.configuration()
        configuration.fastQueue.maxConcurrent = maxFast
        configuration.cachePolicy = cachePolicy
        configuration.retryPolicy = .exponential(retries: retries)
        configuration.timeout = timeout.map { .seconds($0) }
        if memoryOnly || sources?.contains(where: \.isURL) == false { configuration.directory = nil }
        return configuration
    }
}
