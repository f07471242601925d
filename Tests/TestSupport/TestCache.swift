package import DipperData
package import DipperTesting
package import Foundation

/// A cache of data whose server, clock, wall clock and network the test controls.
package struct TestCache {
    package let transport = ScriptedTransport()
    package let clock = ManualClock()
    package let network = ManualNetwork()
    package let date: ManualDate
    package let cache: DataCache
    private let folder: TemporaryFolder?

    package init(
        folder: TemporaryFolder? = nil, date: ManualDate = ManualDate(),
        _ change: (inout DataCache.Configuration) -> Void = { _ in }
    ) {
        self.date = date
        self.folder = folder
        var configuration = DataCache.Configuration(directory: folder?.url)
        configuration.transport = transport
        configuration.clock = clock
        configuration.networkMonitor = network
        configuration.memoryPressure = nil
        configuration.now = { [date] in date.now }
        configuration.callbackQueue = .inPlace
        configuration.logger.logLevel = .critical
        change(&configuration)
        cache = DataCache(configuration)
    }
}

/// Returns a URL whose host does not exist.
package func url(_ path: String) -> URL { URL(string: "http://host.test/\(path)").unsafelyUnwrapped }

extension FetchTask {
    /// The error with which the task ends; `nil` if it succeeds.
    package var error: DipperError? {
        get async { await result.error }
    }

    /// Waits for the first event of the task that meets the condition.
    ///
    /// - Returns: `false` if the task ended without such an event.
    package func reaches(_ condition: @escaping @Sendable (Event) -> Bool) async -> Bool {
        for await event in events where condition(event) { return true }
        return false
    }
}
