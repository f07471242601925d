import DipperData
import Foundation
import TortureSupport

/// Checks a folder after all its processes were killed.
struct RoundCheck {
    let mode: Orders.Mode
    let folder: URL
    let logs: [URL]

    /// Returns the problems found and the number of log lines of each kind, and starts new logs.
    func problems() async throws -> ([String], [Character: Int]) {
        var problems: [String] = []
        var counts: [Character: Int] = [:]
        let ledgers = logs.map { WriteLedger(log: $0) }
        for ledger in ledgers {
            problems += ledger.complaints
            counts.merge(ledger.counts, uniquingKeysWith: +)
        }
        let cache = DataCache(Orders.configuration(mode, folder))
        // After a kill the old file of an entry may hide the small record in the index that replaces it.
        await cache.reconcile()
        if mode == .kept {
            let shared = WriteLedger(sharedIn: logs).compare(cache)
            problems += shared.problems
            for (number, (ledger, log)) in zip(ledgers, logs).enumerated() {
                let (found, wrong) = ledger.compare(cache)
                problems += wrong
                let others = number == 0 ? WriteLedger.lines(of: shared.found) : Data()
                try (WriteLedger.lines(of: found) + others).write(to: log)
            }
        } else {
            for log in logs { try Data().write(to: log) }
        }
        problems += readAll(cache)
        problems += await settle(cache)
        if mode == .damaged { problems += await recovers(cache) }
        await cache.shutdown()
        if mode != .damaged { problems += FolderFiles(folder).open.map { "\($0) is open to others" } }
        return (problems, counts)
    }

    private func readAll(_ cache: DataCache) -> [String] {
        var keys: [String] = []
        cache.forEachEntry { keys.append($0.key.string) }
        return keys.compactMap { key in
            guard let data = cache.readData(for: CacheKey(key)) else { return nil }
            return Entries.version(of: data, key: key) == nil ? "\(key) has wrong bytes" : nil
        }
    }

    /// Checks that the counted sizes match the files and respect the limit.
    private func settle(_ cache: DataCache) async -> [String] {
        guard mode != .damaged else { return [] }
        await cache.reconcile()
        var problems: [String] = []
        let counted = (cache.diskCount, cache.diskSize)
        let files = FolderFiles(folder).recordBytes
        if files > counted.1 { problems.append("\(files) bytes of files, \(counted.1) counted") }
        if mode == .limited, counted.1 > Orders.limit + Orders.staged(by: logs.count) {
            problems.append("\(counted.1) bytes count, over the limit")
        }
        let report = await cache.verify()
        if !report.isSound || report.unlisted > 0 || counted != (report.sound, report.bytes) {
            problems.append("counted \(counted.0) entries of \(counted.1) bytes: \(report)")
        }
        return problems
    }

    /// Checks that after `verify()` the store is sound and accepts new entries.
    private func recovers(_ cache: DataCache) async -> [String] {
        var problems: [String] = []
        _ = await cache.verify()
        await cache.synchronize()
        for number in 0..<20 {
            let key = "rk\(number)"
            let body = TortureEntry.body(key: key, version: 1, size: number * 500)
            do {
                try await cache.addDataAndWait(body, for: CacheKey(key))
            } catch {
                problems.append("\(key) fails after the damage: \(error)")
            }
            if cache.readData(for: CacheKey(key)) != body { problems.append("\(key) is not taken after the damage") }
        }
        let report = await cache.verify()
        if !report.isSound { problems.append("still damaged: \(report)") }
        return problems
    }
}
