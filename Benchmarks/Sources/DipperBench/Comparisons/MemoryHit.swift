import DipperData
import Foundation

/// The comparison of hits in memory, from one thread and from two at once.
struct MemoryHit: Comparison {
    let name = "memory"
    let title = "Memory hit"

    private static let byURL = "DataCache.readData(for: url)"
    private static let byKey = "DataCache.readData(for: key)"
    private static let strings = "Dictionary<String, Data>, Mutex, url.absoluteString"
    private static let digests = "Dictionary<128-bit digest, Data>, Mutex"
    private static let foundation = "NSCache, url.absoluteString"

    func run(_ bench: Bench) async throws -> [Table] {
        let count = 10_000
        var random = SeededGenerator(seed: 1)
        let urls = sampleURLs(count)
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
            func competitor(_ name: String, _ look: @escaping @Sendable (Int) -> Data?) -> Competitor {
                Competitor(name: name) { Self.nanoseconds(threads, orders, expected: 200 * count, look) }
            }
            var competitors = [
                competitor(Self.byURL) { cache.readData(for: urls[$0]) },
                competitor(Self.strings) { strings.data(for: urls[$0].absoluteString) },
                competitor(Self.byKey) { cache.readData(for: keys[$0]) },
                competitor(Self.digests) { digests.data(for: names[$0]) },
            ]
            if !bench.isQuick { competitors.append(competitor(Self.foundation) { foundation.data(for: urls[$0]) }) }
            try await figures.measure(Self.setting(threads), rounds: bench.rounds(11), competitors)
        }
        await cache.shutdown()
        return [table(figures)]
    }

    private static func setting(_ threads: Int) -> String { threads == 1 ? "1 thread" : "\(threads) threads" }

    /// Returns the wall time divided by the operations of all threads, in nanoseconds.
    private static func nanoseconds(
        _ threads: Int, _ orders: [[Int]], expected: Int, _ look: @escaping @Sendable (Int) -> Data?
    ) -> Double {
        let passes = 10
        let time = seconds(threads: threads) { thread in
            for _ in 0..<passes {
                var bytes = 0
                for index in orders[thread] { bytes += look(index)?.count ?? 0 }
                precondition(bytes == expected, "an entry is missing")
            }
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
                    figures.ratio(Self.byKey, Self.digests, setting), .atMost, threads == 1 ? 2 : 1))
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
