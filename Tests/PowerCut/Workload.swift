import DipperData
import DipperTesting
import Foundation
import TortureSupport
import WriteLog

/// A few dozen seeded calls on a cache in its own folder, whose writes are recorded.
///
/// Only one call at a time writes or removes a key, so that the order of changes to a key is known. Calls for different
/// keys run at the same time, so that they share batches.
struct Workload {
    let seed: UInt64
    /// An empty folder, in which the cache creates its own folder.
    let folder: URL

    func record() async throws -> Recording {
        var random = SeededRandom(seed)
        let limit = random.oneIn(4) ? 60_000 : nil
        let notebook = Notebook(Recording(seed: seed, limit: limit))
        let server = BreakingServer(seed: seed)
        guard write_log_start(folder.path) == 0 else { throw UnknownCall(name: "start") }
        var version: UInt64 = 0
        for _ in 0..<Int.random(in: 1...3, using: &random) {
            let cache = DataCache(.forPowerCut(in: folder, limit: limit, boot: "before", server: server))
            for _ in 0..<Int.random(in: 2...6, using: &random) {
                await step(cache, notebook, server, &version, &random)
            }
            await cache.shutdown()
        }
        let count = write_log_stop()
        var recording = notebook.recording
        recording.steps = try (0..<count).map { try Step(write_log_step_at($0)) }
        recording.served = server.versions
        return recording
    }

    private func step(
        _ cache: DataCache, _ notebook: Notebook, _ server: BreakingServer, _ version: inout UInt64,
        _ random: inout SeededRandom
    ) async {
        switch Int.random(in: 0..<12, using: &random) {
        case 0:
            notebook.add(.removingAll)
            cache.clear()
        case 1: _ = await cache.verify()
        case 2: cache.removeExpired()
        case 3: await cache.synchronize()
        default: await change(cache, notebook, server, &version, &random)
        }
    }

    /// Records a failed call, unless the cache may have evicted a durable entry before its call ended.
    private func failed(_ key: String, _ request: DataRequest, _ error: any Error, _ notebook: Notebook) {
        let isExplained =
            error as? DipperError == .notWritten && request.durability == .durable && notebook.recording.limit != nil
        if !isExplained { notebook.fail("\(key) fails: \(error)") }
    }

    private func change(
        _ cache: DataCache, _ notebook: Notebook, _ server: BreakingServer, _ version: inout UInt64,
        _ random: inout SeededRandom
    ) async {
        var changes: [@Sendable () async -> Void] = []
        func remove(_ key: String) {
            changes.append {
                notebook.add(.removing(key: key))
                cache.removeData(for: CacheKey(key))
            }
        }
        for number in (0..<12).shuffled(using: &random).prefix(Int.random(in: 1...6, using: &random)) {
            let key = "k\(number)"
            if random.oneIn(6) {
                remove(key)
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
                do {
                    try await cache.addDataAndWait(body, for: request)
                    notebook.add(.wrote(key: key, version: version, isDurable: isDurable))
                } catch {
                    failed(key, request, error, notebook)
                }
            }
        }
        for key in BreakingServer.keys.shuffled(using: &random).prefix(Int.random(in: 0...3, using: &random)) {
            if random.oneIn(6) {
                remove(key)
                continue
            }
            if server.version(of: key) == nil || random.oneIn(3) {
                version += 1
                server.publish(version, as: key)
            }
            let isDurable = random.chance(0.6)
            let isRemote = random.oneIn(4)
            let request = BreakingServer.request(key).with(\.durability, isDurable ? .durable : .relaxed)
            changes.append { [version = server.version(of: key) ?? 0] in
                notebook.add(.writing(key: key, version: version, isDurable: isDurable))
                switch await (isRemote ? cache.getRemoteData(request) : cache.getData(request)).result {
                case .success(let data):
                    guard let given = TortureEntry.version(of: data, key: key) else {
                        return notebook.fail("\(key) is given wrong bytes: \(data.count)")
                    }
                    // The answer may be an entry that was already in the cache; it is durable by now, too.
                    notebook.add(.wrote(key: key, version: given, isDurable: isDurable))
                // The cache keeps the beginning.
                case .failure(.connectionLost): break
                case .failure(let error): failed(key, request, error, notebook)
                }
            }
        }
        await withDiscardingTaskGroup { group in
            for change in changes { group.addTask { await change() } }
        }
    }
}

extension DataCache.Configuration {
    /// A minimal cache without a memory tier, so that every answer comes from the disk.
    /// - Parameter boot: identifies the boot of the machine, which the power cut ends.
    static func forPowerCut(in folder: URL, limit: Int?, boot: String, server: BreakingServer) -> Self {
        var configuration = DataCache.Configuration(directory: folder.appendingPathComponent("cache"))
        configuration.memoryLimit = 0
        configuration.boot = boot
        configuration.diskLimit = limit
        configuration.transport = server
        configuration.retryPolicy = .fixed(.zero, retries: 1)
        configuration.networkMonitor = AlwaysReachable()
        configuration.memoryPressure = nil
        configuration.logger.logLevel = .critical
        return configuration
    }
}
