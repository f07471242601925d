import DipperData
import Foundation

/// The comparison of hits in memory, from one thread and from two at once.
struct MemoryHit: Comparison {
    let name = "memory"
    let title = "Memory hit"

    private static let byURL = "DataCache.data(for: url)"
    private static let byKey = "DataCache.data(for: key)"
    private static let strings = "Dictionary<String, Data>, Mutex, url.absoluteString"
    private static let digests = "Dictionary<128-bit digest, Data>, Mutex"
    private static let foundation = "NSCache, url.absoluteString"

    func run(_ bench: Bench) async throws -> [Table] {
        let count = 10_000
        var random = SeededGenerator(seed: 1)
        let urls = try (0..<count).map { number in
            guard
                let url = URL(string: "https://images.example.com/photos/2024/\(number)/thumbnail.jpg?w=400")
            else { throw BenchError("not a URL") }
            return url
        }
        let keys = urls.map { CacheKey($0) }
        let names = urls.map { _ in Digest128(high: random.next(), low: random.next()) }
        let bodies = urls.map { _ in random.bytes(200) }

        let cache = DataCache()
        let foundation = FoundationCache()
        for (url, body) in zip(urls, bodies) {
            try cache.addData(body, for: url)
            foundation.add(body, for: url)
        }
        let strings = LockedDictionary(
            Dictionary(zip(urls.map(\.absoluteString), bodies), uniquingKeysWith: { $1 }))
        let digests = LockedDictionary(Dictionary(zip(names, bodies), uniquingKeysWith: { $1 }))

        // Each thread has an order of its own.
        let orders = (0..<2).map { _ in Array(0..<count).shuffled(using: &random) }
        var figures = Figures()
        for threads in [1, 2] {
            func competitor(_ name: String, _ pass: @escaping @Sendable ([Int]) -> Int) -> Competitor {
                Competitor(name: name) { Self.nanoseconds(threads, orders, expected: 200 * count, pass) }
            }
            try await figures.measure(
                Self.setting(threads), rounds: bench.rounds(11),
                [
                    competitor(Self.byURL) { order in
                        var bytes = 0
                        for index in order { bytes += cache.data(for: urls[index])?.count ?? 0 }
                        return bytes
                    },
                    competitor(Self.strings) { order in
                        var bytes = 0
                        for index in order {
                            bytes += strings.data(for: urls[index].absoluteString)?.count ?? 0
                        }
                        return bytes
                    },
                    competitor(Self.byKey) { order in
                        var bytes = 0
                        for index in order { bytes += cache.data(for: keys[index])?.count ?? 0 }
                        return bytes
                    },
                    competitor(Self.digests) { order in
                        var bytes = 0
                        for index in order { bytes += digests.data(for: names[index])?.count ?? 0 }
                        return bytes
                    },
                    competitor(Self.foundation) { order in
                        var bytes = 0
                        for index in order { bytes += foundation.data(for: urls[index])?.count ?? 0 }
                        return bytes
                    },
                ])
        }
        await cache.shutdown()
        return [table(figures)]
    }

    private static func setting(_ threads: Int) -> String { threads == 1 ? "1 thread" : "\(threads) threads" }

    /// Returns the wall time divided by the operations of all threads, in nanoseconds.
    private static func nanoseconds(
        _ threads: Int, _ orders: [[Int]], expected: Int, _ pass: @escaping @Sendable ([Int]) -> Int
    ) -> Double {
        let passes = 30
        let time = seconds(threads: threads) { thread in
            for _ in 0..<passes { precondition(pass(orders[thread]) == expected, "an entry is missing") }
        }
        return time * 1e9 / Double(passes * threads * orders[0].count)
    }

    private func table(_ figures: Figures) -> Table {
        var table = Table(
            "A hit among 10,000 entries",
            says:
                "A lookup that finds its 200 bytes, in random order; wall time divided by the operations of all "
                + "threads. Ours keeps the order of use, limits and expirations; the dictionaries keep nothing.",
            unit: "ns per hit",
            competitors: [Self.byURL, Self.strings, Self.byKey, Self.digests, Self.foundation],
            settings: [Self.setting(1), Self.setting(2)], figures: figures)
        for threads in [1, 2] {
            let setting = Self.setting(threads)
            table.checks.append(
                Check(
                    "by url ÷ Dictionary<String>, \(setting)",
                    figures.ratio(Self.byURL, Self.strings, setting), .atMost, 1.6))
        }
        for threads in [1, 2] {
            let setting = Self.setting(threads)
            table.checks.append(
                Check(
                    "by key ÷ Dictionary of digests, \(setting)",
                    figures.ratio(Self.byKey, Self.digests, setting), .atMost, 2))
        }
        for (name, what) in [(Self.byURL, "by url"), (Self.byKey, "by key")] {
            table.checks.append(
                Check(
                    "\(what), 2 threads ÷ 1 thread",
                    figures[name, Self.setting(2)] / figures[name, Self.setting(1)], .atMost, 1))
        }
        return table
    }
}
