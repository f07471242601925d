import Dipper
import Foundation
import TestSupport
import Testing

@Suite("Processes that share a folder", .timeLimit(.minutes(5)))
struct SharedFolderTests {
    @Test("four that trim at once leave what the size allows, and never set the index aside")
    func trimAtOnce() async throws {
        let folder = TemporaryFolder()
        let directory = folder.url.appendingPathComponent("cache")
        var configuration = DataCache.Configuration(directory: directory)
        configuration.stagingLimit = 16 << 20
        let cache = DataCache(configuration)
        for number in 0..<3_000 { try cache.addData(Data(count: 900), for: CacheKey("k\(number)")) }
        await cache.synchronize()
        #expect(cache.diskCount == 3_000)
        let size = cache.diskSize / cache.diskCount + 1
        await cache.shutdown()
        for entries in [2_500, 2_000, 1_500, 1_000, 500] {
            let limit = entries * size
            let outputs = try await withThrowingTaskGroup(of: Dipper.Output.self) { group in
                for _ in 0..<4 {
                    group.addTask {
                        try await Dipper.run([
                            "trim", "--size", "\(limit)", "--cache-dir", directory.path, "--json",
                        ])
                    }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            for output in outputs { #expect(output.status == 0 && output.errors.isEmpty, "\(output.errors)") }
            let verified = DataCache(configuration)
            #expect(verified.diskSize <= limit)
            #expect(verified.diskSize > limit - 2 * size, "no more is removed than the size demands")
            let report = await verified.verify()
            #expect(report.isSound && report.sound == verified.diskCount && report.bytes == verified.diskSize)
            await verified.shutdown()
            #expect(!FileManager.default.fileExists(atPath: directory.path + "/index-2.sqlite"))
        }
    }
}
