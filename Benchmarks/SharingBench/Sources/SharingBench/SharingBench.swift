import DipperData
import DipperRedis
import Foundation

/// A process that shares what it fetches with others; the comparison `server` of dipper-bench runs it:
///
///     SharingBench hit REDIS BASE COUNT          prints the microseconds of the middle hit in the tier
///     SharingBench stopped REDIS BASE PROCESS    stops the Redis, and prints what it costs calls, in milliseconds
///     SharingBench wait FOLDER REDIS BASE COUNT BEGIN STEP
///                                                fetches a key each STEP seconds from BEGIN on, and prints the source and
///                                                the time of each answer; REDIS is `-` for none
@main
enum SharingBench {
    // The main queue would change threads twice for each call.
    static func main() async throws { try await run(Array(CommandLine.arguments.dropFirst())) }

    nonisolated private static func run(_ words: [String]) async throws {
        switch words.first {
        case "hit" where words.count == 4:
            let count = Int(words[3]) ?? 0
            let first = try await cache(words[1])
            for number in 0..<count { _ = try await first.getData(url(words[2], number)).value }
            await first.synchronize()
            let second = try await cache(words[1])
            let urls = (0..<count).map { url(words[2], $0) }
            var times: [Double] = []
            for url in urls {
                let begin = monotonicSeconds()
                let response = try await second.getData(url).response
                times.append(monotonicSeconds() - begin)
                guard response.source == .shared else { fatalError("the answer is from \(response.source)") }
            }
            print(median(times) * 1e6)
        case "stopped" where words.count == 4:
            let (shared, alone) = (try await cache(words[1]), try await cache("-"))
            guard let process = Int32(words[3]) else { fatalError("no process") }
            var number = 0
            func call(_ cache: DataCache) async throws -> Double {
                number += 1
                let begin = monotonicSeconds()
                _ = try await cache.getData(url(words[2], number)).value
                return (monotonicSeconds() - begin) * 1e3
            }
            for _ in 0..<200 { _ = (try await call(shared), try await call(alone)) }
            kill(process, SIGSTOP)
            let begin = monotonicSeconds()
            while monotonicSeconds() < begin + 1 { _ = try await call(shared) }
            var (with, without): ([Double], [Double]) = ([], [])
            while monotonicSeconds() < begin + 5 {
                with.append(try await call(shared))
                without.append(try await call(alone))
            }
            kill(process, SIGCONT)
            let mean = { (times: [Double]) in times.reduce(0, +) / Double(times.count) }
            print(mean(with) - mean(without), median(with) - median(without))
        case "wait" where words.count == 7:
            guard let count = Int(words[4]), let start = Double(words[5]), let step = Double(words[6]) else {
                fatalError("no numbers")
            }
            let cache = try await cache(words[2], folder: words[1])
            for number in 0..<count {
                let pause = start + Double(number) * step - monotonicSeconds()
                try await Task.sleep(for: .seconds(max(0, pause)))
                let response = try await cache.getData(url(words[3], number)).response
                print(response.source, monotonicSeconds())
            }
            await cache.shutdown()
        default: fatalError("see the beginning of SharingBench.swift")
        }
    }
}

private func monotonicSeconds() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) * 1e-9
}

private func url(_ base: String, _ number: Int) -> URL {
    guard let url = URL(string: "\(base)/\(number)") else { fatalError("no URL: \(base)") }
    return url
}

private func median(_ values: [Double]) -> Double { values.sorted()[values.count / 2] }

private func cache(_ redis: String, folder: String? = nil) async throws -> DataCache {
    var configuration = DataCache.Configuration(
        directory: folder.map { URL(fileURLWithPath: $0, isDirectory: true) })
    configuration.freshness = .shared(defaultFreshness: .after(.seconds(3_600)))
    if redis != "-" {
        let tier = try RedisTier(redis)
        try await tier.connect()
        configuration.tiers = [tier]
        configuration.leases.services = [RedisLeases(tier)]
    }
    return DataCache(configuration)
}
