import DipperData
import Foundation
import Synchronization

/// The comparison of how long reads and fetches take while a large store is cleaned up.
struct StoreWaits: Comparison {
    let name = "waits"
    let title = "Waits while a large store is cleaned up"

    private struct Times {
        var longest = 0.0
        var count = 0

        mutating func add(_ time: Double) {
            longest = max(longest, time)
            count += 1
        }
    }

    func run(_ bench: Bench) async throws -> [Table] {
        let count = bench.isQuick ? 100_000 : 1_000_000
        let disk = try DiskFolder(bench)
        defer { disk.end() }
        let server = try await WebServer(bench, files: 1, size: 2_000)
        defer { server.end() }
        let cache = DataCache(DiskLoad.configuration(try disk.make("waits"), memoryLimit: 0))
        try await Self.fill(cache, count)
        disk.settle()
        var rows: [[String]] = []
        var checks: [Check] = []
        let half = cache.diskSize / 2
        let works: [(String, @Sendable () -> Void)] = [
            ("nothing, for 5 s", { sleep(5) }),
            ("`trimDisk(to:)`, to half", { cache.trimDisk(to: half) }),
            ("`clear()`", { cache.clear() }),
        ]
        for (name, work) in works {
            let (hits, fetches, time) = try await Self.measure(cache, server.base, count, work)
            rows.append([
                name, (time * 1e3).short, "\(hits.count)", (hits.longest * 1e3).short, "\(fetches.count)",
                (fetches.longest * 1e3).short,
            ])
            checks.append(Check("longest hit, \(name)", hits.longest * 1e3, .atMost, 20, " ms"))
            checks.append(Check("longest fetch, \(name)", fetches.longest * 1e3, .atMost, 20, " ms"))
        }
        await cache.shutdown()
        var table = Table(
            "\(count) entries",
            says:
                "Entries of 400 bytes, the memory tier off. One thread looks up entries of the half that stays, and a "
                + "task fetches 2 KB from nginx on the loopback, one after the other.",
            header: ["meanwhile", "took, ms", "look-ups", "longest, ms", "fetches", "longest, ms"], rows: rows)
        table.checks = checks
        table.remarks = [disk.remark]
        return [table]
    }

    private static func key(_ number: Int) -> CacheKey { CacheKey("https://images.example.com/photos/\(number)") }

    private static func fill(_ cache: DataCache, _ count: Int) async throws {
        let body = Data(count: 400)
        for number in 0..<count {
            try cache.addData(body, for: key(number))
            if number % 10_000 == 0 { await cache.synchronize() }
        }
        await cache.synchronize()
        guard cache.diskCount == count else { throw BenchError("only \(cache.diskCount) entries were written") }
    }

    private static func measure(
        _ cache: DataCache, _ base: String, _ count: Int, _ work: @escaping @Sendable () -> Void
    ) async throws -> (hits: Times, fetches: Times, time: Double) {
        let over = Over()
        async let hits = lookUp(cache, count, over)
        async let fetches = fetch(cache, base, over)
        try await Task.sleep(for: .milliseconds(200))
        let start = monotonicSeconds()
        work()
        await cache.synchronize()
        let time = monotonicSeconds() - start
        over.isOver.store(true, ordering: .relaxed)
        return (await hits, try await fetches, time)
    }

    private final class Over: Sendable {
        let isOver = Atomic(false)
    }

    private static func lookUp(_ cache: DataCache, _ count: Int, _ over: Over) async -> Times {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                var times = Times()
                var number = 0
                while !over.isOver.load(ordering: .relaxed) {
                    let start = monotonicSeconds()
                    _ = cache.readData(for: key(count - 1 - number % 1_000))
                    times.add(monotonicSeconds() - start)
                    number += 1
                    usleep(200)
                }
                continuation.resume(returning: times)
            }
        }
    }

    private static func fetch(_ cache: DataCache, _ base: String, _ over: Over) async throws -> Times {
        var times = Times()
        while !over.isOver.load(ordering: .relaxed) {
            guard let url = URL(string: "\(base)/0?\(times.count)-\(UInt32.random(in: 0 ... .max))") else { break }
            let start = monotonicSeconds()
            _ = try await cache.getData(url).value
            times.add(monotonicSeconds() - start)
            try await Task.sleep(for: .milliseconds(1))
        }
        return times
    }
}
