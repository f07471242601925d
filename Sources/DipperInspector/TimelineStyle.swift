import DipperData
import Foundation

/// The colours are those of Okabe and Ito, which colour-blind people can tell apart; shapes differ as well.
enum TimelineStyle {
    static let font =
        "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', Arial, sans-serif"
    static let ink = "#1f2328"
    static let quiet = "#59636e"
    static let grid = "#d8dee4"
    static let failure = "#b3093c"

    static func colour(_ queue: FetchQueue) -> String { queue == .fast ? "#0072b2" : "#e69f00" }
    static func pale(_ queue: FetchQueue) -> String { queue == .fast ? "#9cc9e3" : "#f3cf85" }
    /// Dark enough for text.
    static func text(_ queue: FetchQueue) -> String { queue == .fast ? "#00598c" : "#8f5f00" }

    static let patterns = FetchQueue.allCases.map { queue in
        """
        <pattern id="dipper-held-\(queue.rawValue)" width="5" height="5" patternUnits="userSpaceOnUse" \
        patternTransform="rotate(45)"><rect width="5" height="5" fill="#fff"/>\
        <rect width="1.8" height="5" fill="\(colour(queue))"/></pattern>
        """
    }.joined()
}

extension TimelineChart.Phase {
    func attributes(_ queue: FetchQueue) -> String {
        switch self {
        case .queued: "fill=\"\(TimelineStyle.pale(queue))\""
        case .looking: "fill=\"#8c959f\""
        case .transferring: "fill=\"\(TimelineStyle.colour(queue))\""
        case .paused: "fill=\"url(#dipper-held-\(queue.rawValue))\""
        case .parked:
            "fill=\"none\" stroke=\"\(TimelineStyle.text(queue))\" stroke-width=\"1\" stroke-dasharray=\"1.5 2\""
        }
    }

    var height: Double {
        switch self {
        case .queued: 0.16
        case .looking: 0.4
        case .transferring, .paused: 0.68
        case .parked: 0.5
        }
    }
}

struct MarkStyle {
    private enum Paint { case outlined, filled, line }

    let moment: TimelineChart.Moment
    let name: String
    /// In units of the shape's radius. The outline is closed; lines lead back over themselves.
    let corners: [(Double, Double)]
    let color: String
    private let paint: Paint

    private init(
        _ moment: TimelineChart.Moment, _ name: String, _ paint: Paint, _ corners: [(Double, Double)],
        _ color: String = TimelineStyle.ink
    ) {
        (self.moment, self.name, self.paint, self.corners, self.color) = (moment, name, paint, corners, color)
    }

    /// In the order in which they are drawn.
    static let all: [MarkStyle] = [
        Self(.promoted, "promoted to fast", .outlined, [(0, -1), (1, 0.9), (-1, 0.9)]),
        Self(.demoted, "demoted to slow", .outlined, [(0, 1), (1, -0.9), (-1, -0.9)]),
        Self(.answered(.network), "from the network", .filled, circle),
        Self(.answered(.provider), "from a provider", .outlined, [(-1, -0.9), (1, -0.9), (1, 0.9), (-1, 0.9)]),
        Self(.answered(.revalidated), "revalidated", .outlined, circle),
        Self(.answered(.stale), "stale", .outlined, square),
        Self(.answered(.shared), "from a shared tier", .filled, [(-1, -0.45), (1, -0.45), (1, 0.45), (-1, 0.45)]),
        Self(.answered(.disk), "from disk", .filled, square),
        Self(.answered(.memory), "from memory", .filled, [(0, -1), (1, 0), (0, 1), (-1, 0)]),
        Self(.cancelled, "cancelled", .line, [(-1, 0), (1, 0)], "#6f6f78"),
        Self(
            .failed, "failed", .line,
            [(-0.75, -0.75), (0.75, 0.75), (0, 0), (0.75, -0.75), (-0.75, 0.75), (0, 0)], TimelineStyle.failure),
        Self(.unfinished, "not ended", .line, [(0, -1), (1, 0), (0, 1), (1, 0)], TimelineStyle.quiet),
    ]

