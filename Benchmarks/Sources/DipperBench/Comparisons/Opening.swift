@testable import DipperData
import Foundation
import Logging

/// The comparison of opening a small and a large store and reading its total size.
struct Opening: Comparison {
    let name = "open"
    let title = "Opening a store"

    private static let tier = "DiskTier, opened, total asked for"
    private static let cache = "DataCache(configuration).diskSize"
    private static let few = "2,000 entries"
    private static let many = "200,000 entries"

    func run(_ bench: Bench) async throws -> [Table] {
        let disk = try DiskFolder(bench)
        defer { disk.end() }
        var folders: [String: String] = [:]
        for (setting, count) in [(Self.few, 2_000), (Self.many, 200_000)] {
            let folder = try disk.make("open-\(count)")
            try await Self.fill(folder, count)
            folders[setting] = folder
        }
        disk.settle()
        let counts = [Self.few: 2_000, Self.many: 200_000]
        var samples: [String: [Double]] = [:]
        // The two sizes take turns, like competitors.
        for round in 0...bench.rounds(21) {
            for setting in [Self.few, Self.many] {
                guard let folder = folders[setting], let count = counts[setting] else { continue }
                let tier = try await Self.openTier(folder, count)
                let cache = try await Self.openCache(folder, count)
                guard round > 0 else { continue }
                samples[Self.tier + setting, default: []].append(tier)
                samples[Self.cache + setting, default: []].append(cache)
            }
        }
        var figures = Figures()
        for name in [Self.tier, Self.cache] {
            for setting in [Self.few, Self.many] {
                figures[name, setting] = samples[name + setting]?.median ?? .nan
            }
        }
        return [table(figures, disk.remark)]
    }

    /// Fills an index with rows in transactions of 64, like the writer, so that the write-ahead log is as the writer
    /// leaves it. Every second row has a small record. Entries have no files, because opening reads none.
    private static func fill(_ folder: String, _ count: Int) async throws {
        let tier = makeTier(folder)
        var random = SeededGenerator(seed: 8)
        let record = random.bytes(400)
        let now = Date.now.timeIntervalSince1970
        let rows = (0..<count).map { number in
            let url = "https://images.example.com/photos/\(number)/thumbnail.jpg"
            return EntryIndex.Row(
                name: random.digestName(), key: url, url: url, size: number % 2 == 0 ? 400 : 20_000,
                stored: now,
                accessed: now, lifetime: Lifetime(expires: now + 604_800, accessExtension: nil),
                record: number % 2 == 0 ? record : nil)
        }
        guard let index = tier.opened.index else { throw BenchError("the index cannot be opened") }
        for start in stride(from: 0, to: count, by: 64) {
            try index.write(Array(rows[start..<min(start + 64, count)]), removing: [])
        }
        await tier.shutdown()
    }

    private static func makeTier(_ folder: String) -> DiskTier {
        DiskTier(.init(folder: folder), logger: Logger(label: "bench"), now: { Date() })
    }

    private static func openTier(_ folder: String, _ count: Int) async throws -> Double {
        let start = monotonicSeconds()
        let tier = makeTier(folder)
        let totals = tier.totals
        let time = monotonicSeconds() - start
        await tier.shutdown()
        guard totals.entries == count, totals.bytes == count / 2 * 20_400 else {
            throw BenchError("\(totals)")
        }
        return time * 1e3
    }

    private static func openCache(_ folder: String, _ count: Int) async throws -> Double {
        let start = monotonicSeconds()
        let cache = DataCache(DiskLoad.configuration(folder, memoryLimit: 1 << 20))
        let size = cache.diskSize
        let time = monotonicSeconds() - start
        await cache.shutdown()
        guard size == count / 2 * 20_400 else { throw BenchError("the size is \(size)") }
        return time * 1e3
    }

    private func table(_ figures: Figures, _ remark: String) -> Table {
        var table = Table(
            "Open and know the size",
            says: "From nothing to the total number of bytes, files in the page cache.",
            unit: "ms", competitors: [Self.tier, Self.cache], settings: [Self.few, Self.many],
            figures: figures)
        for name in [Self.tier, Self.cache] {
            table.checks += [
                Check("\(name), \(Self.many)", figures[name, Self.many], .atMost, 3, " ms"),
                Check(
                    "\(name), 200,000 ÷ 2,000", figures[name, Self.many] / figures[name, Self.few], .atMost,
                    1.25),
            ]
        }
        table.remarks = [remark, "Not growing: the larger store may take a quarter longer, for noise."]
        return table
    }
}
