import Metrics
import TestSupport

/// A backend of metrics that keeps the labels, the dimensions and the sums of all metrics made since it was installed.
final class RecordedMetrics: MetricsFactory, Sendable {
    static let shared: RecordedMetrics = {
        let metrics = RecordedMetrics()
        MetricsSystem.bootstrap(metrics)
        return metrics
    }()

    /// A metric, by label and dimensions.
    struct Name: Hashable {
        let label: String
        let dimensions: [String: String]
    }

    /// A counter or a timer that adds what it is given.
    private final class Sum: CounterHandler, TimerHandler {
        private let add: @Sendable (Int64) -> Void

        init(_ add: @escaping @Sendable (Int64) -> Void) {
            self.add = add
        }

        func increment(by amount: Int64) { add(amount) }
        func reset() {}
        func recordNanoseconds(_ duration: Int64) { add(duration) }
    }

    private let sums = Box<[Name: Int64]>([:])

    static func install() { _ = shared }

    /// All labels and dimensions.
    var text: String { sums.value.keys.map { "\($0)" }.joined(separator: "\n") }

    /// Returns the sums of a cache's metrics, by label and the other dimension.
    func values(of cache: String) -> [String: Int64] {
        var values: [String: Int64] = [:]
        for (name, sum) in sums.value where name.dimensions["cache"] == cache {
            let others = name.dimensions.filter { $0.key != "cache" }.map { " \($0.key)=\($0.value)" }
            values[name.label + others.joined()] = sum
        }
        return values
    }

    private func sum(_ label: String, _ dimensions: [(String, String)]) -> Sum {
        let name = Name(label: label, dimensions: Dictionary(dimensions, uniquingKeysWith: { $1 }))
        sums.update { $0[name, default: 0] += 0 }
        return Sum { [sums] amount in sums.update { $0[name, default: 0] += amount } }
    }

    func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler { sum(label, dimensions) }
    func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler { sum(label, dimensions) }

    func makeFloatingPointCounter(label: String, dimensions: [(String, String)]) -> any FloatingPointCounterHandler {
        NOOPMetricsHandler.instance
    }

    func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
        NOOPMetricsHandler.instance
    }

    func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler { NOOPMetricsHandler.instance }

    func destroyCounter(_ handler: any CounterHandler) {}
    func destroyFloatingPointCounter(_ handler: any FloatingPointCounterHandler) {}
    func destroyRecorder(_ handler: any RecorderHandler) {}
    func destroyMeter(_ handler: any MeterHandler) {}
    func destroyTimer(_ handler: any TimerHandler) {}
}
