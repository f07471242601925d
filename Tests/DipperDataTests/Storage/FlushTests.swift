import DipperData
import DipperTesting
import FlushLog
import Foundation
import TestSupport
import Testing

@Suite("A durable entry is on the device when it counts as written", .timeLimit(.minutes(2)))
struct FlushTests {
    private let folder = TemporaryFolder()
    private let test: TestCache
    private var cache: DataCache { test.cache }
    /// A request whose file has a name that no other test's has.
    private let durable: DataRequest

    init() {
        test = TestCache(folder: folder) { $0.memoryLimit = 0 }
        durable = DataRequest(url(folder.url.lastPathComponent)).with(\.durability, .durable)
    }

    /// Returns how often the file of the entry has been flushed, under whichever name in the folder it was written.
    private func flushes(of request: DataRequest) throws -> Int32 {
        flush_log_count("/" + (try #require(cache.file(for: request.cacheKey))).lastPathComponent)
    }

    @Test("a large entry: its file is flushed, and its folder; also if a fetch waits for it")
    func large() async throws {
        try await cache.addDataAndWait(Data(count: 9_000), for: durable)
        #expect(try flushes(of: durable) == 1)
        let file = try #require(cache.file(for: durable.cacheKey))
        for place in [file.deletingLastPathComponent().path, folder.url.lastPathComponent] {
            #expect(flush_log_count(place) >= 1)
        }
    }

    @Test("of calls that share a fetch one that wants it durable decides", arguments: [true, false])
    func shared(isFirst: Bool) async throws {
        let request = durable.with(\.waitsForDiskWrite, true)
        let other = request.with(\.durability, .relaxed)
        let tasks = (isFirst ? [request, other] : [other, request]).map { cache.getData($0) }
        try await test.transport.nextTransfer().finish(with: Data(count: 9_000))
        for task in tasks { _ = try await task.value }
        #expect(try flushes(of: durable) == 1)
    }

    @Test("where nothing can be flushed no entry counts as durable, small or large", arguments: [100, 9_000])
    func failing(size: Int) async throws {
        try await cache.addDataAndWait(Data(count: 10), for: "first")
        let failing = flush_log_fail(folder.url.lastPathComponent)
        await #expect(throws: DipperError.notWritten) {
            try await cache.addDataAndWait(Data(count: size), for: durable)
        }
        flush_log_mend(failing)
        try await cache.addDataAndWait(Data(count: size), for: durable)
        #expect(cache.data(for: durable)?.count == size)
    }

    @Test("nothing is flushed for other entries, not even after a durable one")
    func relaxed() async throws {
        try await cache.addDataAndWait(Data(count: 9_000), for: durable)
        // Where nothing can be flushed, whatever is flushed would fail.
        let failing = flush_log_fail(folder.url.lastPathComponent)
        defer { flush_log_mend(failing) }
        for number in 0..<20 {
            let request = DataRequest(url("\(folder.url.lastPathComponent)/\(number)"))
            try await cache.addDataAndWait(Data(count: number * 1_000), for: request)
            #expect(cache.data(for: request)?.count == number * 1_000)
            if number > 8 { #expect(try flushes(of: request) == 0) }
        }
    }
}
