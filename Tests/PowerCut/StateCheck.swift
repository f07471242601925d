import DipperData
import Foundation
import TortureSupport

/// Opens the store in a state left by a power cut and lists its errors.
struct StateCheck {
    /// The folder that contains the cache's folder.
    let folder: URL
    let recording: Recording
    let cut: Int
    /// Whether entries are read at once, or only after the store has compared its index with its files.
    let readsAtOnce: Bool
    let server: BreakingServer

    func problems() async -> [String] {
        let cache = DataCache(.forPowerCut(in: folder, limit: recording.limit, boot: "after", server: server))
        var problems: [String] = []
        if readsAtOnce { problems += read(cache) }
        await cache.reconcile()
        problems += accounting(cache)
        problems += read(cache)
        // A damaged entry that was read is removed in the background.
        await cache.synchronize()
        problems += await verify(cache)
        problems += await write(cache)
        problems += await fetch(cache)
        await cache.shutdown()
        problems += strayFiles()
        return problems
    }

    private func read(_ cache: DataCache) -> [String] {
        var problems: [String] = []
        for (key, expected) in Expectation.all(recording, cut: cut).sorted(by: { $0.key < $1.key }) {
            guard let data = cache.readData(for: CacheKey(key)) else {
                if !expected.mayBeMissing { problems.append("\(key) is lost: \(expected.versions.sorted())") }
                continue
            }
            guard let version = TortureEntry.version(of: data, key: key) else {
                problems.append("\(key) has wrong bytes: \(data.count)")
                continue
            }
            if !expected.versions.contains(version) {
                problems.append("\(key) has version \(version), not one of \(expected.versions.sorted())")
            }
        }
        return problems
    }

    private func accounting(_ cache: DataCache) -> [String] {
        var problems: [String] = []
        var entries: [CachedEntry] = []
        cache.forEachEntry { entries.append($0) }
        let files = FolderFiles(folder.appendingPathComponent("cache")).records
        var left = Dictionary(files.map { (URL(fileURLWithPath: $0).lastPathComponent, $1) }) { $1 }
        for entry in entries {
            guard let file = cache.file(for: entry.key) else { continue }
            // An entry counts with its metadata, which are in the index.
            let size = left.removeValue(forKey: file.lastPathComponent) ?? .max
            if size >= entry.size { problems.append("\(entry.key) has \(size) bytes and counts \(entry.size)") }
        }
        if !left.isEmpty { problems.append("files that nobody counts: \(left.count)") }
        if entries.count != cache.diskCount { problems.append("\(entries.count) entries count as \(cache.diskCount)") }
        let sum = entries.reduce(0) { $0 + $1.size }
        if sum != cache.diskSize { problems.append("\(sum) bytes count as \(cache.diskSize)") }
        return problems
    }

    private func verify(_ cache: DataCache) async -> [String] {
        let counted = (cache.diskCount, cache.diskSize)
        let report = await cache.verify()
        let isRight = report.isSound && report.unlisted == 0 && report.unfinished == 0
        if isRight, counted == (report.sound, report.bytes) { return [] }
        return ["counted \(counted.0) entries, \(counted.1) bytes; \(report)"]
    }

    private func write(_ cache: DataCache) async -> [String] {
        var problems: [String] = []
        for size in [100, 9_000] {
            let key = "new\(size)"
            let body = TortureEntry.body(key: key, version: 1, size: size)
            do {
                try await cache.addDataAndWait(body, for: CacheKey(key))
            } catch {
                problems.append("\(key) fails: \(error)")
            }
            if cache.readData(for: CacheKey(key)) != body { problems.append("\(key) is not taken") }
        }
        return problems
    }

    /// Checks that a fetch returns each body in one expected version, whether the store has all of it, a part or none.
    private func fetch(_ cache: DataCache) async -> [String] {
        var problems: [String] = []
        let all = Expectation.all(recording, cut: cut)
        for key in BreakingServer.keys {
            do {
                let data = try await cache.getData(BreakingServer.request(key)).value
                let version = TortureEntry.version(of: data, key: key)
                let isRight =
                    version == server.version(of: key) ?? 1 || all[key]?.versions.contains(version ?? 0) == true
                if version == nil || !isRight {
                    problems.append("\(key) is fetched as version \(version ?? 0): \(data.count) bytes")
                }
            } catch {
                problems.append("\(key) cannot be fetched: \(error)")
            }
        }
        return problems
    }

    private func strayFiles() -> [String] {
        let cache = folder.appendingPathComponent("cache")
        return (FileManager.default.subpaths(atPath: cache.path) ?? []).filter { path in
            path.hasPrefix("stores/") || path.hasPrefix("index-") || path.hasPrefix(".")
        }.sorted().map { "\($0) is left" }
    }
}
