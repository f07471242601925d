import Foundation

/// The comparison of urgent work while prefetches fill a link.
struct LinkLoad: Comparison {
    private enum Load: String, CaseIterable {
        case none = "alone"
        case many = "under 150 × 60 KB"
        case one = "into one 20 MB"

        var files: String? {
            switch self {
            case .none: nil
            case .many: "prefetch:150"
            case .one: "large:1"
            }
        }
    }

    let name = "link"
    let title = "Urgent work under prefetch load"

    static let files = [
        LinkServer.Files(folder: "urgent", count: 20, size: 30_000),
        LinkServer.Files(folder: "prefetch", count: 150, size: 60_000),
        LinkServer.Files(folder: "large", count: 1, size: 20_000_000),
    ]
    static let shape = ShapedLink.Shape(rate: 20, roundTrip: 50, queue: 256 << 10)

    private static let urgent = "urgent:20"
    /// The milliseconds from requesting the prefetches to requesting the urgent files.
    private static let delay = 600
    private static let ours = "DataCache, two queues"
    private static let filling = "DataCache, .fillsLink(upTo: 6)"
    private static let queue = "DataCache, one queue"
    private static let curl = "curl --parallel-max 8"
    private static let chromium = "Chromium, fetch priority"

    func run(_ bench: Bench) async throws -> [Table] {
        let link = try ShapedLink(bench, Self.shape)
        defer { link.end() }
        let server = try await LinkServer(bench, link, Self.files)
        defer { server.end() }
        let chromium = bench.isQuick ? nil : Chromium(bench)
        var turns: [(setting: String, competitor: Competitor)] = []
        for version in LinkServer.Version.allCases {
            for load in Load.allCases {
                func add(_ name: String, _ measure: @escaping () async throws -> Double) {
                    let competitor = Competitor(name: name) {
                        try await link.settle()
                        return try await measure()
                    }
                    turns.append((Self.setting(version, load), competitor))
                }
                add(Self.ours) { try Self.cache(link, server, version, load) }
                if load == .many {
                    add(Self.filling) { try Self.cache(link, server, version, load, "--fills") }
                }
                guard !bench.isQuick else { continue }
                // Without prefetches two queues behave like one, and behind a single file there is no queue to wait in.
                if load == .many {
                    add(Self.queue) { try Self.cache(link, server, version, load, "--one-queue") }
                }
                if load != .one {
                    add(Self.curl) { try Self.curl(bench, link, server, version, load) }
                }
                if let chromium {
                    add(Self.chromium) {
                        try await chromium.measure(
                            link, server, base: version.base, load: load.files, urgent: Self.urgent,
                            size: 20 * 30_000, delay: Self.delay)
                    }
                }
            }
        }
        var figures = Figures()
        // Every turn is a process of its own with cold connections: there is nothing to warm up.
        try await figures.measure(rounds: bench.rounds(3), warmsUp: false, turns)
        var table = table(figures)
        if !bench.isQuick {
            if chromium != nil {
                table.checks += LinkServer.Version.allCases.map { version in
                    let alone = Self.setting(version, .none)
                    return Check(
                        "\(alone) ÷ Chromium alone", figures.ratio(Self.ours, Self.chromium, alone), .atMost, 0.85)
                }
            } else {
                table.remarks.append("Chromium is not installed.")
            }
        }
        return [table]
    }

    private static func setting(_ version: LinkServer.Version, _ load: Load) -> String {
        "\(version.rawValue), \(load.rawValue)"
    }

    private static func cache(
        _ link: ShapedLink, _ server: LinkServer, _ version: LinkServer.Version, _ load: Load, _ more: String...
    ) throws -> Double {
        var arguments = [
            "link-child", "--base", version.base, "--certificate", server.certificate, "--urgent", urgent, "--size",
            "30000", "--delay", "\(delay)",
        ]
        if let files = load.files { arguments += ["--load", files] }
        return try link.runAtClient(Command.myself, arguments + more).numbers(1)[0]
    }

    /// Measures the whole command, less the delay before the urgent files of the others: curl's list has them at its
    /// end.
    private static func curl(
        _ bench: Bench, _ link: ShapedLink, _ server: LinkServer, _ version: LinkServer.Version, _ load: Load
    ) throws -> Double {
        let list = bench.work.appendingPathComponent("link.curl")
        let lines = [load.files, urgent].compactMap { $0?.split(separator: ":") }.flatMap { files in
            (0..<(Int(files[1]) ?? 0)).map { "url = \"\(version.base)/\(files[0])/\($0)\"\noutput = /dev/null\n" }
        }
        try Data(lines.joined().utf8).write(to: list)
        let time = try seconds {
            _ = try link.runAtClient(
                Command.require("curl"),
                [
                    "-q", "-sS", "-f", "--cacert", server.certificate, "--parallel", "--parallel-max", "8", "-K",
                    list.path,
                ])
        }
        return time * 1_000 - (load == .none ? 0 : Double(delay))
    }

    private func table(_ figures: Figures) -> Table {
        let versions = LinkServer.Version.allCases
        var table = Table(
            "20 urgent files of 30 KB while prefetches run",
            says:
                "Milliseconds from asking for the urgent files to the end of the last one. The prefetches were asked "
                + "for \(Self.delay) ms before. Link: \(Self.shape.description); nginx, cubic. "
                + "Everything starts with cold connections to the server of the files. curl is timed as a command, "
                + "its start included.",
            unit: "ms", competitors: [Self.ours, Self.filling, Self.queue, Self.curl, Self.chromium],
            settings: versions.flatMap { version in Load.allCases.map { Self.setting(version, $0) } },
            figures: figures)
        table.checks = versions.flatMap { version in
            [Load.many, .one].map { load in
                let (setting, alone) = (Self.setting(version, load), Self.setting(version, .none))
                return Check(
                    "\(setting) ÷ alone", figures[Self.ours, setting] / figures[Self.ours, alone], .atMost, 1.1)
            } + [filling(version, figures)]
        }
        return table
    }

    private func filling(_ version: LinkServer.Version, _ figures: Figures) -> Check {
        let (many, alone) = (Self.setting(version, .many), Self.setting(version, .none))
        return Check(
            "\(many), filling ÷ alone", figures[Self.filling, many] / figures[Self.ours, alone], .atMost, 1.05)
    }
}
