/// The comparison of fetching files one after the other in slowQueue of one cache and in fastQueue of another.
struct FilesInARow {
    let title: String
    let says: String
    let rounds: Int
    /// The number of files in a row.
    let times: Int
    let folder: String
    let versions: [LinkServer.Version]
    let base: (LinkServer.Version) -> String
    let certificate: String?
    /// The target for slow ÷ fast over all files, a lower bound; `nil` for none.
    let limit: Double?
    /// A function called before each turn.
    let settle: () async throws -> Void
    /// A function that runs this program with arguments.
    let run: ([String]) throws -> Command.Output

    func measure(_ bench: Bench) async throws -> Table {
        var rates: [String: [[Double]]] = [:]
        // Every turn is a process of its own with cold connections: there is nothing to warm up.
        for _ in 1...bench.rounds(rounds) {
            for version in versions {
                for queue in [QueueFetch.slow, QueueFetch.fast] {
                    try await settle()
                    let arguments = ["--folder", folder, "--count", "1", "--times", "\(times)"]
                    let files = try QueueFetch.run(arguments, queue, base(version), certificate, run)
                    rates[queue + version.rawValue, default: []].append(files.map { $0.bytes * 8e-3 / $0.end })
                }
            }
        }
        typealias Column = (version: LinkServer.Version, number: Int)
        func rate(_ queue: String, _ column: Column) -> Double {
            // The last column is for all files together. They have the same size, so their rate is the harmonic mean.
            (rates[queue + column.version.rawValue] ?? []).map { files in
                column.number < times ? files[column.number] : Double(times) / files.reduce(0) { $0 + 1 / $1 }
            }.median
        }
        let columns: [Column] = versions.flatMap { version in
            [0, 1, times - 1, times].map { (version, $0) }
        }
        func heading(_ column: Column) -> String {
            column.version.rawValue + (column.number < times ? ", file \(column.number + 1)" : ", all")
        }
        func ratio(_ column: Column) -> Double { rate(QueueFetch.slow, column) / rate(QueueFetch.fast, column) }
        var table = Table(
            title, says: says, header: ["Mbit/s"] + columns.map(heading),
            rows: [QueueFetch.slow, QueueFetch.fast].map { queue in
                [queue] + columns.map { rate(queue, $0).short }
            } + [["slow ÷ fast"] + columns.map { ratio($0).short }])
        if let limit {
            table.checks = columns.filter { $0.number == times }.map {
                Check("slow ÷ fast, \(heading($0))", ratio($0), .atLeast, limit)
            }
        }
        return table
    }
}
