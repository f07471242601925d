import Metrics
import TestSupport

/// A backend of metrics that keeps the sums of all metrics made since it was installed.
final class RecordedMetrics: MetricsFactory, Sendable {
    static let shared: RecordedMetrics = {
        let metrics = RecordedMetrics()
        MetricsSystem.bootstrap(metrics)
        return metrics
    }()

    private final class Sum: CounterHandler, TimerHandler {
        let add: @Sendable (Int64) -> Void

        init(_ add: @escaping @Sendable (Int64) -> Void) { self.add = add }

        func increment(by amount: Int64) { add(amount) }
        func reset() {}
        func recordNanoseconds(_ duration: Int64) { add(duration) }
    }

    /// The sums by cache, and by label and the other dimensions.
    private let sums = Box<[String: [String: Int64]]>([:])

    static func install() { _ = shared }

    var text: String { "\(sums.value)" }

    func values(of cache: String) -> [String: Int64] { sums.value[cache] ?? [:] }

    private func sum(_ label: String, _ dimensions: [(String, String)]) -> Sum {
        let cache = dimensions.first { $0.0 == "cache" }?.1 ?? ""
        let name = ([label] + dimensions.filter { $0.0 != "cache" }.map { "\($0)=\($1)" }).joined(separator: " ")
        let add: @Sendable (Int64) -> Void = { [sums] amount in
            sums.update { $0[cache, default: [:]][name, default: 0] += amount }
        }
        add(0)
        return Sum(add)
    }

    func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler { sum(label, dimensions) }
    func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler { sum(label, dimensions) }
    func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
        NOOPMetricsHandler.instance
    }
    func destroyCounter(_ handler: any CounterHandler) {}
    func destroyRecorder(_ handler: any RecorderHandler) {}
    func destroyTimer(_ handler: any TimerHandler) {}
}
