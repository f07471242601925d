import Foundation

/// The values of the targets in each version of the library, newest first, in history.json.
struct History: Codable {
    struct Figure: Codable {
        let value: Double
        var bound: Check.Bound?
        var limit: Double?
        var unit: String?

        init(_ check: Check) {
            value = (check.value * 1_000).rounded() / 1_000
            (bound, limit) = (check.bound, check.limit)
            unit = check.isRatio ? nil : check.unit.trimmingCharacters(in: .whitespaces)
        }
    }

    private struct Version: Codable {
        let version: String
        var machine: String
        /// By comparison, and by what is measured.
        var figures: [String: [String: Figure]]
    }

    private var versions: [Version] = []

    init(_ bench: Bench) throws {
        guard let data = try? Data(contentsOf: Self.file(bench)) else { return }
        self = try JSONDecoder().decode(Self.self, from: data)
    }

    /// The figures of the newest version that has some for the comparison.
    func figures(of comparison: String) -> [String: Figure] {
        versions.lazy.compactMap { $0.figures[comparison] }.first ?? [:]
    }

    /// Puts the figures of a comparison in the place of earlier ones of the same version.
    mutating func set(_ comparison: String, _ checks: [Check], of version: String) {
        if versions.first?.version != version {
            versions.insert(Version(version: version, machine: "", figures: [:]), at: 0)
        }
        versions[0].machine = Machine.facts
        versions[0].figures[comparison] = Dictionary(
            checks.filter(\.value.isFinite).map { ($0.what, Figure($0)) }, uniquingKeysWith: { $1 })
    }

    func write(_ bench: Bench) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        try (encoder.encode(self) + Data("\n".utf8)).write(to: Self.file(bench))
    }

    private static func file(_ bench: Bench) -> URL { bench.package.appendingPathComponent("history.json") }

    /// Returns a table of all targets beside their values in the last full run. Ratios that are more than a tenth worse
    /// are marked; absolute figures belong to the machine and the day and are never marked.
    func table(of measured: [(comparison: String, checks: [Check])]) -> Table {
        var worse = 0
        let all = measured.flatMap { comparison, checks in checks.map { (comparison, $0) } }
        let rows = all.map { comparison, check in
            let before = figures(of: comparison)[check.what]?.value
            var remarks = check.isMet ? [] : ["missed"]
            if let before, before > 0, check.value > 0, check.isRatio {
                let change = check.bound == .atMost ? check.value / before - 1 : before / check.value - 1
                if change > 0.1 {
                    worse += 1
                    remarks.append("**\(Int((change * 100).rounded())) % worse**")
                }
            }
            return [
                "\(comparison): \(check.what)", check.value.short + check.unit,
                before.map { $0.short + check.unit } ?? "–", check.wanted, remarks.joined(separator: ", "),
            ]
        }
        var table = Table(
            "This run beside the last full one", says: "", header: ["target", "now", "last full run", "wanted", ""],
            rows: rows)
        table.remarks = [
            "Targets missed: \(all.count { !$0.1.isMet }) of \(all.count). Ratios more than 10 % worse than in the last "
                + "full run: \(worse)."
        ]
        return table
    }
}

/// The version that the change log has at its top.
func latestVersion(_ bench: Bench) throws -> String {
    let file = bench.package.deletingLastPathComponent().appendingPathComponent("CHANGELOG.md")
    let heading = try String(contentsOf: file, encoding: .utf8).split(separator: "\n").first { $0.hasPrefix("## ") }
    guard let heading else { throw BenchError("CHANGELOG.md has no version") }
    return String(heading.dropFirst(3))
}
