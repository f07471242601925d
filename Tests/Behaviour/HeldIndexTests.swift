import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("A store whose index another process holds", .timeLimit(.minutes(1)))
struct HeldIndexTests {
    private let folder = TemporaryFolder()

    private func makeCache() async throws -> TestCache {
        let test = TestCache.onDisk(folder)
        try await test.cache.keep(["a": 9_000, "b": 9_000, "c": 100])
        return test
    }

    /// Another process that holds the index until it ends.
    private func hold() async throws -> LineTool {
        let program = """
            import sqlite3, sys
            index = sqlite3.connect(sys.argv[1], isolation_level=None)
            index.execute('BEGIN IMMEDIATE')
            print('held', flush=True)
            sys.stdin.readline()
            """
        let index = folder.url.appendingPathComponent("index.sqlite").path
        let tool = try LineTool("/usr/bin/python3", ["-c", program, index])
        #expect(await tool.nextLine() == "held")
        return tool
    }

    @Test("is read; what is added waits in memory, what is removed is gone; all is on disk when the index is let go")
    func letGo() async throws {
        let test = try await makeCache()
        let holder = try await hold()
        try test.cache.addData(DiskBytes.of(9_000, "new"), for: "b")
        try test.cache.addData(DiskBytes.of(100, "d"), for: "d")
        test.cache.removeData(for: "a")
        func expectChanged(_ cache: DataCache) {
            #expect(cache.data(for: "a") == nil)
            #expect(cache.data(for: "b") == DiskBytes.of(9_000, "new"))
            #expect(cache.data(for: "c") == DiskBytes.of(100, "c"))
            #expect(cache.data(for: "d") == DiskBytes.of(100, "d"))
        }
        expectChanged(test.cache)
        holder.end()
        await test.cache.synchronize()
        expectChanged(test.cache)
        await test.cache.shutdown()
        let again = TestCache(folder: folder)
        expectChanged(again.cache)
        #expect(await again.cache.verify().isSound)
    }

    @Test("holds up no end of a cache, whatever waits to be written and removed; what was on disk is there afterwards")
    func ending() async throws {
        let test = try await makeCache()
        let holder = try await hold()
        for number in 0..<300 { try test.cache.addData(Data(count: 100), for: CacheKey("new \(number)")) }
        for number in 0..<20 { test.cache.removeDerived(of: CacheKey("old \(number)")) }
        await test.cache.shutdown()
        holder.end()
        let again = TestCache(folder: folder)
        #expect(again.cache.data(for: "b") == DiskBytes.of(9_000, "b"))
        #expect(await again.cache.verify().isSound)
    }

    @Test("delays nobody by work that nobody waits for, which is done when the index is let go")
    func background() async throws {
        await (try await makeCache()).cache.shutdown()
        let holder = try await hold()
        // After a reboot, files and rows are compared, and the index notes that they have been.
        let test = TestCache(folder: folder) { $0.boot = "next" }
        let begun = ContinuousClock.now
        async let report = test.cache.verify()
        await test.cache.synchronize()
        #expect(.now - begun < .seconds(20))
        holder.end()
        await test.cache.reconcile()
        #expect(await report.isSound)
        await test.cache.shutdown()
    }
}
