import DipperData
import Foundation
import TortureSupport

/// A process that works on a folder until it is killed.
struct Worker {
    private let orders: Orders
    private let log: LedgerFile
    private let cache: DataCache
    private let parent = getppid()

    init(_ orders: Orders) {
        self.orders = orders
        log = LedgerFile(orders.log)
        cache = DataCache(Orders.configuration(orders.mode, orders.folder))
    }

    func run() async -> Never {
        // Small entries are in the index, so the cache does not find them before it has opened the index.
        await cache.indexOpened()
        if orders.mode == .kept {
            // The entries that the previous process left.
            for problem in WriteLedger(log: orders.log).compare(cache).problems {
                log.complain("after a kill: \(problem)")
            }
        }
        await withDiscardingTaskGroup { group in
            for strand in 0..<Orders.strands { group.addTask { await work(strand) } }
            group.addTask { await tidy() }
        }
        exit(70)
    }

    // MARK: Entries

    private func work(_ strand: Int) async {
        var random = SeededRandom(orders.seed &+ UInt64(strand))
        while true {
            switch orders.mode {
            case .kept: await changeOwn(strand, &random)
            case .limited, .damaged: await changeAny(&random)
            }
            readAny(&random)
        }
    }

    /// Changes a key that only this strand of this process changes, or sometimes one that all processes write.
    private func changeOwn(_ strand: Int, _ random: inout SeededRandom) async {
        if random.oneIn(8) { return await write(Entries.sharedKey(&random), &random) }
        let number = Int.random(in: 0..<15, using: &random) * Orders.strands + strand
        let key = "w\(orders.place)\(random.oneIn(4) ? "f" : "k")\(number)"
        if random.oneIn(6) {
            log.note("- \(key)")
            cache.removeData(for: CacheKey(key))
            await cache.synchronize()
            log.note("~ \(key)")
        } else {
            await write(key, &random)
        }
        if let data = cache.readData(for: CacheKey(key)), Entries.version(of: data, key: key) == nil {
            log.complain("\(key) has wrong bytes")
        }
    }

    private func write(_ key: String, _ random: inout SeededRandom) async {
        if Entries.isFetched(key) {
            let isShared = orders.mode != .kept
            guard let request = Entries.request(key, isShared: isShared, port: orders.port, &random) else { return }
            log.note("+ \(key) 0")
            let task = random.oneIn(2) ? cache.getData(request) : cache.getRemoteData(request)
            switch await task.result {
            case .success(let data):
                if Entries.version(of: data, key: key) == nil { log.complain("\(key) was fetched with wrong bytes") }
                log.note("= \(key) 0")
            case .failure(let error) where Entries.breaksOff(request) && [.truncated, .connectionLost].contains(error):
                // The beginning is on disk; the next call continues it.
                log.note("# broken off")
            case .failure(let error): failed(key, request, error)
            }
        } else {
            let version = random.next() >> 1
            var request = DataRequest(string: "").with(\.durability, random.oneIn(2) ? .durable : .relaxed)
            request.key = CacheKey(key)
            let body = TortureEntry.body(key: key, version: version, size: Entries.size(&random))
            log.note("+ \(key) \(version)")
            do {
                try await cache.addDataAndWait(body, for: request)
                log.note("= \(key) \(version)")
            } catch {
                failed(key, request, error)
            }
        }
    }

    /// Where other processes remove entries or bytes of the index are flipped, a durable entry may be removed before it
    /// is written. Every other failure is a problem.
    private func failed(_ key: String, _ request: DataRequest, _ error: any Error) {
        let isExplained = orders.mode != .kept && error as? DipperError == .notWritten && request.durability == .durable
        if isExplained { log.note("# not written") } else { log.complain("\(key) fails: \(error)") }
    }

    private func changeAny(_ random: inout SeededRandom) async {
        let key = "s\(random.oneIn(4) ? "f" : "k")\(Int.random(in: 0..<400, using: &random))"
        switch Int.random(in: 0..<2_000, using: &random) {
        case 0: cache.clear()
        case 1..<100: cache.removeData(for: CacheKey(key))
        default: await write(key, &random)
        }
    }

    private func readAny(_ random: inout SeededRandom) {
        let kind = random.oneIn(4) ? "f" : "k"
        let isKept = orders.mode == .kept
        let key =
            isKept ? "w\(random.below(orders.processes))\(kind)\(random.below(60))" : "s\(kind)\(random.below(400))"
        guard let data = cache.readData(for: CacheKey(key)) else { return }
        log.note("# read")
        if Entries.version(of: data, key: key) == nil { log.complain("\(key) has wrong bytes: \(data.count)") }
    }

    // MARK: Maintenance

    private func tidy() async {
        var random = SeededRandom(orders.seed &+ 99)
        while true {
            // The parent process, which would kill this one, is gone.
            if getppid() != parent { exit(0) }
            await tidyOnce(&random)
            await cache.synchronize()
            guard orders.mode == .limited else { continue }
            let size = cache.diskSize
            if size > Orders.limit + Orders.staged(by: orders.processes) {
                log.complain("\(size) bytes count, over the limit")
            }
        }
    }

    private func tidyOnce(_ random: inout SeededRandom) async {
        let isKept = orders.mode == .kept
        switch Int.random(in: 0..<5, using: &random) {
        case 0:
            let report = await cache.verify()
            log.note("# verify")
            if orders.mode != .damaged, !report.isSound { log.complain("\(report)") }
        case 1: cache.removeExpired()
        case 2:
            log.note("# trim")
            cache.trimDisk(to: isKept ? 1 << 40 : Int.random(in: Orders.limit / 2...Orders.limit, using: &random))
        case 3:
            log.note("# flush")
            cache.flush(
                olderThan: isKept ? .seconds(86_400) : .milliseconds(Int.random(in: 2_000...20_000, using: &random)))
        default: cache.forEachEntry { _ in }
        }
    }
}
