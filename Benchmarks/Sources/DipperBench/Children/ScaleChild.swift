import ArgumentParser
import DipperData
import Foundation

/// A child process that does one thing with many entries or calls, and prints the figures that ``Scaling`` names.
struct ScaleChild: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "scale-child", shouldDisplay: false)

    enum Work: String, ExpressibleByArgument { case fill, read, memory, queue, hits, writes }

    @Option var work: Work
    @Option var count: Int
    @Option var folder: String?
    /// For `hits` and `writes`, when all processes begin and end, in seconds of the monotonic clock.
    @Option var begin = 0.0
    @Option var end = 0.0

    private static let size = 400

    func run() async throws {
        let numbers =
            switch work {
            case .fill: try await fill()
            case .read: try await read()
            case .memory: try await memory()
            case .queue: try await queue()
            case .hits: try await hits()
            case .writes: try await writes()
            }
        print(numbers.map { "\($0)" }.joined(separator: " "))
    }

    private func key(_ number: Int) -> CacheKey { CacheKey("https://images.example.com/photos/\(number)") }

    /// Without room in memory, so that each hit reads the disk.
    private func cache() throws -> DataCache {
        guard let folder else { throw ValidationError("--folder is missing") }
        return DataCache(DiskLoad.configuration(folder, memoryLimit: 0))
    }

    /// Microseconds an entry, and bytes an entry of all files.
    private func fill() async throws -> [Double] {
        let cache = try cache()
        var random = SeededGenerator(seed: 8)
        let body = random.bytes(Self.size)
        let time = try await seconds {
            for number in 0..<count {
                try cache.addData(body, for: key(number))
                if number % 10_000 == 0 { await cache.synchronize() }
            }
            await cache.synchronize()
        }
        guard cache.diskCount == count else { throw BenchError("only \(cache.diskCount) entries are on disk") }
        await cache.shutdown()
        return [time * 1e6 / Double(count), Double(DiskFolder.space(folder ?? "")) / Double(count)]
    }

    /// Milliseconds from nothing to the first entry, the median of the microseconds of a hit, and MB of the process.
    private func read() async throws -> [Double] {
        var random = SeededGenerator(seed: 5)
        let start = monotonicSeconds()
        let cache = try cache()
        guard cache.readData(for: key(count / 2)) != nil else { throw BenchError("an entry is missing") }
        let opened = monotonicSeconds() - start
        var times: [Double] = []
        for _ in 0..<5_000 {
            let key = key(Int.random(in: 0..<count, using: &random))
            var found: Data?
            times.append(seconds { found = cache.readData(for: key) })
            guard found?.count == Self.size else { throw BenchError("an entry is missing") }
        }
        let memory = try Machine.memory("VmRSS")
        await cache.shutdown()
        return [opened * 1e3, times.median * 1e6, memory]
    }

    /// Nanoseconds of a hit, and bytes of the process an entry.
    private func memory() async throws -> [Double] {
        var configuration = DataCache.Configuration()
        configuration.memoryLimit = 8 << 30
        let cache = DataCache(configuration)
        var random = SeededGenerator(seed: 8)
        let keys = (0..<count).map(key)
        let before = try Machine.memory("VmRSS")
        for key in keys { try cache.addData(random.bytes(Self.size), for: key) }
        let bytes = (try Machine.memory("VmRSS") - before) * 1_048_576 / Double(count)
        let asked = (0..<200_000).map { _ in keys[Int.random(in: 0..<count, using: &random)] }
        let time = seconds { for key in asked { keep(cache.readData(for: key)) } }
        await cache.shutdown()
        return [time * 1e9 / Double(asked.count), bytes]
    }

    /// Microseconds of a call, and bytes of the process a call.
    private func queue() async throws -> [Double] {
        var configuration = DataCache.Configuration()
        configuration.slowQueue.isSuspended = true
        let cache = DataCache(configuration)
        let urls = sampleURLs(count)
        let before = try Machine.memory("VmRSS")
        let time = seconds {
            for url in urls { cache.slowGetData(url) }
            while cache.queueCounts.slowWaiting < count {}
        }
        let bytes = (try Machine.memory("VmRSS") - before) * 1_048_576 / Double(count)
        cache.cancelAll()
        await cache.shutdown()
        return [time * 1e6 / Double(count), bytes]
    }

    /// Hits a second of this process beside others in one folder.
    private func hits() async throws -> [Double] {
        let cache = try cache()
        var random = SeededGenerator(seed: UInt64(getpid()))
        keep(cache.readData(for: key(0)))
        while monotonicSeconds() < begin { try await Task.sleep(for: .milliseconds(1)) }
        var done = 0
        while monotonicSeconds() < end {
            keep(cache.readData(for: key(Int.random(in: 0..<count, using: &random))))
            done += 1
        }
        await cache.shutdown()
        return [Double(done) / (end - begin)]
    }

    /// Entries a second that this process puts on disk beside others in one folder.
    private func writes() async throws -> [Double] {
        let cache = try cache()
        var random = SeededGenerator(seed: UInt64(getpid()))
        let body = random.bytes(Self.size)
        await cache.synchronize()
        while monotonicSeconds() < begin { try await Task.sleep(for: .milliseconds(1)) }
        var done = 0
        while monotonicSeconds() < end {
            for number in 0..<200 { try cache.addData(body, for: key(getpid() % 1_000 * 1_000_000 + done + number)) }
            done += 200
            await cache.synchronize()
        }
        let time = monotonicSeconds() - begin
        await cache.shutdown()
        return [Double(done) / time]
    }
}
