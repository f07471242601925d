import ArgumentParser
import DipperData
import Foundation

/// A child process that prefetches many files. It prints memory in MB before the cache is made, with all prefetches
/// queued, and at the peak; then the number of entries on disk, and files per second.
struct PrefetchChild: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "prefetch-child", shouldDisplay: false)

    @Option var base: String
    @Option var into: String
    @Option var count: Int
    @Option var files: Int
    @Option var memoryLimit: Int

    func run() async throws {
        let before = try Machine.memory("VmHWM")
        var configuration = DataCache.Configuration(directory: URL(fileURLWithPath: into, isDirectory: true))
        configuration.memoryLimit = memoryLimit
        configuration.slowQueue.isSuspended = true
        let cache = DataCache(configuration)
        let (ends, end) = AsyncStream.makeStream(of: Bool.self)
        for number in 0..<count {
            guard let url = URL(string: "\(base)/\(number % files)?number=\(number)") else { continue }
            cache.slowGetData(url).onEnd { result in end.yield((try? result.get())?.data.count == 20_000) }
        }
        let queued = try Machine.memory("VmRSS")
        let start = monotonicSeconds()
        cache.slowQueue.isSuspended = false
        var seen = 0
        for await isWell in ends {
            guard isWell else { throw BenchError("a prefetch failed") }
            seen += 1
            if seen == count { break }
        }
        let time = monotonicSeconds() - start
        await cache.synchronize()
        let onDisk = cache.diskCount
        await cache.shutdown()
        print(before, queued, try Machine.memory("VmHWM"), onDisk, Double(count) / time)
    }
}
