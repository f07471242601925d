import DipperData

/// The look of a timeline's parts. The colours are those of Okabe and Ito, which colour-blind people can tell apart;
/// important parts differ in shape as well.
enum TimelineStyle {
    static let font =
        "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', Arial, sans-serif"
    static let ink = "#1f2328"
    static let quiet = "#59636e"
    static let grid = "#d8dee4"
    static let failure = "#b3093c"
    /// The colour of cancelled calls, which are no failures.
    static let taken = "#6f6f78"
    static let disk = "#8c959f"

    static func colour(_ queue: FetchQueue) -> String { queue == .fast ? "#0072b2" : "#e69f00" }
    static func pale(_ queue: FetchQueue) -> String { queue == .fast ? "#9cc9e3" : "#f3cf85" }
    /// Dark enough for text.
    static func text(_ queue: FetchQueue) -> String { queue == .fast ? "#00598c" : "#8f5f00" }

    /// Every combination is one path of the picture.
    static func attributes(_ phase: TimelineChart.Phase, _ queue: FetchQueue) -> String {
        switch phase {
        case .queued: "fill=\"\(pale(queue))\""
        case .looking: "fill=\"\(disk)\""
        case .transferring: "fill=\"\(colour(queue))\""
        case .paused: "fill=\"url(#dipper-held-\(queue.rawValue))\""
        case .parked: "fill=\"none\" stroke=\"\(text(queue))\" stroke-width=\"1\" stroke-dasharray=\"1.5 2\""
        }
    }

    /// The part of a row's height that a span takes.
    static func height(_ phase: TimelineChart.Phase) -> Double {
        switch phase {
        case .queued: 0.16
        case .looking: 0.4
        case .transferring, .paused: 0.68
        case .parked: 0.5
        }
    }

    static let patterns = FetchQueue.allCases.map { queue in
        """
        <pattern id="dipper-held-\(queue.rawValue)" width="5" height="5" patternUnits="userSpaceOnUse" \
        patternTransform="rotate(45)"><rect width="5" height="5" fill="#fff"/>\
        <rect width="1.8" height="5" fill="\(colour(queue))"/></pattern>
        """
    }.joined()

    static func attributes(_ moment: TimelineChart.Moment) -> String {
        switch moment {
        case .promoted, .demoted: "fill=\"#fff\" stroke=\"\(ink)\" stroke-width=\"1.2\""
        case .answered(.revalidated), .answered(.stale):
            "fill=\"#fff\" stroke=\"\(ink)\" stroke-width=\"1.4\""
        case .answered: "fill=\"\(ink)\""
        case .cancelled: "fill=\"none\" stroke=\"\(taken)\" stroke-width=\"2.4\""
        case .failed: "fill=\"none\" stroke=\"\(failure)\" stroke-width=\"2.4\""
        }
    }

    /// Shapes can be told apart without colour.
    static func draw(
        _ moment: TimelineChart.Moment, _ x: Double, _ y: Double, _ radius: Double, into path: inout SVGPath
    ) {
        switch moment {
        case .promoted:
            path.polygon([(x, y - radius), (x + radius, y + radius * 0.9), (x - radius, y + radius * 0.9)])
        case .demoted:
            path.polygon([(x, y + radius), (x + radius, y - radius * 0.9), (x - radius, y - radius * 0.9)])
        case .answered(.network), .answered(.revalidated):
            path.circle(x, y, radius * 0.85)
        case .answered(.disk), .answered(.stale):
            path.rectangle(x - radius * 0.75, y - radius * 0.75, radius * 1.5, radius * 1.5)
        case .answered(.shared):
            path.rectangle(x - radius, y - radius * 0.45, radius * 2, radius * 0.9)
        case .answered(.memory):
            path.polygon([(x, y - radius), (x + radius, y), (x, y + radius), (x - radius, y)])
        case .cancelled:
            path.line(x - radius, y, toX: x + radius, y: y)
        case .failed:
            path.cross(x, y, radius * 0.75)
        }
    }

    /// For marks that are too small for a shape.
    static func colour(_ moment: TimelineChart.Moment) -> String {
        switch moment {
        case .failed: failure
        case .cancelled: taken
        default: ink
        }
    }

    static func name(_ moment: TimelineChart.Moment) -> String {
        switch moment {
        case .promoted: "promoted to fast"
        case .demoted: "demoted to slow"
        case .answered(.network): "from the network"
        case .answered(.disk): "from disk"
        case .answered(.shared): "from a shared tier"
        case .answered(.memory): "from memory"
        case .answered(.revalidated): "revalidated"
        case .answered(.stale): "stale"
        case .cancelled: "cancelled"
        case .failed: "failed"
        }
    }

