import DipperTesting
import Foundation
import Logging
import TestSupport
import Testing

@testable import DipperData

@Suite("Events in the log and in the metrics", .timeLimit(.minutes(5)), .serialized)
struct EventLogTests {
    /// Has a cache do a bit of everything.
    private func work(_ change: (inout DataCache.Configuration) -> Void) async throws {
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
        _ = try await test.cache.getData(a).value
        _ = try await test.cache.getData(a).value
        #expect(await test.cache.getData(b).error == .status(404))
        let kept = DataRequest(a).with(\.cachePolicy, .cacheOnly)
        #expect(await test.cache.getValue([Int].self, from: kept).error == .undecodable)
        pressure.level = .severe
        await test.cache.shutdown()
    }

    /// Returns what is logged at a level, as `category: message`.
    private func lines(_ level: Logger.Level) async throws -> Set<String> {
        let lines = Box<Set<String>>([])
        try await work { configuration in
            configuration.logger = .recording { event, metadata in
                lines.update { _ = $0.insert("\(metadata["category"] ?? ""): \(event.message)") }
            }
            configuration.logger.logLevel = level
        }
        return lines.value
    }

    @Test(
        "each category has its messages, at their level",
        arguments: [
            ("requests: request", Logger.Level.debug), ("responses: response", .debug),
            ("responses: attempt failed", .info), ("memory: memory pressure", .info),
            ("memory: let go of memory", .info), ("decoding: undecodable", .info), ("queues: jobEnded", .trace),
            ("queues: parked", .trace),
        ])
    func categories(line: String, level: Logger.Level) async throws {
        #expect(try await lines(level).contains(line))
        let quieter: Logger.Level = level == .trace ? .debug : level == .debug ? .info : .notice
        #expect(try await !lines(quieter).contains(line))
    }

    @Test("each metric counts what it is named after")
    func metrics() async throws {
        RecordedMetrics.install()
        let name = "metrics \(UUID())"
        try await work { $0.name = name }
        let values = RecordedMetrics.shared.values(of: name)
        #expect(values["dipper_answers source=network"] == 1)
        #expect(values["dipper_answers source=memory"] == 2)
        #expect(values["dipper_network_requests"] == 3)
        #expect(values["dipper_failures reason=status 404"] == 1)
        #expect(values["dipper_memory_pressure level=severe"] == 1)
        #expect(values["dipper_network_bytes"] == 4)
        #expect(values["dipper_transfer_first_byte"] == 1_000_000)
        #expect(values["dipper_transfer_duration"] == 2_000_000)
    }
}
