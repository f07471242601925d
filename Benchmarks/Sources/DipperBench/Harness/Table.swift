/// A target, the measured value, and whether the value meets the target.
struct Check {
    enum Bound: String, Codable {
        case atMost = "≤"
        case atLeast = "≥"
    }

    static let times = " ×"
    let what: String
    let value: Double
    let bound: Bound
    /// The target; `nil` for a figure that is for information.
    let limit: Double?
    /// The text after the value, such as ` ×` or ` µs`.
    let unit: String

    init(_ what: String, _ value: Double, _ bound: Bound, _ limit: Double?, _ unit: String = Check.times) {
        self.what = what
        self.value = value
        self.bound = bound
        self.limit = limit
        self.unit = unit
    }

    var isMet: Bool {
        guard let limit else { return true }
        return bound == .atMost ? value <= limit : value >= limit
    }

    /// Whether the value is a ratio, which means something on another machine.
    var isRatio: Bool { unit == Self.times }

    var wanted: String { limit.map { "\(bound.rawValue) \($0.short)\(unit)" } ?? "–" }

    var cells: [String] {
        [what, value.short + unit, wanted, limit == nil ? "" : isMet ? "met" : "**missed**"]
    }
}

/// A table of medians by competitor and setting, with the targets.
struct Table {
    let title: String
    /// A description of the comparison.
    let says: String
    var rows: [[String]]
    var checks: [Check] = []
    var remarks: [String] = []

    /// Creates a table from rows of text.
    /// - Parameter header: The first row; its first cell names the unit.
    init(_ title: String, says: String, header: [String], rows: [[String]]) {
        self.title = title
        self.says = says
        self.rows = [header] + rows
    }

    /// Creates a table with a row for each competitor that has a figure, and a column for each setting.
    init(
        _ title: String, says: String, unit: String, competitors: [String], settings: [String],
        figures: Figures
    ) {
        self.init(
            title, says: says, header: [unit] + settings,
            rows: competitors.map { name in [name] + settings.map { figures[name, $0].short } }
                .filter { $0.dropFirst().contains { $0 != Double.nan.short } })
    }

    var markdown: String {
        var text = "\n### \(title)\n\n\(says.isEmpty ? "" : says + "\n\n")" + Self.grid(rows)
        if !checks.isEmpty {
            text += "\n" + Self.grid([["target", "measured", "wanted", ""]] + checks.map(\.cells))
        }
        for remark in remarks { text += "\n\(remark)\n" }
        return text
    }

    private static func grid(_ rows: [[String]]) -> String {
        guard let header = rows.first else { return "" }
        let widths = header.indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
        func line(_ cells: [String]) -> String {
            let padded = zip(cells, widths).enumerated().map { column, cell in
                let padding = String(repeating: " ", count: cell.1 - cell.0.count)
                return column == 0 ? cell.0 + padding : padding + cell.0
            }
            return "| " + padded.joined(separator: " | ") + " |\n"
        }
        let rule = widths.enumerated().map {
            $0 == 0 ? String(repeating: "-", count: $1) : String(repeating: "-", count: max(1, $1 - 1)) + ":"
        }
        return line(header) + "| " + rule.joined(separator: " | ") + " |\n"
            + rows.dropFirst().map(line).joined()
    }
}
