import ArgumentParser
import DipperData
import Foundation

/// A child process that writes entries to disk and ends; ``SyncCounts`` runs it under strace.
struct WriteChild: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "write-child", shouldDisplay: false)

    @Option var into: String
    @Option var size: Int
    @Option var count: Int

    func run() async throws {
        let cache = DataCache(DiskLoad.configuration(into, memoryLimit: 1 << 30))
        var random = SeededGenerator(seed: 6)
        let body = random.bytes(size)
        for number in 0..<count {
            try cache.addData(body, for: CacheKey("https://images.example.com/photos/\(number)"))
        }
        await cache.synchronize()
        guard cache.diskCount == count else {
            throw BenchError("only \(cache.diskCount) entries were written")
        }
        await cache.shutdown()
    }
}
