import Foundation

/// The measurement of what grows with the number of entries, calls and processes.
struct Scaling: Comparison {
    let name = "scale"
    let title = "At scale"

    private static let counts = [10_000, 100_000, 1_000_000]
    private static let processes = [1, 2, 4, 8]

    func run(_ bench: Bench) async throws -> [Table] {
        let disk = try DiskFolder(bench)
        defer { disk.end() }
        var columns: [[Double]] = []
        var shared = ""
        for count in Self.counts {
            let folder = try disk.make("scale-\(count)")
            if count == 100_000 { shared = folder }
            let filled = try Self.child("fill", count, folder, 2)
            disk.settle()
            columns.append(
                filled + (try Self.child("read", count, folder, 3)) + (try Self.child("memory", count, nil, 2))
                    + (try Self.child("queue", count, nil, 2)))
        }
        let names = [
            "write to disk, µs an entry", "files, bytes an entry", "open and first hit, ms", "hit on disk, µs",
            "process that reads the disk, MB", "hit in memory, ns", "memory, bytes an entry", "prefetch queued, µs",
            "prefetch queued, bytes",
        ]
        var table = Table(
            "By the number of entries or calls",
            says:
                "Entries of 400 bytes, each figure from a process of its own. Hits on disk are random, without room in "
                + "memory, files in the page cache; bytes are of the resident memory, with those of the bodies.",
            header: ["", "10,000", "100,000", "1,000,000"],
            rows: names.enumerated().map { row, name in [name] + columns.map { $0[row].short } })
        table.checks = [
            Check("hit on disk, 1,000,000 ÷ 10,000", columns[2][3] / columns[0][3], .atMost, nil),
            Check("hit in memory, 1,000,000 ÷ 10,000", columns[2][5] / columns[0][5], .atMost, nil),
            Check("prefetch queued, 1,000,000 ÷ 10,000", columns[2][7] / columns[0][7], .atMost, nil),
        ]
        table.remarks = [disk.remark]
        return [table, try await Self.sharing(shared)]
    }

    /// The rates of all processes together.
    private static func sharing(_ folder: String) async throws -> Table {
        var rows: [[String]] = [["hits on disk a second"], ["entries written a second"]]
        for count in Self.processes {
            for (row, work) in ["hits", "writes"].enumerated() {
                let begin = monotonicSeconds() + 1
                let rates = try await withThrowingTaskGroup(of: Double.self) { group in
                    for _ in 0..<count {
                        group.addTask {
                            try await onThread {
                                try Self.child(
                                    work, 100_000, folder, 1, "--begin", "\(begin)", "--end", "\(begin + 3)")[0]
                            }
                        }
                    }
                    var rates: [Double] = []
                    for try await rate in group { rates.append(rate) }
                    return rates
                }
                rows[row].append(rates.reduce(0, +).short)
            }
        }
        return Table(
            "By the number of processes that share a folder of 100,000 entries",
            says: "All processes together, three seconds; writes are grouped by 200.",
            header: [""] + processes.map { $0 == 1 ? "1 process" : "\($0) processes" }, rows: rows)
    }

    private static func child(_ work: String, _ count: Int, _ folder: String?, _ numbers: Int, _ more: String...) throws
        -> [Double]
    {
        let arguments =
            ["scale-child", "--work", work, "--count", "\(count)"] + (folder.map { ["--folder", $0] } ?? [])
        return try Command.run(Command.myself, arguments + more).numbers(numbers)
    }
}

/// Runs what blocks on a thread of its own.
private func onThread<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
    try await withCheckedThrowingContinuation { continuation in
        Thread { continuation.resume(with: Result { try body() }) }.start()
    }
}
