import DipperData
import DipperTesting
import Foundation
import TortureSupport
import WriteLog

/// Some dozens of calls, chosen by a seed, on a cache in a folder of its own, whose writes are recorded.
///
/// A key is written and removed by one call at a time, so that the order of what is asked for it is known; calls for
/// different keys are under way together, so that they share batches.
struct Workload {
    let seed: UInt64
    /// An empty folder; that of the cache is made in it by the cache itself.
    let folder: URL

    func record() async throws -> Recording {
        var random = SeededRandom(seed)
        var recording = Recording(seed: seed, limit: random.oneIn(4) ? 60_000 : nil)
        let notebook = Notebook()
        guard write_log_start(folder.path) == 0 else { throw UnknownCall(name: "start") }
        var version: UInt64 = 0
        for _ in 0..<Int.random(in: 1...3, using: &random) {
            let cache = DataCache(.forPowerCut(in: folder, limit: recording.limit, boot: "before"))
            for _ in 0..<Int.random(in: 2...6, using: &random) {
                await step(cache, notebook, &version, &random)
            }
            await cache.shutdown()
        }
        let count = write_log_stop()
        recording.steps = try (0..<count).map { try Step(write_log_step_at($0)) }
        recording.notes = notebook.all
        return recording
    }

    private func step(
        _ cache: DataCache, _ notebook: Notebook, _ version: inout UInt64, _ random: inout SeededRandom
    ) async {
        switch Int.random(in: 0..<12, using: &random) {
        case 0:
            notebook.add(.removingAll)
            cache.clear()
        case 1: _ = await cache.verify()
        case 2: cache.removeExpired()
        case 3: await cache.synchronize()
        default: await change(cache, notebook, &version, &random)
        }
    }

    /// Changes some keys at once.
    private func change(
        _ cache: DataCache, _ notebook: Notebook, _ version: inout UInt64, _ random: inout SeededRandom
    ) async {
        var changes: [@Sendable () async -> Void] = []
        for number in (0..<12).shuffled(using: &random).prefix(Int.random(in: 1...6, using: &random)) {
            let key = "k\(number)"
            if random.oneIn(6) {
                changes.append {
                    notebook.add(.removing(key: key))
                    cache.removeData(for: CacheKey(key))
                }
                continue
            }
            version += 1
            let isDurable = random.chance(0.6)
            let size = random.oneIn(8) ? 30_000 : random.oneIn(2) ? 5_000 : 900
            let body = TortureEntry.body(key: key, version: version, size: Int.random(in: 100...size, using: &random))
            var request = DataRequest(string: "").with(\.durability, isDurable ? .durable : .relaxed)
            request.key = CacheKey(key)
            changes.append { [version, request] in
                notebook.add(.writing(key: key, version: version, isDurable: isDurable))
                try? await cache.addDataAndWait(body, for: request)
                notebook.add(.wrote(key: key, version: version, isDurable: isDurable))
            }
        }
        await withDiscardingTaskGroup { group in
            for change in changes { group.addTask { await change() } }
        }
    }
}

extension DataCache.Configuration {
    /// A cache as simple as can be: what it gives comes from the disk.
    /// - Parameter boot: names the run of the machine, which ends with the cut.
    static func forPowerCut(in folder: URL, limit: Int?, boot: String) -> Self {
        var configuration = DataCache.Configuration(directory: folder.appendingPathComponent("cache"))
        configuration.memoryLimit = 0
        configuration.boot = boot
        configuration.diskLimit = limit
        configuration.transport = ScriptedTransport()
        configuration.networkMonitor = AlwaysReachable()
        configuration.memoryPressure = nil
        configuration.logger.logLevel = .critical
        return configuration
    }
}