    private static let square: [(Double, Double)] = [(-0.75, -0.75), (0.75, -0.75), (0.75, 0.75), (-0.75, 0.75)]
    private static let circle = (0..<16).map { step -> (Double, Double) in
        let angle = Double(step) * Double.pi / 8
        return (0.85 * cos(angle), 0.85 * sin(angle))
    }

    var cssClass: String {
        if case .answered(let source) = moment { source.rawValue } else { "\(moment)" }
    }

    var attributes: String {
        switch paint {
        case .outlined: "fill=\"#fff\" stroke=\"\(color)\" stroke-width=\"1.4\""
        case .filled: "fill=\"\(color)\""
        case .line: "fill=\"none\" stroke=\"\(color)\" stroke-width=\"2.4\""
        }
    }
}

/// The positions of the picture's parts, in pixels.
struct TimelineLayout {
    static let width = 1_280.0
    static let margin = 24.0
    /// The time axis begins here; the rows' names are left of it.
    static let left = 246.0
    static let plotWidth = 996.0
    static let markRadius = 4.2

    let legendTop: Double
    let bandsTop: Double
    let rowsTop: Double
    let rowHeight: Double
    let rowsBottom: Double
    /// Whether the rows are high enough for names and for marks that have shapes.
    let isDetailed: Bool

    /// `hasNote`: the heading has a third line.
    init(rows: Int, hasNote: Bool) {
        legendTop = hasNote ? 100 : 78
        bandsTop = legendTop + 56
        rowsTop = bandsTop + 106
        isDetailed = rows <= 400
        // Rows get lower as their number grows, so that the picture never gets higher than about 6,000 pixels.
        rowHeight = rows <= 80 ? 18 : isDetailed ? 14 : min(6, 5_600 / Double(rows))
        rowsBottom = rowsTop + max(Double(rows) * rowHeight, 40)
    }

    var height: Double { rowsBottom + 36 }

    func y(_ row: Int) -> Double { rowsTop + Double(row) * rowHeight }
}

struct TimelineAxis {
    /// The units, each with its length and the shortest time that is told in it, in seconds.
    private static let units: [(name: String, length: Double, shortest: Double)] = [
        ("h", 3_600, 18_000), ("min", 60, 300), ("s", 1, 1), ("ms", 1e-3, 1e-3), ("µs", 1e-6, 0),
    ]

    private static func unit(for seconds: Double) -> (name: String, length: Double, shortest: Double) {
        units.first { seconds >= $0.shortest } ?? units[units.count - 1]
    }

    private let start: Duration
    /// In seconds; more than 0.
    private let span: Double

    init(start: Duration, end: Duration) {
        self.start = start
        span = max((end - start) / .seconds(1), 1e-4)
    }

    func x(_ time: Duration) -> Double {
        TimelineLayout.left + TimelineLayout.plotWidth * ((time - start) / .seconds(1)) / span
    }

    /// About `count` round times, in steps of 1, 2 or 5 times a power of ten of the unit.
    func ticks(_ count: Int = 10) -> [(x: Double, label: String)] {
        let unit = Self.unit(for: span)
        let rough = span / unit.length / Double(count)
        var power = 1.0
        while power * 10 <= rough { power *= 10 }
        while power > rough { power /= 10 }
        let step = power * (rough <= power ? 1 : rough <= 2 * power ? 2 : rough <= 5 * power ? 5 : 10)
        return (0...Int(span / unit.length / step + 1e-9)).map { index in
            let value = Double(index) * step
            let x = TimelineLayout.left + TimelineLayout.plotWidth * value * unit.length / span
            return (x, "\(SVGText.number(value)) \(unit.name)")
        }
    }

    /// A length of time with three digits.
    static func text(_ duration: Duration) -> String {
        let seconds = duration / .seconds(1)
        let unit = Self.unit(for: seconds)
        let value = seconds / unit.length
        let scale = value < 10 ? 100.0 : value < 100 ? 10 : 1
        return "\(SVGText.number((value * scale).rounded() / scale)) \(unit.name)"
    }
}
