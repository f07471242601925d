@testable import DipperData
import Foundation
import Logging

/// The stores of one setting of ``Layouts``, and measurements of them.
final class LayoutLoad {
    enum Layout: CaseIterable {
        case files, filesOnly, index
    }

    private let disk: DiskFolder
    private let size: Int
    private let count: Int
    private let bodies: [Data]
    private var folders: [Layout: String] = [:]
    private var tiers: [Layout: DiskTier] = [:]
    private var indexed: IndexedStore
    private var rounds: [Layout: Int] = [:]
    private var keys: [Layout: [CacheKey]] = [:]
    private var names: [String] = []
    private var random = SeededGenerator(seed: 10)

    init(_ disk: DiskFolder, size: Int, count: Int) throws {
        self.disk = disk
        self.size = size
        self.count = count
        var random = SeededGenerator(seed: 9)
        bodies = (0..<16).map { _ in random.bytes(size) }
        for layout in Layout.allCases { folders[layout] = try disk.make("layout-\(layout)") }
        indexed = try IndexedStore(root: folders[.index] ?? "")
        for layout in [Layout.files, .filesOnly] { tiers[layout] = try openTier(layout) }
    }

    private func openTier(_ layout: Layout) throws -> DiskTier {
        guard let folder = folders[layout] else { throw BenchError("no folder") }
        var options = DiskTier.Options(folder: folder)
        if layout == .filesOnly { options.inlineLimit = 0 }
        return DiskTier(options, logger: Logger(label: "bench"), now: { Date() })
    }

    private func tier(_ layout: Layout) throws -> DiskTier {
        guard let tier = tiers[layout] else { throw BenchError("no tier") }
        return tier
    }

    func end() async throws {
        for tier in tiers.values { await tier.shutdown() }
        try indexed.close()
        for folder in folders.values { try FileManager.default.removeItem(atPath: folder) }
        disk.settle()
    }

    /// Measures writing new entries, in µs per entry.
    func write(_ layout: Layout) async throws -> Double {
        rounds[layout, default: 0] += 1
        let texts = (0..<count).map { "https://images.example.com/photos/\(rounds[layout] ?? 0)/\($0)" }
        disk.settle()
        if layout == .index {
            names = texts.map { _ in random.digestName() }
            let entries = texts.enumerated().map { (name: names[$0], key: $1, body: bodies[$0 % 16]) }
            return try seconds { try indexed.write(entries) } * 1e6 / Double(count)
        }
        let tier = try tier(layout)
        let now = Date.now.timeIntervalSince1970
        let own = texts.map { CacheKey($0) }
        keys[layout] = own
        let records = own.enumerated().map { number, key in
            EntryRecord(
                key: key,
                value: StoredData(data: bodies[number % 16], info: EntryInfo(url: key.string, stored: now)),
                lifetime: Lifetime(expires: now + 604_800, accessExtension: nil))
        }
        return await seconds {
            for record in records { tier.write(record) }
            await tier.synchronize()
        } * 1e6 / Double(count)
    }

    /// Measures reading the latest entries, in µs per entry.
    func read(_ layout: Layout) throws -> Double {
        let time: Double
        if layout == .index {
            time = try seconds { for name in names { keep(try indexed.read(name)) } }
        } else {
            let tier = try tier(layout)
            time = try seconds {
                for key in keys[layout] ?? [] {
                    guard tier.entry(for: key)?.value.data.count == size else {
                        throw BenchError("\(key) is missing")
                    }
                }
            }
        }
        return time * 1e6 / Double(count)
    }

    /// Measures opening the store and reading its total, in milliseconds.
    func reopen(_ layout: Layout) async throws -> Double {
        let expected = (rounds[layout] ?? 0) * count
        let entries: Int
        let time: Double
        if layout == .index {
            try indexed.close()
            let start = monotonicSeconds()
            indexed = try IndexedStore(root: folders[.index] ?? "")
            entries = try indexed.totals().entries
            time = monotonicSeconds() - start
        } else {
            await (try tier(layout)).shutdown()
            let start = monotonicSeconds()
            let tier = try openTier(layout)
            entries = tier.totals.entries
            time = monotonicSeconds() - start
            tiers[layout] = tier
        }
        guard entries == expected else { throw BenchError("\(entries) entries of \(expected)") }
        return time * 1e3
    }

    /// Returns the bytes on the device per entry.
    func space(_ layout: Layout) async throws -> Double {
        _ = try await reopen(layout)
        disk.settle()
        return Double(DiskFolder.space(folders[layout] ?? "")) / Double((rounds[layout] ?? 0) * count)
    }
}
