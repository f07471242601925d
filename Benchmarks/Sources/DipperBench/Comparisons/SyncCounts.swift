import Foundation

/// The number of flushes that writing entries causes, counted by strace.
enum SyncCounts {
    static func table(_ disk: DiskFolder) async throws -> Table {
        let count = 4_000
        var table = Table(
            "Flushes",
            says:
                "fsync, fdatasync, msync and sync_file_range calls of a child process that writes \(count) entries.",
            header: ["calls", "entries", "flushes", "per entry"], rows: [])
        guard let strace = Command.find("strace") else {
            table.remarks = ["Not counted: strace is not installed."]
            return table
        }
        for (name, size) in [("4 KB", 4_096), ("500 B", 500)] {
            let folder = try disk.make("flushes")
            let log = folder + ".log"
            try Command.run(
                strace,
                [
                    "-f", "-o", log, "-e", "trace=fsync,fdatasync,msync,sync_file_range", Command.myself,
                    "write-child", "--into", folder, "--size", "\(size)", "--count", "\(count)",
                ])
            let lines = try String(contentsOfFile: log, encoding: .utf8).split(separator: "\n")
            let calls = lines.count { line in
                ["fsync(", "fdatasync(", "msync(", "sync_file_range("].contains { line.contains($0) }
            }
            let perEntry = Double(calls) / Double(count)
            table.rows.append([name, "\(count)", "\(calls)", String(format: "%.4f", perEntry)])
            // The remaining flushes are checkpoints of the index, one per some number of pages.
            table.checks.append(
                Check("flushes per 1,000 entries, \(name)", perEntry * 1_000, .atMost, 10, ""))
        }
        table.remarks = [
            "No flush belongs to an entry; what is counted are the index's checkpoints, one for some thousand pages."
        ]
        return table
    }
}
