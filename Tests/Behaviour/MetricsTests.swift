import DipperData
import DipperTesting
import Foundation
import Logging
import TestSupport
import Testing

@Suite("The log, the metrics and the statistics", .timeLimit(.minutes(2)))
struct MetricsTests {
    /// Has a cache do a bit of everything, and returns its statistics.
    private func work(_ change: (inout DataCache.Configuration) -> Void) async throws -> CacheStatistics {
        let pressure = ManualMemoryPressure()
        let test = TestCache { configuration in
            configuration.retryPolicy = .fixed(.zero, retries: 1)
            configuration.memoryPressure = pressure
            change(&configuration)
        }
        let (a, b) = (url("a"), url("b"))
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
        pressure.level = .severe
        await test.cache.shutdown()
        return test.cache.statistics
    }

    @Test("each category of the log has its messages, at their level")
    func log() async throws {
        let messages: KeyValuePairs<String, Logger.Level> = [
            "responses: attempt failed": .info, "memory: memory pressure": .info, "memory: let go of memory": .info,
            "decoding: undecodable": .info, "requests: request": .debug, "responses: response": .debug,
            "queues: jobEnded": .trace, "queues: parked": .trace,
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
        #expect(values["dipper_answers source=network"] == 1)
        #expect(values["dipper_answers source=memory"] == 2)
        #expect(values["dipper_network_requests"] == 3)
        #expect(values["dipper_failures reason=status 404"] == 1)
        #expect(values["dipper_memory_pressure level=severe"] == 1)
        #expect(values["dipper_network_bytes"] == 4)
        #expect(values["dipper_transfer_first_byte"] == 1_000_000)
        #expect(values["dipper_transfer_duration"] == 2_000_000)
        var expected = CacheStatistics()
        expected.networkAnswers = 1
        expected.memoryHits = 2
        expected.networkRequests = 3
        expected.networkBytes = 4
        expected.failures = 1
        #expect(statistics == expected)
    }
}
