import Foundation

/// The values of the targets, by comparison. Those of the last full run are kept in ratios.json.
struct Ratios {
    private static let title = "This run beside the last full one"
    private var checks: [(name: String, check: Check)] = []
    private var values: [String: [String: Double]] = [:]

    init() {}

    /// Reads the values of the last full run.
    init(_ bench: Bench) {
        guard let data = try? Data(contentsOf: Self.file(bench)) else { return }
        values = (try? JSONDecoder().decode([String: [String: Double]].self, from: data)) ?? [:]
    }

    private static func file(_ bench: Bench) -> URL { bench.package.appendingPathComponent("ratios.json") }

    mutating func set(_ name: String, _ new: [Check]) {
        checks += new.map { (name, $0) }
        values[name] = Dictionary(
            new.filter(\.value.isFinite).map { ($0.what, ($0.value * 1_000).rounded() / 1_000) },
            uniquingKeysWith: { $1 })
    }

    func write(_ bench: Bench) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        try (encoder.encode(values) + Data("\n".utf8)).write(to: Self.file(bench))
    }

    /// Returns a table of all targets beside their values in the last full run. Ratios that are more than a tenth worse
    /// are marked; absolute figures belong to the machine and the day and are never marked.
    func summary(_ last: Ratios) -> Table {
        var worse = 0
        let rows = checks.map { name, check in
            let before = last.values[name]?[check.what]
            var remarks = check.isMet ? [] : ["missed"]
            if let before, before > 0, check.value > 0, check.isRatio {
                let change = check.bound == .atMost ? check.value / before - 1 : before / check.value - 1
                if change > 0.1 {
                    worse += 1
                    remarks.append("**\(Int((change * 100).rounded())) % worse**")
                }
            }
            return [
                "\(name): \(check.what)", check.value.short + check.unit, before.map { $0.short + check.unit } ?? "–",
                check.wanted, remarks.joined(separator: ", "),
            ]
        }
        var table = Table(
            Self.title, says: "", header: ["target", "now", "last full run", "wanted", ""], rows: rows)
        let missed = checks.count { !$0.check.isMet }
        table.remarks = [
            "Targets missed: \(missed) of \(checks.count). Ratios more than 10 % worse than in the last full run: "
                + "\(worse)."
        ]
        return table
    }
}
