import DipperData
import Foundation

/// The comparison of writing entries to disk and reading them back, through the public calls.
struct DiskEntries: Comparison {
    let name = "disk"
    let title = "Disk hit and write"

    static let ours = "DataCache"
    static let oursNotKept = "DataCache, memory tier off"
    static let plain = "plain files"
    static let plainKept = "plain files, bodies kept"
    static let python = "Python diskcache"

    private struct Setting {
        let name: String
        let size: Int
        let count: Int
        /// The target for hits, as a ratio to plain files; `nil` for a setting that is for information.
        var hit: Double?
        /// The target for writes, as a ratio to plain files; `nil` for a setting that is for information.
        var write: Double?
    }

    private static let settings = [
        Setting(name: "500 B", size: 500, count: 4_000, hit: 1.3),
        Setting(name: "4 KB", size: 4_096, count: 4_000, hit: 1.3, write: 1.5),
        Setting(name: "256 KB", size: 256 << 10, count: 100, hit: 1.2, write: 1.5),
    ]

    func run(_ bench: Bench) async throws -> [Table] {
        let python = bench.isQuick ? nil : try bench.python()
        let disk = try DiskFolder(bench)
        defer { disk.end() }
        var writes = Figures()
        var reads = Figures()
        for setting in Self.settings {
            let load = try DiskLoad(disk, bench, python: python, size: setting.size, count: setting.count)
            try await writes.measure(
                setting.name, rounds: bench.rounds(9, quick: 1),
                [
                    Competitor(name: Self.ours) { try await load.writeOurs() },
                    Competitor(name: Self.plain) { try load.writePlain() },
                ] + (python == nil ? [] : [Competitor(name: Self.python) { try load.python("write") }]))
            try await reads.measure(
                setting.name, rounds: bench.rounds(15, quick: 9),
                [
                    Competitor(name: Self.ours) { try load.readOurs() },
                    Competitor(name: Self.plainKept) { try load.readPlain(keeping: true) },
                    Competitor(name: Self.oursNotKept) { try load.readOursWithoutMemory() },
                    Competitor(name: Self.plain) { try load.readPlain(keeping: false) },
                ] + (python == nil ? [] : [Competitor(name: Self.python) { try load.python("read") }]))
            await load.end()
        }
        let read = readTable(reads, disk.remark)
        return bench.isQuick ? [read] : [read, writeTable(writes, disk.remark), try await SyncCounts.table(disk)]
    }

    private func readTable(_ figures: Figures, _ remark: String) -> Table {
        var table = Table(
            "Hit",
            says:
                "`readData(for: key)` from a cold memory tier, each entry once, against open, fstat, read and close. "
                + "Like is held against like: our memory tier keeps every body it is given, so the peer keeps its "
                + "bodies too; with our memory tier off, neither keeps any.",
            unit: "µs per hit",
            competitors: [Self.ours, Self.plainKept, Self.oursNotKept, Self.plain, Self.python],
            settings: Self.settings.map(\.name), figures: figures)
        for setting in Self.settings {
            table.checks += [
                Check(
                    "hit ÷ plain files, bodies kept, \(setting.name)",
                    figures.ratio(Self.ours, Self.plainKept, setting.name), .atMost, setting.hit),
                Check(
                    "hit ÷ plain files, none kept, \(setting.name)",
                    figures.ratio(Self.oursNotKept, Self.plain, setting.name), .atMost, setting.hit),
            ]
        }
        table.remarks = [remark]
        return table
    }

    private func writeTable(_ figures: Figures, _ remark: String) -> Table {
        var table = Table(
            "Write",
            says:
                "`addData` of new entries and `synchronize()` at the end, against a file written beside and "
                + "renamed; the device is idle at the start of each turn.",
            unit: "µs per write", competitors: [Self.ours, Self.plain, Self.python],
            settings: Self.settings.map(\.name), figures: figures)
        for setting in Self.settings {
            table.checks.append(
                Check(
                    "write ÷ plain files, \(setting.name)",
                    figures.ratio(Self.ours, Self.plain, setting.name), .atMost, setting.write))
        }
        table.remarks = [remark]
        return table
    }
}
