import ArgumentParser
import Dipper
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
            PhotographsChild.self, ScrollingChild.self, AnimationChild.self, ScaleChild.self, IsolationChild.self,
            ArrivingChild.self,
        ],
        defaultSubcommand: Compare.self)

    static func main() async {
        ImageCache.runDecoderIfAsked(codecs: .bench)
        await main(nil)
    }
}

struct Compare: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Runs all comparisons, or those named.")

    static let comparisons: [any Comparison] = [
        MemoryHit(), ImageHit(), Evicting(), QueuedCalls(), DiskEntries(), Opening(), StoreWaits(), Fetching(),
        Revalidation(), Observing(),
        PeakMemory(),
        LinkLoad(), LinkThroughput(), Decoding(), Isolating(), FormatTools(), Resizing(), Processing(), Photographs(),
        Arriving(),
        Animating(), MovingPNG(), Scrolling(), Scaling(), Serving(),
    ]
    /// The comparisons of a quick run.
    private static let quick: Set = [
        "memory", "imagehit", "evict", "queued", "disk", "fetch", "revalidate", "observe", "link",
    ]

    @Argument(help: "Run these comparisons only, and leave the other sections of RESULTS.md as they are.")
    var names: [String] = []

    @Option(help: "The folder of the benchmark package.")
    var folder = "."

    @Option(help: "Rounds of each comparison; the default differs from one to the next.")
    var rounds: Int?

    @Flag(help: "Measure the most important ratios in two minutes, and leave RESULTS.md as it is.")
    var quick = false

    func validate() throws {
        for name in names where !Self.comparisons.contains(where: { $0.name == name }) {
            throw ValidationError("There is no comparison called \(name).")
        }
        if quick, let name = names.first(where: { !Self.quick.contains($0) }) {
            throw ValidationError("A quick run has no comparison called \(name).")
        }
        guard FileManager.default.fileExists(atPath: folder + "/peers/curl_loop.c") else {
            throw ValidationError("\(folder) is not the folder of the benchmark package; see --folder.")
        }
    }

    func run() async throws {
        CleanUp.installSignalHandlers()
        defer { CleanUp.all() }
        let bench = try Bench(
            package: URL(fileURLWithPath: folder, isDirectory: true), rounds: rounds, isQuick: quick)
        let last = try History(bench)
        let version = try latestVersion(bench)
        let load = try await loadAtRest()
        // A run of all comparisons starts the file anew.
        var report = Report(bench, keepsOthers: !names.isEmpty)
        var now = last
        var measured: [(comparison: String, checks: [Check])] = []
        var failures: [String] = []
        for comparison in Self.comparisons {
            guard names.isEmpty ? !quick || Self.quick.contains(comparison.name) : names.contains(comparison.name)
            else { continue }
            say("\n# \(comparison.title)")
            let start = monotonicSeconds()
            var tables: [Table] = []
            var problem: String?
            do {
                tables = try await comparison.run(bench)
                for table in tables { say(table.markdown) }
            } catch let reason as Unsuitable {
                problem = "Not measured: \(reason)."
            } catch {
                problem = "Not measured: \(error)."
                failures.append(comparison.name)
            }
            if let problem { say(problem) }
            say("(\((monotonicSeconds() - start).short) s)")
            measured.append((comparison.name, tables.flatMap(\.checks)))
            now.set(comparison.name, tables.flatMap(\.checks), of: version)
            guard !quick else { continue }
            report.set(comparison, tables, problem)
            try report.write(Summary(now), order: Self.comparisons.map(\.title))
            try now.write(bench)
        }
        say(last.table(of: measured).markdown)
        let missing = names.isEmpty && !quick ? Summary(now).missing : []
        if !missing.isEmpty { say("Without a figure for the summary: \(missing.joined(separator: "; ")).") }
        if load > 1 {
            say("Other programs were running (load average \(load) at the start): these figures are not reliable.\n")
        }
        guard !failures.isEmpty else { return }
        say("Could not be measured: \(failures.joined(separator: ", ")).")
        throw ExitCode.failure
    }

    /// Returns the load average. Waits at most two minutes for it to fall: the compiler has just been running.
    private func loadAtRest() async throws -> Double {
        for _ in 0..<24 where Machine.load.flatMap({ Double($0) }) ?? 0 > 1 { try await Task.sleep(for: .seconds(5)) }
        return Machine.load.flatMap { Double($0) } ?? 0
    }
}

extension String {
    var lowercasedFirst: String { prefix(1).lowercased() + dropFirst() }
}
