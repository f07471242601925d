import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Entries survive the process", .timeLimit(.minutes(2)))
struct DurabilityTests {
    private let a = url("a")
    private var durable: DataRequest { DataRequest(a).with(\.durability, .durable) }

    @Test("an entry is there after a restart as it was, with everything known of it")
    func restart() async throws {
        let folder = TemporaryFolder()
        let first = TestCache(folder: folder)
        let sizes = [0, 1, 10, 2_047, 2_048, 2_049, 70_000]
        for size in sizes {
            let fields: HTTPHeaders = ["ETag": "\"\(size)\"", "Cache-Control": "max-age=500"]
            let answer = TransferResponse(headers: fields, body: DiskBytes.of(size))
            first.transport.script(url("\(size)"), [.response(answer)])
            let request = DataRequest(url("\(size)")).with(\.diskExpiration, .seconds(1_000))
            #expect(try await first.cache.getData(request).value == answer.body)
        }
        await first.cache.shutdown()
        let date = first.date
        let stored = date.now
        date.advance(by: 10)
        let test = TestCache(folder: folder, date: date)
        #expect(test.cache.diskCount == sizes.count && test.cache.memoryCount == 0)
        for size in sizes {
            let entry = try #require(test.cache.entry(for: CacheKey(url("\(size)"))))
            #expect(entry.url == url("\(size)").absoluteString && entry.key == CacheKey(url("\(size)")))
            #expect(entry.stored == stored && entry.expires == stored + 1_000 && entry.size >= size)
            let response = try #require(test.cache.response(for: url("\(size)")))
            #expect(response.data == DiskBytes.of(size) && response.source == .disk && response.status == 200)
            #expect(response.headers["ETag"] == "\"\(size)\"" && response.freshUntil == stored + 500)
        }
        await test.cache.shutdown()
    }

    @Test("keys with zero bytes, line breaks and letters of all kinds are kept whole and told apart")
    func strangeKeys() async throws {
        let folder = TemporaryFolder()
        let keys = ["same\0one", "same\0two", "\0", "same", "a\nb", "a\n#b", "é", "e\u{301}", " ", "../../x", "%00"]
        let all = keys + keys.map { $0 + "/large" }
        let first = TestCache(folder: folder)
        for key in all {
            let size = key.hasSuffix("large") ? 9_000 : 100
            try await first.cache.addDataAndWait(DiskBytes.of(size, key), for: CacheKey(key))
        }
        await first.cache.shutdown()
        let test = TestCache(folder: folder)
        #expect(test.cache.diskCount == all.count)
        for key in all {
            let size = key.hasSuffix("large") ? 9_000 : 100
            #expect(test.cache.entry(for: CacheKey(key))?.key == CacheKey(key))
            #expect(test.cache.data(for: CacheKey(key)) == DiskBytes.of(size, key), "\(key.debugDescription)")
        }
        #expect(await test.cache.verify().sound == all.count)
        await test.cache.shutdown()
    }

    @Test("what addDataAndWait has stored is on disk when it returns, whoever else writes at that moment")
    func waits() async throws {
        let folder = TemporaryFolder()
        let (test, other) = (TestCache(folder: folder), TestCache.onDisk(folder))
        let missed = try await withThrowingTaskGroup(of: Int.self) { group in
            for task in 0..<4 {
                group.addTask {
                    var missed = 0
                    for round in 0..<50 {
                        let key = CacheKey("\(task)/\(round)")
                        try await test.cache.addDataAndWait(Data(count: round * 60), for: key)
                        if other.cache.data(for: key)?.count != round * 60 { missed += 1 }
                    }
                    return missed
                }
            }
            return try await group.reduce(0, +)
        }
        #expect(missed == 0)
        await test.cache.shutdown()
        await other.cache.shutdown()
    }

    @Test("a hit does not write to the entries or to the index")
    func hits() async throws {
        let folder = TemporaryFolder()
        let test = TestCache.onDisk(folder)
        try await test.cache.keep(["small"], size: 100)
        try await test.cache.keep(["large"], size: 50_000)
        // Readers share a table of locks.
        func state() -> [String] { folder.inventory.filter { !$0.contains("-shm ") && !$0.contains("lock") } }
        let before = state()
        for _ in 0..<100 {
            #expect(test.cache.data(for: "small")?.count == 100)
            #expect(test.cache.data(for: "large")?.count == 50_000)
        }
        await test.cache.synchronize()
        #expect(state() == before)
        await test.cache.shutdown()
    }

    @Test("without a folder, or in one that cannot be used, no durable entry is told as written")
    func noDisk() async throws {
        let file = TemporaryFolder()
        try file.place("no folder", at: "taken")
        for folder in [nil, file.url.appendingPathComponent("taken"), URL(fileURLWithPath: "/proc/none/cache")] {
            let test = TestCache { $0.directory = folder }
            await #expect(throws: DipperError.notWritten) {
                try await test.cache.addDataAndWait(Data(count: 100), for: durable)
            }
            try await test.cache.addDataAndWait(Data(count: 100), for: DataRequest(a))
            #expect(test.cache.data(for: a)?.count == 100 && test.cache.diskCount == 0 && test.cache.diskSize == 0)
            test.transport.script(url("b"), [.body(Data(count: 100))])
            let fetch = DataRequest(url("b")).with(\.waitsForDiskWrite, true)
            #expect(await test.cache.getData(fetch.with(\.durability, .durable)).error == .notWritten)
            #expect(await test.cache.getData(fetch.with(\.cachePolicy, .ignoreCache)).error == nil)
            #expect(await test.cache.verify().isSound == (folder == nil))
            await test.cache.shutdown()
        }
        #expect(file.text("taken") == "no folder")
    }

    @Test("an empty key is refused, and so is everything after the shutdown")
    func refused() async throws {
        let test = TestCache(folder: TemporaryFolder())
        #expect(throws: DipperError.emptyKey) { try test.cache.addData(Data(), for: CacheKey("")) }
        await test.cache.shutdown()
        #expect(throws: DipperError.shutDown) { try test.cache.addData(Data(), for: a) }
        await #expect(throws: DipperError.shutDown) { try await test.cache.addDataAndWait(Data(), for: CacheKey(a)) }
        await #expect(throws: DipperError.shutDown) { try await test.cache.addDataAndWait(Data(), for: durable) }
    }
}
