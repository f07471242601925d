import Foundation

/// The file RESULTS.md, with a section for each comparison; a run of all comparisons writes
/// it anew, others replace only their own sections.
struct Report {
    private let file: URL
    private var sections: [String: String] = [:]

    private static let introduction = """
        # Results

        Written by `dipper-bench`. Ours and the peers run in turns in one process or side by side, in release builds;
        figures are medians. Absolute figures belong to the machine and the day; what counts is the ratio.

        """

    init(_ bench: Bench, keepsOthers: Bool) {
        file = bench.package.appendingPathComponent("RESULTS.md")
        guard keepsOthers, let text = try? String(contentsOf: file, encoding: .utf8) else { return }
        var title: String?
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            if line.hasPrefix("## ") { title = String(line.dropFirst(3)) }
            if let title { sections[title, default: ""] += line + "\n" }
        }
    }

    mutating func set(_ comparison: any Comparison, _ tables: [Table], _ problem: String?) {
        sections[comparison.title] =
            "## \(comparison.title)\n\n\(Machine.facts)\n" + tables.map(\.markdown).joined()
            + (problem.map { "\n\($0)\n" } ?? "") + "\n"
    }

    func write(_ summary: Summary, order: [String]) throws {
        var text = Self.introduction + summary.markdown
        try Data(summary.svg.utf8).write(
            to: file.deletingLastPathComponent().appendingPathComponent(Summary.picture))
        for title in order {
            guard let section = sections[title] else { continue }
            text += "\n" + section.trimmingCharacters(in: .newlines) + "\n"
        }
        try Data(text.utf8).write(to: file)
    }
}

/// The machine that the figures are measured on.
enum Machine {
    static var facts: String {
        let date = Date.now.formatted(.iso8601.year().month().day())
        var facts = ["\(ProcessInfo.processInfo.activeProcessorCount) cores", processor, kernel, date]
        if let load { facts.append("load average \(load) when done") }
        if let commit { facts.append("commit \(commit)") }
        return "*\(facts.compactMap { $0 }.joined(separator: ", ")).*"
    }

    private static var kernel: String? {
        (try? String(contentsOfFile: "/proc/sys/kernel/osrelease", encoding: .utf8)).map {
            "Linux " + $0.trimmingCharacters(in: .whitespacesAndNewlines)
        }
    }

    /// The load average of the last minute. The benchmarks alone cause 1 to 2; more means that other programs ran.
    static var load: Substring? {
        (try? String(contentsOfFile: "/proc/loadavg", encoding: .utf8))?.split(separator: " ").first
    }

    private static var processor: String? {
        (try? String(contentsOfFile: "/proc/cpuinfo", encoding: .utf8))?.split(separator: "\n")
            .first { $0.hasPrefix("model name") }?.split(separator: ":", maxSplits: 1).last
            .map { $0.trimmingCharacters(in: .whitespaces) }
    }

    private static var commit: String? {
        try? Command.run("/usr/bin/env", ["git", "describe", "--always", "--dirty", "--exclude=*"]).output
            .trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// Returns a value of the `status` file of a process, in MB of 2^20 bytes.
    static func memory(_ name: String, of process: String = "self") throws -> Double {
        let lines = try String(contentsOfFile: "/proc/\(process)/status", encoding: .utf8).split(separator: "\n")
        guard let line = lines.first(where: { $0.hasPrefix(name + ":") }),
            let kilobytes = line.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap({
                Double($0)
            })
        else { throw BenchError("/proc/\(process)/status has no \(name)") }
        return kilobytes / 1_024
    }
}