    static let openAttributes = "fill=\"none\" stroke=\"\(quiet)\" stroke-width=\"1.6\""

    static func drawOpen(_ x: Double, _ y: Double, _ radius: Double, into path: inout SVGPath) {
        path.line(x, y - radius, toX: x + radius, y: y)
        path.line(x + radius, y, toX: x, y: y + radius)
    }
}

/// The positions of the picture's parts, in pixels.
struct TimelineLayout {
    static let width = 1_280.0
    static let margin = 24.0
    /// The time axis begins here; the rows' names are left of it.
    static let left = 246.0
    static let plotWidth = 996.0
    static let bandsHeight = 78.0

    let legendTop: Double
    let bandsTop: Double
    let rowsTop: Double
    let rowHeight: Double
    let rowsBottom: Double
    let showsLabels: Bool

    /// `hasNote`: the heading has a third line.
    init(rows: Int, hasNote: Bool) {
        legendTop = hasNote ? 100 : 78
        bandsTop = legendTop + 56
        rowsTop = bandsTop + Self.bandsHeight + 28
        showsLabels = rows <= 400
        // Rows get lower as their number grows, so that the picture never gets higher than about 6,000 pixels.
        rowHeight =
            switch rows {
            case ...80: 18
            case ...400: 14
            case ...2_000: min(6, 5_600 / Double(rows))
            default: min(1, 5_600 / Double(rows))
            }
        rowsBottom = rowsTop + max(Double(rows) * rowHeight, 40)
    }

    var height: Double { rowsBottom + 36 }

    func y(_ row: Int) -> Double { rowsTop + Double(row) * rowHeight }

    /// Half the size of a mark. At less than 2 pixels, shapes cannot be told apart.
    var markRadius: Double { min(4.2, rowHeight * 0.3) }
    var showsShapes: Bool { markRadius >= 2 }
}

struct TimelineAxis {
    private enum Unit: String {
        case microseconds = "µs"
        case milliseconds = "ms"
        case seconds = "s"
        case minutes = "min"
        case hours = "h"

        /// In seconds.
        var length: Double {
            switch self {
            case .microseconds: 1e-6
            case .milliseconds: 1e-3
            case .seconds: 1
            case .minutes: 60
            case .hours: 3_600
            }
        }
    }

    private let start: Duration
    /// In seconds; more than 0.
    private let span: Double
    private let unit: Unit
    let left: Double
    let width: Double

    init(start: Duration, end: Duration, left: Double, width: Double) {
        self.start = start
        self.left = left
        self.width = width
        span = max((end - start) / .seconds(1), 1e-4)
        unit =
            switch span {
            case ..<2e-3: .microseconds
            case ..<2: .milliseconds
            case ..<300: .seconds
            case ..<18_000: .minutes
            default: .hours
            }
    }

    func x(_ time: Duration) -> Double {
        left + width * ((time - start) / .seconds(1)) / span
    }

    /// About `count` round times, in steps of 1, 2 or 5 times a power of ten of the unit.
    func ticks(_ count: Int = 10) -> [(x: Double, label: String)] {
        let rough = span / unit.length / Double(count)
        var power = 1.0
        while power * 10 <= rough { power *= 10 }
        while power > rough { power /= 10 }
        let step = power * (rough <= power ? 1 : rough <= 2 * power ? 2 : rough <= 5 * power ? 5 : 10)
        return (0...Int(span / unit.length / step + 1e-9)).map { index in
            let value = Double(index) * step
            return (left + width * value * unit.length / span, "\(SVGText.number(value)) \(unit.rawValue)")
        }
    }

    static func text(_ duration: Duration) -> String {
        let seconds = duration / .seconds(1)
        return switch seconds {
        case ..<1e-3: "\(SVGText.number((seconds * 1e6).rounded())) µs"
        case ..<0.1: "\(SVGText.number((seconds * 1e4).rounded() / 10)) ms"
        case ..<1: "\(SVGText.number((seconds * 1e3).rounded())) ms"
        case ..<300: "\(SVGText.number(seconds)) s"
        case ..<18_000: "\(SVGText.number((seconds / 6).rounded() / 10)) min"
        default: "\(SVGText.number(seconds / 3_600)) h"
        }
    }
}
