import ArgumentParser
import Dipper
import Foundation

/// How the network is asked, or not.
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

    /// A cache set up like this.
    /// - Parameter sources: what it is asked for; where all are files, nothing is kept.
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
