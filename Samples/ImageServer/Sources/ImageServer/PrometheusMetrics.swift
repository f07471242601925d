import Metrics
import Synchronization

/// A backend of swift-metrics that writes what it has counted in the text format of Prometheus.
///
/// The cache counts its answers by source, its failures, the requests and bytes of the network and the time of transfers:
/// `dipper_answers_total`, `dipper_failures_total`, `dipper_network_requests_total` and so on.
final class PrometheusMetrics: MetricsFactory, Sendable {
    static let shared = PrometheusMetrics()

    private struct Series: Hashable {
        let name: String
        /// Names and values by turns.
        private let dimensions: [String]

        init(_ name: String, _ dimensions: [(String, String)]) {
            self.name = name
            self.dimensions = dimensions.flatMap { [$0, $1] }
        }

        var labels: String {
            stride(from: 0, to: dimensions.count, by: 2)
                .map { "\(dimensions[$0])=\"\(Self.escaped(dimensions[$0 + 1]))\"" }.joined(separator: ",")
        }

        private static func escaped(_ text: String) -> String {
            text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"").replacing("\n", with: "\\n")
        }
    }

    private struct State {
        var counts: [Series: Count] = [:]
        var gauges: [Series: Gauge] = [:]
        var durations: [Series: Durations] = [:]
    }

    private final class Count: CounterHandler {
        private let total = Atomic<Int>(0)
        var value: Int { total.load(ordering: .relaxed) }

        func increment(by amount: Int64) { total.wrappingAdd(Int(amount), ordering: .relaxed) }
        func reset() { total.store(0, ordering: .relaxed) }
    }

    private final class Gauge: RecorderHandler {
        private let latest = Mutex(0.0)
        var value: Double { latest.withLock { $0 } }

        func record(_ value: Int64) { record(Double(value)) }
        func record(_ value: Double) { latest.withLock { $0 = value } }
    }

    /// A histogram, from which Prometheus estimates percentiles.
    private final class Durations: TimerHandler {
        /// In seconds.
        static let bounds = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30]
        private let state = Mutex((counts: [Int](repeating: 0, count: bounds.count + 1), sum: 0.0))

        func recordNanoseconds(_ duration: Int64) {
            let seconds = Double(duration) / 1e9
            let place = Self.bounds.firstIndex { seconds <= $0 } ?? Self.bounds.count
            state.withLock {
                $0.counts[place] += 1
                $0.sum += seconds
            }
        }

        func lines(_ series: Series) -> [String] {
            let (counts, sum) = state.withLock { ($0.counts, $0.sum) }
            let labels = series.labels.isEmpty ? "" : series.labels + ","
            var total = 0
            let buckets = zip(counts, Self.bounds.map { "\($0)" } + ["+Inf"]).map { count, bound in
                total += count
                return "\(series.name)_bucket{\(labels)le=\"\(bound)\"} \(total)"
            }
            return buckets
                + ["\(series.name)_sum{\(series.labels)} \(sum)", "\(series.name)_count{\(series.labels)} \(total)"]
        }
    }

    private let state = Mutex(State())

    func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        state.withLock { $0.counts.make(Series(label + "_total", dimensions), Count.init) }
    }

    func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
        state.withLock { $0.gauges.make(Series(label, dimensions), Gauge.init) }
    }

    func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        state.withLock { $0.durations.make(Series(label + "_seconds", dimensions), Durations.init) }
    }

    // A series stays for as long as the program runs, so that its count never goes back.
    func destroyCounter(_ handler: any CounterHandler) {}
    func destroyRecorder(_ handler: any RecorderHandler) {}
    func destroyTimer(_ handler: any TimerHandler) {}

    /// Returns all series, and gauges of the moment.
    func text(with gauges: [(name: String, value: Int)]) -> String {
        let state = state.withLock { $0 }
        var lines: [String: (kind: String, lines: [String])] = [:]
        for (series, count) in state.counts {
            lines[series.name, default: ("counter", [])].lines.append("\(series.name){\(series.labels)} \(count.value)")
        }
        for (series, gauge) in state.gauges {
            lines[series.name, default: ("gauge", [])].lines.append("\(series.name){\(series.labels)} \(gauge.value)")
        }
        for (series, durations) in state.durations {
            lines[series.name, default: ("histogram", [])].lines += durations.lines(series)
        }
        for (name, value) in gauges { lines[name] = ("gauge", ["\(name) \(value)"]) }
        return lines.sorted { $0.key < $1.key }.map { name, found in
            (["# TYPE \(name) \(found.kind)"] + (found.kind == "histogram" ? found.lines : found.lines.sorted()))
                .joined(separator: "\n")
        }.joined(separator: "\n")
    }
}

extension Dictionary {
    fileprivate mutating func make(_ key: Key, _ new: () -> Value) -> Value {
        if let present = self[key] { return present }
        let value = new()
        self[key] = value
        return value
    }
}
