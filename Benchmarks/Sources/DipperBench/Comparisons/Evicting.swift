import DipperData
import Foundation

/// The comparison of the orders in which entries leave memory.
struct Evicting: Comparison {
    let name = "evict"
    let title = "Who leaves memory"

    private static let adaptive = "adaptive"
    private static let recency = "least recently used"
    private static let frequency = "least frequently used"

    func run(_ bench: Bench) async throws -> [Table] {
        var figures = Figures()
        var worst = 0.0
        for trace in Trace.all + Trace.unsuitable {
            figures[Self.recency, trace.name] = try await Self.misses(.leastRecentlyUsed, trace)
            figures[Self.frequency, trace.name] = try await Self.misses(.leastFrequentlyUsed, trace)
            figures[Self.adaptive, trace.name] = try await Self.misses(.adaptive, trace)
            let ratio = figures.ratio(Self.adaptive, Self.recency, trace.name)
            if Trace.all.contains(where: { $0.name == trace.name }) { worst = max(worst, ratio) }
            say("  \(trace.name): \(ratio.short)")
        }
        var table = Table(
            "Misses of every hundred requests",
            says:
                "A program asks for entries one after the other, and adds those that memory does not have: "
                + "`readData(for: key)` and `addData`. The traces are made by models with fixed seeds. The last two suit "
                + "the order of use alone, and do not count in the targets.",
            header: ["", Self.adaptive, Self.recency, Self.frequency, "adaptive ÷ LRU"],
            rows: (Trace.all + Trace.unsuitable).map { trace in
                [trace.name]
                    + [Self.adaptive, Self.recency, Self.frequency].map { figures[$0, trace.name].short }
                    + [figures.ratio(Self.adaptive, Self.recency, trace.name).short]
            })
        func check(_ trace: Trace, _ limit: Double) {
            table.checks.append(
                Check(
                    "misses ÷ LRU, \(trace.name)", figures.ratio(Self.adaptive, Self.recency, trace.name), .atMost,
                    limit))
        }
        check(.zipf(room: 500), 0.87)
        check(.feed(room: 500), 0.97)
        table.checks.append(Check("misses ÷ LRU, the worst trace", worst, .atMost, 1.03))
        return [table]
    }

    /// Returns how many of a hundred requests memory cannot answer.
    private static func misses(_ order: EvictionOrder, _ trace: Trace) async throws -> Double {
        var configuration = DataCache.Configuration()
        configuration.evictionOrder = order
        // Each entry costs its bytes and some hundreds more, which must not count beside sizes.
        let unit = trace.sizes == nil ? 1 : 2_048
        if trace.sizes == nil {
            configuration.memoryCountLimit = trace.room
        } else {
            configuration.memoryLimit = trace.room * unit
        }
        let cache = DataCache(configuration)
        let keys = (0...(trace.keys.max() ?? 0)).map { CacheKey("entry \($0)") }
        var misses = 0
        for key in trace.keys where cache.readData(for: keys[key]) == nil {
            misses += 1
            try cache.addData(Data(count: trace.size(key) * unit), for: keys[key])
        }
        await cache.shutdown()
        return Double(misses) / Double(trace.keys.count) * 100
    }
}
