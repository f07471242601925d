import ArgumentParser
import Foundation

/// The benchmark program, which compares Dipper with its peers and keeps the figures in RESULTS.md.
@main
struct DipperBench: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dipper-bench",
        abstract: "Compares Dipper with its peers, side by side in one run, and writes RESULTS.md.",
        discussion: "Comparisons: "
            + Compare.comparisons.map { "\($0.name) (\($0.title.lowercasedFirst))" }.joined(separator: ", ")
            + ".",
        subcommands: [
            Compare.self, WriteChild.self, PrefetchChild.self, LinkChild.self, ThroughputChild.self,
            PhotographsChild.self, ScrollingChild.self, AnimationChild.self,
        ],
        defaultSubcommand: Compare.self)
}

struct Compare: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Runs all comparisons, or those named.")

    static let comparisons: [any Comparison] = [
        MemoryHit(), SchedulerOperations(), DiskEntries(), Opening(), Fetching(), PeakMemory(), Layouts(),
        LinkLoad(), Revalidation(), Decoding(), Resizing(), Processing(), ImageHit(), Photographs(), Animating(),
        Scrolling(),
    ]

    @Argument(help: "Run these comparisons only, and leave the other sections of RESULTS.md as they are.")
    var names: [String] = []

    @Option(help: "The folder of the benchmark package.")
    var folder = "."

    @Option(help: "Rounds of each comparison; the default differs from one to the next.")
    var rounds: Int?

    @Option(
        parsing: .upToNextOption,
        help: ArgumentHelp(
            "Measure these parts of the comparisons only, and leave RESULTS.md as it is.",
            discussion: "The parts of `link`: \(LinkLoad.Part.allCases.map(\.rawValue).joined(separator: ", "))."))
    var only: [String] = []

    @Option(help: "The congestion control of servers behind a shaped link: one that the kernel has.")
    var congestion = "cubic"

    func validate() throws {
        for name in names where !Self.comparisons.contains(where: { $0.name == name }) {
            throw ValidationError("There is no comparison called \(name).")
        }
        for part in only where LinkLoad.Part(rawValue: part) == nil {
            throw ValidationError("There is no part called \(part).")
        }
        guard FileManager.default.fileExists(atPath: folder + "/peers/curl_loop.c") else {
            throw ValidationError("\(folder) is not the folder of the benchmark package; see --folder.")
        }
    }

    func run() async throws {
        CleanUp.installSignalHandlers()
        defer { CleanUp.all() }
        let bench = try Bench(
            package: URL(fileURLWithPath: folder, isDirectory: true), rounds: rounds, parts: only,
            congestion: congestion)
        var report = Report(file: bench.package.appendingPathComponent("RESULTS.md"))
        var missed = 0
        for comparison in Self.comparisons where names.isEmpty || names.contains(comparison.name) {
            say("\n# \(comparison.title)")
            let tables = try await comparison.run(bench)
            for table in tables { say(table.markdown) }
            missed += tables.flatMap(\.checks).count { !$0.isMet }
            guard only.isEmpty else { continue }
            report.set(comparison, tables)
            try report.write(order: Self.comparisons.map(\.title))
        }
        say(missed == 0 ? "\nEvery target is met." : "\nTargets missed: \(missed).")
    }
}

extension String {
    var lowercasedFirst: String { prefix(1).lowercased() + dropFirst() }
}
