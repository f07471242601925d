@testable import DipperData
import Foundation
import Logging

/// The comparison of two layouts of the disk tier.
struct Layouts: Comparison {
    let name = "layouts"
    let title = "Two disk layouts"

    private static let files = "files are the truth"
    private static let filesOnly = "files are the truth, nothing inline"
    private static let index = "index is the truth"
    private static let all = [files, filesOnly, index]
    private static let settings: [(name: String, size: Int, count: Int)] = [
        ("500 B", 500, 4_000), ("4 KB", 4_096, 4_000), ("256 KB", 256 << 10, 100),
    ]

    func run(_ bench: Bench) async throws -> [Table] {
        let disk = try DiskFolder(bench)
        defer { disk.end() }
        var writes = Figures()
        var reads = Figures()
        var opens = Figures()
        var spaces = Figures()
        for (setting, size, count) in Self.settings {
            let load = try LayoutLoad(disk, size: size, count: count)
            func competitors(_ measure: @escaping (LayoutLoad.Layout) async throws -> Double) -> [Competitor] {
                zip(Self.all, LayoutLoad.Layout.allCases).map { name, layout in
                    Competitor(name: name) { try await measure(layout) }
                }
            }
            let rounds = bench.rounds(7)
            try await writes.measure(setting, rounds: rounds, competitors { try await load.write($0) })
            try await reads.measure(setting, rounds: rounds, competitors { try load.read($0) })
            try await opens.measure(setting, rounds: rounds, competitors { try await load.reopen($0) })
            for (name, layout) in zip(Self.all, LayoutLoad.Layout.allCases) {
                spaces[name, setting] = try await load.space(layout)
            }
            try await load.end()
        }
        func table(_ title: String, _ says: String, _ unit: String, _ figures: Figures) -> Table {
            Table(
                title, says: says, unit: unit, competitors: Self.all, settings: Self.settings.map(\.name),
                figures: figures)
        }
        var write = table(
            "Write",
            "The library's disk tier (one self-describing file per entry, small ones in SQLite), the same with small "
                + "ones in files too, and a prototype (a row per entry, small bodies in a table, others in files). "
                + "New entries, in transactions of 64.",
            "µs per entry", writes)
        write.remarks = [
            disk.remark,
            "The library's tier does more per entry than the prototype: staging, expirations, limits, and metadata "
                + "in the file as well.",
        ]
        return [
            write,
            table(
                "Read", "Each of the latest entries once, checked, from the page cache.", "µs per entry",
                reads),
            table("Open", "Open what the writes have left and know the total.", "ms", opens),
            table(
                "Space", "Blocks on the device divided by the entries, index included.", "bytes per entry",
                spaces),
        ]
    }
}
