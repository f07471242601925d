import Foundation

/// The comparison of slowQueue with fastQueue without urgent work: the cost of slowQueue's small receive windows.
struct LinkThroughput: Comparison {
    let name = "throughput"
    let title = "One queue alone"

    func run(_ bench: Bench) async throws -> [Table] {
        [try await onTheLink(bench), try await onALongLink(bench), try await onTheLoopback(bench)]
    }

    // MARK: Link of the urgent files

    private func onTheLink(_ bench: Bench) async throws -> Table {
        let shape = LinkLoad.shape
        let link = try ShapedLink(bench, shape)
        defer { link.end() }
        let server = try await LinkServer(bench, link, LinkLoad.files)
        defer { server.end() }
        let used = "share of the link", rate = "Mbit/s of bodies"
        var shares: [String: [Double]] = [:]
        var figures = Figures()
        var turns: [(setting: String, competitor: Competitor)] = []
        let versions = LinkServer.Version.allCases
        func add(_ setting: String, _ queue: String, _ version: LinkServer.Version, _ arguments: [String]) {
            let competitor = Competitor(name: queue) {
                try await link.settle()
                let files = try QueueFetch.run(arguments, queue, version.base, server.certificate) {
                    try link.runAtClient(Command.myself, $0)
                }
                let counts = try link.count()
                // The time runs from the first byte of the first answer to the last byte of the last answer.
                let first = files.first?.first ?? .nan
                let time = ((files.map(\.end).max() ?? .nan) - first) / 1_000
                shares[queue + setting, default: []].append(Double(counts.downBytes) * 8e-6 / shape.rate / time)
                return files.reduce(0) { $0 + $1.bytes } * 8e-6 / time
            }
            turns.append((setting, competitor))
        }
        func large(_ version: LinkServer.Version) -> String { "20 MB, \(version.rawValue)" }
        func small(_ version: LinkServer.Version) -> String { "150 × 60 KB, \(version.rawValue)" }
        for version in versions {
            for queue in [QueueFetch.slow, QueueFetch.fast] {
                add(large(version), queue, version, ["--folder", "large", "--count", "1"])
            }
            for queue in [QueueFetch.slow, QueueFetch.filling] {
                add(small(version), queue, version, ["--folder", "prefetch", "--count", "150", "--at-once"])
            }
        }
        try await figures.measure(rounds: bench.rounds(2), warmsUp: false, turns)
        let settings = versions.map(large) + versions.map(small)
        let rows = [QueueFetch.slow, QueueFetch.filling, QueueFetch.fast].flatMap { queue in
            [
                ["\(queue), \(rate)"] + settings.map { figures[queue, $0].short },
                ["\(queue), \(used)"] + settings.map { (shares[queue + $0]?.median ?? .nan).short },
            ]
        }
        var table = Table(
            "On the link of the urgent files",
            says: "From the first byte of the body to the last. The share counts IP packets, headers included, as the "
                + "link does. The small files go one after the other, so each waits for a round trip, or as many at "
                + "once as fill the link.",
            header: [""] + settings, rows: rows)
        for version in versions {
            let setting = large(version)
            table.checks += [
                Check(
                    "slow ÷ fast, \(setting)", figures.ratio(QueueFetch.slow, QueueFetch.fast, setting), .atLeast, 0.9),
                Check(
                    "share of the link, filling, \(small(version))",
                    shares[QueueFetch.filling + small(version)]?.median ?? .nan, .atLeast, 0.9),
                Check(
                    "share of the link, slow, \(setting)", shares[QueueFetch.slow + setting]?.median ?? .nan, .atLeast,
                    0.95),
            ]
        }
        return table
    }

    // MARK: Fast, long link

    private func onALongLink(_ bench: Bench) async throws -> Table {
        let shape = ShapedLink.Shape(rate: 200, roundTrip: 40, queue: 1 << 20)
        let link = try ShapedLink(bench, shape)
        defer { link.end() }
        let server = try await LinkServer(bench, link, LinkLoad.files)
        defer { server.end() }
        return try await FilesInARow(
            title: "Three files of 20 MB in a row on a fast, long link",
            says:
                "Mbit/s of each file, from asking for it to its last byte. Link: \(shape.description). The first windows "
                + "of a queue are a guess; later files show what it has learnt.",
            rounds: 2, times: 3, folder: "large", versions: LinkServer.Version.allCases,
            base: { $0.base }, certificate: server.certificate, limit: nil, settle: link.settle,
            run: { try link.runAtClient(Command.myself, $0) }
        ).measure(bench)
    }

    // MARK: Loopback

    private func onTheLoopback(_ bench: Bench) async throws -> Table {
        let server = try await WebServer(bench, files: 1, size: 20_000_000)
        defer { server.end() }
        return try await FilesInARow(
            title: "Ten files of 20 MB in a row on the loopback",
            says: "Mbit/s of each file, from asking for it to its last byte.",
            rounds: 9, times: 10, folder: ".", versions: [.http1], base: { _ in server.base }, certificate: nil,
            limit: 0.8, settle: {}, run: { try Command.run(Command.myself, $0) }
        ).measure(bench)
    }
}
