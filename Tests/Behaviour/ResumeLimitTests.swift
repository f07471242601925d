import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Beginnings of bodies on disk are bounded", .timeLimit(.minutes(2)))
struct ResumeLimitTests {
    private let fields: HTTPHeaders = ["ETag": "\"v\"", "Content-Length": "10000"]

    /// Begins to fetch each URL and gives it up after some bytes.
    private func begin(_ names: [String], _ bytes: Int, _ test: TestCache) async throws {
        for name in names {
            let task = test.cache.getData(url(name))
            try await test.transport.nextTransfer().hold(
                TransferResponse(headers: fields, body: Data(count: bytes)))
            task.cancel()
            #expect(await task.error == .cancelled)
            await test.cache.idle()
        }
    }

    /// Returns the URLs whose next call goes on where the one before stopped, in a cache that is opened anew.
    private func continued(_ names: [String], _ test: TestCache) async throws -> [String] {
        var found: [String] = []
        for name in names {
            let task = test.cache.getData(url(name))
            let transfer = try await test.transport.nextTransfer()
            if transfer.request.headers["Range"] != nil { found.append(name) }
            task.cancel()
            await test.cache.idle()
        }
        return found
    }

    @Test(
        "the oldest go when there are more than the limit allows; a larger one than the limit is not kept",
        arguments: [(10_000, ["c", "d"]), (0, [])] as [(Int, [String])])
    func size(limit: Int, kept: [String]) async throws {
        let (folder, names) = (TemporaryFolder(), ["a", "b", "c", "d"])
        var test = TestCache(folder: folder) { $0.partialLimit = limit }
        try await begin(names, 4_000, test)
        try await begin(["large"], 10_000, test)
        test = await test.reopened(folder)
        #expect(try await continued(names + ["large"], test) == kept)
        await test.cache.shutdown()
    }

    @Test("those older than a week go with the expired entries")
    func age() async throws {
        let folder = TemporaryFolder()
        var test = TestCache(folder: folder)
        try await begin(["old"], 4_000, test)
        test.date.advance(by: 6 * 86_400)
        try await begin(["new"], 4_000, test)
        test.cache.removeExpired()
        await test.cache.synchronize()
        test.date.advance(by: 2 * 86_400)
        test.cache.removeExpired()
        test = await test.reopened(folder)
        #expect(try await continued(["old", "new"], test) == ["new"])
        await test.cache.shutdown()
    }
}
