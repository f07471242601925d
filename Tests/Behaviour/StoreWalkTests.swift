import TestSupport
import Testing

/// A random walk of one or two caches on a folder, beside a naive model of what the folder holds.
@Suite("A store does what a naive model of it does", .timeLimit(.minutes(2)))
struct StoreWalkTests {
    @Test("a random walk of changes, restarts and limits, by one cache or two", arguments: [1, 2], 1...3)
    func walk(caches: Int, seed: Int) async throws {
        var walk = Walk(caches: caches, seed: UInt64(seed * 10 + caches))
        for step in 0..<workload(120) { try await walk.step(step) }
        await walk.end()
    }
}

private struct Walk {
    struct Entry {
        var bytes: Data
        var stored: Date
        var expires: Date?
    }

    private let folder = TemporaryFolder()
    private let date = ManualDate()
    private var caches: [DataCache] = []
    private var random: SeededRandom
    private var model: [String: Entry] = [:]
    private var limit: Int?
    private let seed: UInt64

    init(caches count: Int, seed: UInt64) {
        random = SeededRandom(seed)
        self.seed = seed
        for _ in 0..<count { caches.append(open()) }
    }

    private func open() -> DataCache {
        let (limit, compression) = (limit, seed % 3 == 0 ? StorageCompression.gzip : .off)
        return TestCache.onDisk(folder, date: date) {
            $0.diskLimit = limit
            $0.compression = compression
        }.cache
    }

    private func isExpired(_ entry: Entry) -> Bool { entry.expires.map { $0 <= date.now } ?? false }

    mutating func step(_ step: Int) async throws {
        date.advance(by: 1)
        let which = random.below(caches.count)
        let cache = caches[which]
        let key = "k\(random.below(24))"
        // The size down to which entries may leave; `nil` if none may.
        var room: Int?
        var what = "\(seed)/\(step): "
        switch random.below(100) {
        case ..<45:
            what += "add \(key)"
            let size = [random.below(400), 1_900 + random.below(300), random.below(12_000)][random.below(3)]
            let expires = random.below(5) == 0 ? date.now + Double(1 + random.below(30)) : nil
            let bytes = DiskBytes.of(size, "\(step)")
            let expiration = expires.map(Expiration.date)
            let request = DataRequest(url(key)).with(\.key, CacheKey(key)).with(\.diskExpiration, expiration)
            if random.below(2) == 0 {
                try await cache.addDataAndWait(bytes, for: request)
            } else {
                try cache.addData(bytes, for: request)
            }
            model[key] = Entry(bytes: bytes, stored: date.now, expires: expires)
            room = limit
        case ..<65:
            what += "read \(key)"
            let read = cache.readData(for: CacheKey(key))
            let expected = model[key].flatMap { isExpired($0) ? nil : $0.bytes }
            #expect(read == expected, "\(what)")
        case ..<75:
            what += "remove \(key)"
            cache.removeData(for: CacheKey(key))
            #expect(cache.readData(for: CacheKey(key)) == nil, "\(what)")
            model[key] = nil
        case ..<80:
            let age = random.below(80)
            what += "flush \(age)"
            cache.flush(olderThan: .milliseconds(age * 1_000 + 500))
            let oldest = date.now - Double(age) - 0.5
            model = model.filter { $0.value.stored >= oldest && !isExpired($0.value) }
        case ..<83:
            what += "remove expired"
            cache.removeExpired()
            model = model.filter { !isExpired($0.value) }
        case 83:
            what += "clear"
            cache.clear()
            #expect(cache.listedKeys.isEmpty, "\(what)")
            model = [:]
        case ..<92:
            what += "reopen"
            await cache.shutdown()
            caches[which] = open()
        case ..<95:
            let size = random.below(60_000)
            what += "trim to \(size)"
            cache.trimDisk(to: size)
            await cache.synchronize()
            #expect(cache.diskSize <= size, "\(what)")
            room = size
        case ..<98:
            limit = random.below(3) == 0 ? nil : 20_000 + random.below(60_000)
            what += "limit \(limit ?? -1)"
            for cache in caches {
                cache.diskLimit = limit
                await cache.synchronize()
            }
            room = limit
        default:
            what += "verify"
            let report = await cache.verify()
            #expect(report.isSound && report.sound == cache.diskCount && report.bytes == cache.diskSize, "\(what)")
        }
        await cache.synchronize()
        try check(room, what)
    }

    /// Compares every cache with the model, in which what was evicted is forgotten first.
    private mutating func check(_ room: Int?, _ what: String) throws {
        if let room {
            let listed = caches[0].listedKeys
            let left = model.filter { listed.contains($0.key) || isExpired($0.value) }
            let size = caches[0].diskSize
            if let limit { #expect(size <= limit, "\(what)") }
            if left.count < model.count { #expect(size > room * 4 / 5 - 13_000, "more than had to leave: \(what)") }
            model = left
        }
        // What has expired may be listed until it is removed.
        let expired = Set(model.filter { isExpired($0.value) }.keys)
        let present = Set(model.keys).subtracting(expired)
        for cache in caches {
            let keys = cache.listedKeys
            try #require(keys.isSuperset(of: present) && keys.isSubset(of: present.union(expired)), "\(what)")
            var size = 0
            cache.forEachEntry { size += $0.size }
            try #require(cache.diskCount == keys.count && cache.diskSize == size, "\(what)")
            for key in ["k0", "k1", "k2"] {
                try #require(cache.hasData(for: CacheKey(key)) == present.contains(key), "\(what): \(key)")
            }
        }
    }

    /// Compares all bytes with the model, and once more after a restart.
    mutating func end() async {
        for cache in caches { await cache.shutdown() }
        caches = [open()]
        for (key, entry) in model where !isExpired(entry) {
            #expect(caches[0].readData(for: CacheKey(key)) == entry.bytes, "\(seed): \(key)")
        }
        let report = await caches[0].verify()
        #expect(report.isSound && report.unlisted == 0 && report.unfinished == 0, "\(seed): \(report)")
        await caches[0].shutdown()
    }
}
