import Foundation
import StoreTorture
import Testing

@testable import DipperData

@Suite("The store survives", .serialized)
struct TortureTests {
    static let rounds = ProcessInfo.processInfo.environment["DIPPER_TORTURE_ROUNDS"].flatMap(Int.init) ?? 50

    @Test("a writer killed at any moment leaves whole entries, and no stray file")
    func killedWriter() async throws {
        let folder = TemporaryFolder()
        var random = SystemRandomNumberGenerator()
        var entries = 0
        for round in 0..<Self.rounds {
            try killWriter(in: folder, afterTicks: Int.random(in: 1...12, using: &random), seed: random.next())
            var configuration = DataCache.Configuration(directory: folder.url)
            configuration.logger.logLevel = .critical
            let cache = DataCache(configuration)
            var listed: [CachedEntry] = []
            cache.forEachEntry { listed.append($0) }
            for entry in listed {
                guard let data = cache.data(for: entry.key) else { continue }
                entries += 1
                #expect(TortureEntry.isWhole(data, key: entry.key.string), "round \(round): \(entry.key)")
            }
            let report = await cache.verify()
            #expect(report.isSound, "round \(round): \(report)")
            #expect(report.unlisted == 0, "round \(round): files that nobody counts")
            #expect(cache.diskCount == report.sound)
            #expect(cache.diskSize == report.bytes)
            await cache.shutdown()
            let stray = folder.files.filter { path in
                !path.hasPrefix("blobs/") && !path.hasPrefix("index.sqlite")
            }
            #expect(stray.isEmpty, "round \(round): \(stray)")
            let inFiles = folder.files.filter { $0.hasPrefix("blobs/") }.count
            #expect(inFiles <= report.sound)
        }
        #expect(entries > Self.rounds, "the writer wrote: \(entries) entries were checked")
    }

    /// Starts a writer and kills it after some signs of life.
    private func killWriter(in folder: TemporaryFolder, afterTicks ticks: Int, seed: UInt64) throws {
        let process = Process()
        process.executableURL = Built.executable("StoreTorture")
        process.arguments = [folder.url.path, String(seed)]
        let pipe = Pipe()
        process.standardOutput = pipe
        try process.run()
        var seen = 0
        while seen < ticks {
            let data = pipe.fileHandleForReading.availableData
            #expect(!data.isEmpty, "the writer ended by itself")
            if data.isEmpty { break }
            seen += data.count
        }
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }
}

/// Executables of this package, beside the test bundle.
enum Built {
    static func executable(_ name: String) -> URL {
        let bundle = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
        return bundle.deletingLastPathComponent().appendingPathComponent(name)
    }
}
