import Foundation

/// A competitor in a setting of a comparison.
struct Competitor {
    let name: String
    /// Runs once and returns the figure of that run, which leaves out preparations.
    let measure: () async throws -> Double
}

/// The medians of all competitors in all settings.
struct Figures {
    private var medians: [String: Double] = [:]

    subscript(_ name: String, _ setting: String) -> Double {
        get { medians[name + "\u{1F}" + setting] ?? .nan }
        set { medians[name + "\u{1F}" + setting] = newValue }
    }

    func ratio(_ a: String, _ b: String, _ setting: String) -> Double { self[a, setting] / self[b, setting] }

    /// Runs the competitors of a setting in turns (A B C A B C …), the first turn of each uncounted, and keeps the
    /// medians.
    mutating func measure(_ setting: String, rounds: Int, _ competitors: [Competitor]) async throws {
        try await measure(rounds: rounds, competitors.map { (setting, $0) })
    }

    /// Runs competitors of several settings in turns, for comparisons between settings, and keeps the medians.
    mutating func measure(
        rounds: Int, warmsUp: Bool = true, _ turns: [(setting: String, competitor: Competitor)]
    ) async throws {
        var samples = [[Double]](repeating: [], count: turns.count)
        for round in (warmsUp ? 0 : 1)...rounds {
            for (number, turn) in turns.enumerated() {
                let sample = try await turn.competitor.measure()
                if round > 0 { samples[number].append(sample) }
            }
        }
        for (turn, own) in zip(turns, samples) {
            self[turn.competitor.name, turn.setting] = own.median
            let (least, most) = (own.min() ?? .nan, own.max() ?? .nan)
            say("  \(turn.setting) · \(turn.competitor.name): \(own.median.short) (\(least.short) … \(most.short))")
        }
    }
}

extension [Double] {
    var median: Double {
        let sorted = sorted()
        guard !sorted.isEmpty else { return .nan }
        let middle = sorted.count / 2
        return sorted.count % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
    }
}

extension Double {
    /// The number with about three significant digits, two decimals at most; a dash if it is not finite.
    var short: String {
        guard isFinite else { return "–" }
        switch abs(self) {
        case 100...: return String(format: "%.0f", self)
        case 10...: return String(format: "%.1f", self)
        default: return String(format: "%.2f", self)
        }
    }
}
