import DipperData
import Foundation

/// The measurement of calls on a cache with a short and a long queue: no call may become slow because many wait.
struct QueuedCalls: Comparison {
    let name = "queued"
    let title = "Calls on a long queue"

    private static let settings = [(name: "1,000 queued", count: 1_000), (name: "100,000 queued", count: 100_000)]
    private static let calls = [
        "slowGetData", "getData, which promotes", "moveToSlowQueue", "cancel a task", "cancel(url)",
    ]

    func run(_ bench: Bench) async throws -> [Table] {
        let loads = try Self.settings.map { try Load(queued: $0.count) }
        var samples: [String: [[Double]]] = [:]
        for round in 0...bench.rounds(25, quick: 15) {
            for (setting, load) in zip(Self.settings, loads) {
                let times = try load.measure()
                if round > 0 { samples[setting.name, default: []].append(times) }
            }
        }
        for load in loads { await load.cache.shutdown() }
        var figures = Figures()
        for (number, call) in Self.calls.enumerated() {
            for (setting, times) in samples { figures[call, setting] = times.map { $0[number] }.median }
        }
        let (few, many) = (Self.settings[0].name, Self.settings[1].name)
        var table = Table(
            "A call, by the number of queued prefetches",
            says:
                "Both queues are suspended. Each turn calls for \(Load.batch * 10) of the queued URLs, picked at random, "
                + "or for as many new ones; time on the caller's thread, until the cache counts the calls.",
            unit: "µs per call", competitors: Self.calls, settings: [few, many], figures: figures)
        table.checks = Self.calls.map { call in
            Check(
                "\(call), 100,000 ÷ 1,000", figures[call, many] / figures[call, few], .atMost,
                call == Self.calls[0] ? 1.3 : 1.5)
        }
        table.checks += Self.calls.map { call in
            Check("\(call), \(many)", figures[call, many], .atMost, call == Self.calls[0] ? 3 : nil, " µs")
        }
        return [table]
    }

    /// A cache with a number of queued prefetches.
    private final class Load {
        /// The calls between two looks at the counts: fewer than the shorter queue has.
        static let batch = 200
        let cache: DataCache
        private var urls: [URL]
        private var next = 0
        private var random = SeededGenerator(seed: 3)

        init(queued count: Int) throws {
            var configuration = DataCache.Configuration()
            configuration.fastQueue.isSuspended = true
            configuration.slowQueue.isSuspended = true
            cache = DataCache(configuration)
            urls = sampleURLs(count)
            next = count
            for url in urls { cache.slowGetData(url) }
            try expect(slow: count)
        }

        /// Returns the microseconds per call of each of `calls`; the queue is as long afterwards as before.
        func measure() throws -> [Double] {
            var sums = [Double](repeating: 0, count: QueuedCalls.calls.count)
            let count = urls.count
            for _ in 0..<10 {
                // A partial shuffle: the first ones are the picked ones.
                for index in 0..<Self.batch {
                    urls.swapAt(index, Int.random(in: index..<count, using: &random))
                }
                let picked = urls[..<Self.batch]
                let fresh = (next..<(next + Self.batch)).compactMap { URL(string: "https://images.example.com/\($0)") }
                next += Self.batch
                sums[0] += try seconds {
                    for url in fresh { cache.slowGetData(url) }
                    try expect(slow: count + Self.batch)
                }
                var urgent: [DataTask] = []
                urgent.reserveCapacity(Self.batch)
                sums[1] += try seconds {
                    for url in picked { urgent.append(cache.getData(url)) }
                    try expect(fast: Self.batch, slow: count)
                }
                sums[2] += try seconds {
                    for task in urgent { task.moveToSlowQueue() }
                    try expect(slow: count + Self.batch)
                }
                sums[3] += try seconds {
                    for task in urgent { task.cancel() }
                    try expect(slow: count + Self.batch)
                }
                guard urgent.allSatisfy({ $0.state == .failed(.cancelled) }) else {
                    throw BenchError("a task was not cancelled")
                }
                sums[4] += try seconds {
                    for url in picked { cache.cancel(url) }
                    try expect(slow: count)
                }
                urls.replaceSubrange(..<Self.batch, with: fresh)
            }
            return sums.map { $0 * 1e6 / Double(10 * Self.batch) }
        }

        /// Waits until the cache counts so many jobs.
        private func expect(fast: Int = 0, slow: Int) throws {
            let end = monotonicSeconds() + 10
            while true {
                let counts = cache.queueCounts
                if counts.fastWaiting == fast, counts.slowWaiting == slow { return }
                guard monotonicSeconds() < end else { throw BenchError("not \(fast) and \(slow) wait, but \(counts)") }
            }
        }
    }
}
