import ArgumentParser
import DipperData
import Foundation

/// A child process that requests the prefetches and, after a delay, the urgent files. It prints the milliseconds from
/// the request of the urgent files to the end of the last one, then to the end of each.
struct LinkChild: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "link-child", shouldDisplay: false)

    @Option var base: String
    @Option var certificate: String
    /// The files to prefetch, as `FOLDER:COUNT`.
    @Option var load: String?
    @Option var urgent: String
    @Option var size: Int
    /// The time from requesting the prefetches to requesting the urgent files, in milliseconds.
    @Option var delay = 600
    /// Whether all requests go to fastQueue, in the order in which the process makes them.
    @Flag var oneQueue = false
    /// Whether slowQueue runs as many fetches as fill the link.
    @Flag var fills = false

    func run() async throws {
        var configuration = DataCache.Configuration()
        configuration.network.caBundle = certificate
        configuration.fastQueue.maxConcurrent = 8
        if fills { configuration.slowQueue = .fillsLink(upTo: 6) }
        let cache = DataCache(configuration)
        let load = try self.load.map(urls) ?? []
        let urgent = try urls(self.urgent)
        for url in load { _ = oneQueue ? cache.getData(url) : cache.slowGetData(url) }
        if !load.isEmpty { try await Task.sleep(for: .milliseconds(delay)) }
        let (ends, end) = AsyncStream.makeStream(of: (time: Double, isWell: Bool).self)
        let start = monotonicSeconds()
        for url in urgent {
            cache.getData(url).onEnd { result in
                end.yield((monotonicSeconds() - start, (try? result.get())?.data.count == size))
            }
        }
        var times: [Double] = []
        for await (time, isWell) in ends {
            guard isWell else { throw BenchError("an urgent file did not come whole") }
            times.append(time * 1_000)
            if times.count == urgent.count { break }
        }
        print(([times.max() ?? .nan] + times).map { String(format: "%.1f", $0) }.joined(separator: " "))
        await cache.shutdown()
    }

    private func urls(_ files: String) throws -> [URL] {
        let parts = files.split(separator: ":")
        guard parts.count == 2, let count = Int(parts[1]) else { throw BenchError("\(files) is not FOLDER:COUNT") }
        return (0..<count).compactMap { URL(string: "\(base)/\(parts[0])/\($0)") }
    }
}
