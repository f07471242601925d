import Foundation

/// The measurement of the process's peak memory during a long series of prefetches.
struct PeakMemory: Comparison {
    let name = "rss"
    let title = "Peak memory"

    func run(_ bench: Bench) async throws -> [Table] {
        let limit = 32
        let server = try await WebServer(bench, files: 500, size: 20_000)
        defer { server.end() }
        let disk = try DiskFolder(bench)
        defer { disk.end() }
        var samples: [[Double]] = []
        for round in 0..<bench.rounds(3) {
            let folder = try disk.make("rss-\(round)")
            let run = try Command.run(
                Command.myself,
                [
                    "prefetch-child", "--base", server.base, "--into", folder, "--count", "10000", "--files",
                    "500",
                    "--memory-limit", "\(limit << 20)",
                ]
            )
            samples.append(try run.numbers(5))
        }
        func median(_ column: Int) -> Double { samples.map { $0[column] }.median }
        var table = Table(
            "10,000 prefetches of 20 KB",
            says: "VmHWM of a child process with a memory limit of \(limit) MB and a directory.",
            header: ["", "median"],
            rows: [
                ["before the cache is made, MB", median(0).short],
                ["all queued, none started, MB", median(1).short],
                ["peak, MB", median(2).short], ["entries on disk in the end", median(3).short],
                ["prefetches per second", median(4).short],
            ])
        table.checks = [
            Check("peak", samples.map { $0[2] }.max() ?? .nan, .atMost, Double(limit + 40), " MB")
        ]
        table.remarks = [
            "The highest of \(samples.count) runs is held against the target. \(disk.remark)"
        ]
        return [table]
    }
}
