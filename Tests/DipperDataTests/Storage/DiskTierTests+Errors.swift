import DipperTesting
import Dispatch
import Foundation
import GRDB
import Logging
import TestSupport
import Testing

@testable import DipperData

extension DiskTierTests {
    // MARK: Disk errors

    @Test(
        "a full disk: the cache goes on in memory, and writes again when there is room",
        .enabled(if: Mount.isPossible, "mounting a tmpfs needs root"))
    func fullDisk() async throws {
        let mount = try Mount(megabytes: 2)
        let cache = DataCache(
            {
                var configuration = DataCache.Configuration(directory: mount.folder.url.appendingPathComponent("cache"))
                configuration.logger.logLevel = .critical
                return configuration
            }())
        for number in 0..<40 { try await cache.addDataAndWait(Data(count: 100_000), for: CacheKey("k\(number)")) }
        for number in 0..<40 { #expect(cache.data(for: CacheKey("k\(number)")) != nil, "in memory") }
        let small = Data("small".utf8)
        try await cache.addDataAndWait(small, for: "small")
        #expect(cache.data(for: "small") == small)
        cache.clear()
        await cache.synchronize()
        try await cache.addDataAndWait(Data(count: 50_000), for: "after")
        cache.clearMemory()
        #expect(cache.data(for: "after")?.count == 50_000)
        #expect(await cache.verify().isSound)
        await cache.shutdown()
    }

    @Test(
        "a folder that cannot be written: reads go on, nothing is an error",
        .enabled(if: Mount.isPossible, "mounting a tmpfs needs root"))
    func readOnly() async throws {
        let mount = try Mount(megabytes: 8)
        let directory = mount.folder.url.appendingPathComponent("cache")
        var configuration = DataCache.Configuration(directory: directory)
        configuration.logger.logLevel = .critical
        let writer = DataCache(configuration)
        try await writer.addDataAndWait(Data(count: 9_000), for: "large")
        await writer.shutdown()
        try mount.makeReadOnly()
        let reader = DataCache(configuration)
        #expect(reader.data(for: "large")?.count == 9_000)
        try await reader.addDataAndWait(Data(count: 10), for: "new")
        #expect(reader.data(for: "new")?.count == 10, "in memory")
        reader.removeData(for: "large")
        reader.clear()
        await reader.synchronize()
        await reader.shutdown()
    }

    @Test("a folder that cannot be made is no error")
    func impossibleFolder() async throws {
        var configuration = DataCache.Configuration(directory: URL(fileURLWithPath: "/proc/none/cache"))
        configuration.logger.logLevel = .critical
        let cache = DataCache(configuration)
        try await cache.addDataAndWait(Data(count: 10), for: "a")
        #expect(cache.data(for: "a")?.count == 10)
        #expect(cache.diskCount == 0)
        await cache.shutdown()
    }
}
