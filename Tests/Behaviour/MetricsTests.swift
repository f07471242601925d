import Logging
import Metrics
import TestSupport
import Testing

@Suite("The log, the metrics and the statistics", .timeLimit(.minutes(2)))
struct MetricsTests {
    private func work(_ change: (inout DataCache.Configuration) -> Void) async throws -> CacheStatistics {
        let pressure = ManualMemoryPressure()
        let test = TestCache(folder: TemporaryFolder()) { configuration in
            configuration.retryPolicy = .fixed(.zero, retries: 1)
            configuration.memoryPressure = pressure
            change(&configuration)
        }
        let (a, b, old) = (url("a"), url("b"), url("old"))
        var answer = TransferResponse(body: Data("[1, ".utf8))
        answer.metrics.bytesReceived = 4
        answer.metrics.firstByte = .milliseconds(1)
        answer.metrics.total = .milliseconds(2)
        test.transport.script(a, [.status(503), .response(answer)])
        try test.cache.addData(Data(count: 10), for: url("c"))
        test.transport.script(b, [.status(404)])
        for _ in 0..<2 { _ = try await test.cache.getData(a).value }
        #expect(await test.cache.getData(b).error == .status(404))
        let kept = DataRequest(a).with(\.cachePolicy, .cacheOnly)
        #expect(await test.cache.getValue([Int].self, from: kept).error == .undecodable)
        try await test.keep("1", ["ETag": "\"1\"", "Cache-Control": "max-age=10, stale-if-error=100"], for: old)
        test.cache.clearMemory()
        test.transport.script(old, [.status(304), .status(503)])
        for source in ["disk", "revalidated", "stale"] {
            #expect(try await test.ask(old) == "1 from \(source)")
            test.date.advance(by: 10)
        }
        // The bytes of a provider are not the network's.
        let provider = CustomProvider(key: "generated") { Data(count: 9) }
        #expect(try await test.cache.getData(DataRequest(provider)).value.count == 9)
        pressure.level = .severe
        await test.cache.shutdown()
        return test.cache.statistics
    }

    @Test("each category of the log has its messages, at their level")
    func log() async throws {
        let messages: KeyValuePairs<String, Logger.Level> = [
            "responses: attempt failed": .info, "memory: memory pressure": .info, "memory: let go of memory": .info,
            "decoding: undecodable": .info, "requests: request": .debug, "responses: response": .debug,
            "queues: fetchEnded": .trace, "queues: parked": .trace,
        ]
        for level in [Logger.Level.notice, .info, .debug, .trace] {
            let heard = Box<Set<String>>([])
            _ = try await work { configuration in
                configuration.logger = .recording { event, metadata in
                    heard.update { _ = $0.insert("\(metadata["category"] ?? ""): \(event.message)") }
                }
                configuration.logger.logLevel = level
            }
            for (message, its) in messages {
                #expect(heard.value.contains(message) == (its >= level), "\(message) at \(level)")
            }
        }
    }

    @Test("each metric, and each of the statistics, counts what it is named after")
    func metrics() async throws {
        RecordedMetrics.install()
        let name = "metrics \(UUID())"
        let statistics = try await work { $0.name = name }
        let values = RecordedMetrics.shared.values(of: name)
        let expected: [String: Int64] = [
            "answers source=network": 2, "answers source=provider": 1, "answers source=memory": 1,
            "answers source=disk": 1,
            "answers source=revalidated": 1, "answers source=stale": 1, "failures reason=undecodable": 1,
            "network_requests": 7, "failures reason=status 404": 1, "memory_pressure level=severe": 1,
            "network_bytes": 4,
            "transfer_first_byte": 1_000_000, "transfer_duration": 2_000_000,
        ]
        for (metric, value) in expected { #expect(values["dipper_\(metric)"] == value, "\(metric)") }
        var counts = CacheStatistics()
        counts.networkAnswers = 2
        counts.providerAnswers = 1
        counts.memoryHits = 1
        counts.diskHits = 1
        counts.revalidatedAnswers = 1
        counts.staleAnswers = 1
        counts.networkRequests = 7
        counts.networkBytes = 5
        counts.failures = 2
        #expect(statistics == counts)
    }
}

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
