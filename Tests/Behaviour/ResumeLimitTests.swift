import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Beginnings of bodies that are kept are bounded", .timeLimit(.minutes(2)))
struct ResumeLimitTests {
    private let fields: HTTPHeaders = ["ETag": "\"v\"", "Content-Length": "100000000"]

    private func begin(_ names: [String], _ bytes: Int, _ test: TestCache) async throws {
        for name in names {
            try await test.leave(TransferResponse(headers: fields, body: Data(count: bytes)), of: url(name))
        }
    }

    /// Returns the URLs whose next call goes on where the one before stopped.
    private func continued(_ names: [String], _ test: TestCache) async throws -> [String] {
        var found: [String] = []
        for name in names {
            if try await test.nextFields(of: url(name))["Range"] != nil { found.append(name) }
        }
        return found
    }

    @Test(
        "the oldest go when there are more than the limit allows; a larger one than the limit is not kept",
        arguments: [(10_000, ["c", "d"]), (0, [])] as [(Int, [String])], [true, false])
    func size(limit: (bytes: Int, kept: [String]), hasFolder: Bool) async throws {
        let names = ["a", "b", "c", "d"]
        var test = TestCache(folder: hasFolder ? TemporaryFolder() : nil) { $0.partialLimit = limit.bytes }
        try await begin(names, 4_000, test)
        try await begin(["large"], 12_000, test)
        if hasFolder { test = await test.reopened() }
        #expect(try await continued(names + ["large"], test) == limit.kept)
    }

    @Test("those older than a week go with the expired entries", arguments: [true, false])
    func age(hasFolder: Bool) async throws {
        var test = TestCache(folder: hasFolder ? TemporaryFolder() : nil)
        try await begin(["old"], 4_000, test)
        test.date.advance(by: 6 * 86_400)
        try await begin(["new"], 4_000, test)
        test.cache.removeExpired()
        await test.cache.synchronize()
        test.date.advance(by: 2 * 86_400)
        test.cache.removeExpired()
        if hasFolder { test = await test.reopened() }
        #expect(try await continued(["old", "new"], test) == ["new"])
    }

    // MARK: Without a folder

    @Test(
        "memory holds 32 MiB of them, and no more than a quarter of what bodies may hold",
        arguments: [(1 << 30, 12 << 20), (40_000, 4_000)])
    func inMemory(budget: Int, size: Int) async throws {
        let test = TestCache { $0.inFlightLimit = budget }
        try await begin(["a", "b", "c"], size, test)
        #expect(try await continued(["a", "b", "c"], test) == ["b", "c"])
    }

    @Test("the one that was kept last stays; looking at one does not count")
    func order() async throws {
        let test = TestCache { $0.partialLimit = 10_000 }
        try await begin(["a", "b", "a"], 4_000, test)
        #expect(try await continued(["b"], test) == ["b"])
        try await begin(["c"], 4_000, test)
        #expect(try await continued(["a", "b", "c"], test) == ["a", "c"])
    }

    @Test(
        "all go when memory gets short, and none is kept until it no longer is",
        arguments: [MemoryPressure.moderate, .severe])
    func pressure(level: MemoryPressure) async throws {
        let pressure = ManualMemoryPressure()
        let test = TestCache { $0.memoryPressure = pressure }
        try await begin(["a"], 4_000, test)
        pressure.level = level
        try await begin(["b"], 4_000, test)
        pressure.level = .normal
        try await begin(["c"], 4_000, test)
        #expect(try await continued(["a", "b", "c"], test) == ["c"])
    }

    @Test("one that a waiting call has no room for is there for its next attempt")
    func waiting() async throws {
        let test = TestCache { $0.inFlightLimit = 40_000 }
        let part = TransferResponse(headers: fields, body: Data(count: 6_000))
        for name in ["a", "b"] {
            let waits = DataRequest(url(name)).with(\.retryPolicy, .fixed(.seconds(3_600)))
            let (task, transfer) = try await test.begin(waits)
            transfer.interrupt(with: part)
            try await task.waitForFailures()
        }
        for name in ["a", "b"] {
            // An urgent call ends the wait.
            let (_, transfer) = try await test.begin(url(name))
            #expect(transfer.request.headers["Range"] == "bytes=6000-")
            transfer.fail(with: .rejected)
        }
        await test.cache.idle()
    }
}
