import DipperData
import Foundation

/// The comparison of opening a small and a large store and reading its total size.
struct Opening: Comparison {
    let name = "open"
    let title = "Opening a store"

    private static let ours = "DataCache(configuration).diskSize"
    private static let settings = [(name: "2,000 entries", count: 2_000), (name: "200,000 entries", count: 200_000)]

    func run(_ bench: Bench) async throws -> [Table] {
        let disk = try DiskFolder(bench)
        defer { disk.end() }
        var turns: [(setting: String, competitor: Competitor)] = []
        for setting in Self.settings {
            let folder = try disk.make("open-\(setting.count)")
            let size = try await Self.fill(folder, setting.count)
            turns.append((setting.name, Competitor(name: Self.ours) { try await Self.open(folder, size) }))
        }
        disk.settle()
        var figures = Figures()
        try await figures.measure(rounds: bench.rounds(21), turns)
        let (few, many) = (figures[Self.ours, Self.settings[0].name], figures[Self.ours, Self.settings[1].name])
        var table = Table(
            "Open and know the size",
            says: "From nothing to the total number of bytes, files in the page cache; entries of 400 bytes.",
            unit: "ms", competitors: [Self.ours], settings: Self.settings.map(\.name), figures: figures)
        table.checks = [
            Check("open, 200,000 entries", many, .atMost, 3, " ms"),
            Check("open, 200,000 ÷ 2,000", many / few, .atMost, 1.25),
        ]
        table.remarks = [disk.remark, "Not growing: the larger store may take a quarter longer, for noise."]
        return [table]
    }

    /// Fills a store and returns its size.
    private static func fill(_ folder: String, _ count: Int) async throws -> Int {
        let cache = DataCache(DiskLoad.configuration(folder, memoryLimit: 1 << 20))
        var random = SeededGenerator(seed: 8)
        let body = random.bytes(400)
        for number in 0..<count {
            try cache.addData(body, for: CacheKey("https://images.example.com/photos/\(number)"))
            if number % 10_000 == 0 { await cache.synchronize() }
        }
        await cache.synchronize()
        let (written, size) = (cache.diskCount, cache.diskSize)
        await cache.shutdown()
        guard written == count else { throw BenchError("only \(written) of \(count) entries were written") }
        return size
    }

    private static func open(_ folder: String, _ expected: Int) async throws -> Double {
        let start = monotonicSeconds()
        let cache = DataCache(DiskLoad.configuration(folder, memoryLimit: 1 << 20))
        let size = cache.diskSize
        let time = monotonicSeconds() - start
        await cache.shutdown()
        guard size == expected else { throw BenchError("the size is \(size)") }
        return time * 1e3
    }
}
