/// The time axis: the position of each time, and the times that are written on it.
struct TimelineAxis {
    private enum Unit: String {
        case microseconds = "µs"
        case milliseconds = "ms"
        case seconds = "s"
        case minutes = "min"
        case hours = "h"

        /// The length of the unit in seconds.
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
    /// The length of the axis in seconds; more than 0.
    private let span: Double
    private let unit: Unit
    let left: Double
    let width: Double

    init(start: Duration, end: Duration, left: Double, width: Double) {
        self.start = start
        self.left = left
        self.width = width
        span = max((end - start).timeInterval, 1e-4)
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
        left + width * (time - start).timeInterval / span
    }

    /// Returns about `count` round times, in steps of 1, 2 or 5 times a power of ten of the unit.
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

    /// Returns a length of time as text, in a unit that suits it.
    static func text(_ duration: Duration) -> String {
        let seconds = duration.timeInterval
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
