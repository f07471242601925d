import ArgumentParser
import DipperData
import Foundation

/// A child process that fetches files in one queue, one after the other or all at once. It prints a line for each file:
/// milliseconds from the request to the file's end, milliseconds to its first byte, and its bytes.
struct ThroughputChild: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "throughput-child", shouldDisplay: false)

    @Option var base: String
    @Option var certificate: String?
    @Option var folder: String
    @Option var count: Int
    @Option var times = 1
    @Flag var slow = false
    @Flag var atOnce = false
    /// Whether slowQueue runs as many fetches as fill the link.
    @Flag var fills = false

    func run() async throws {
        var configuration = DataCache.Configuration()
        configuration.network.caBundle = certificate
        if fills { configuration.slowQueue = .fillsLink(upTo: 6) }
        let cache = DataCache(configuration)
        let urls = (0..<times).flatMap { time in
            (0..<count).compactMap { URL(string: "\(base)/\(folder)/\($0)?time=\(time)") }
        }
        if atOnce {
            let start = monotonicSeconds()
            let tasks = urls.map { get($0, cache) }
            for task in tasks { report(try await task.response, since: start) }
        } else {
            for url in urls {
                let start = monotonicSeconds()
                report(try await get(url, cache).response, since: start)
            }
        }
        await cache.shutdown()
    }

    private func get(_ url: URL, _ cache: DataCache) -> DataTask {
        slow ? cache.slowGetData(url) : cache.getData(url)
    }

    private func report(_ response: DataResponse, since start: Double) {
        let end = (monotonicSeconds() - start) * 1_000
        let first = (response.metrics?.firstByte ?? .zero) / Duration.milliseconds(1)
        print(String(format: "%.1f %.1f %d", end, first, response.data.count))
    }
}
