import TestSupport
import Testing

@Suite("Entries survive the process", .timeLimit(.minutes(2)))
struct DurabilityTests {
    private let folder = TemporaryFolder()
    private let a = url("a")

    @Test("an entry is there after a restart as it was, with everything known of it")
    func restart() async throws {
        let first = TestCache(folder: folder)
        let sizes = [0, 1, 10, 2_048, 7_000, 8_192, 70_000]
        for size in sizes {
            let fields: HTTPHeaders = ["ETag": "\"\(size)\"", "Cache-Control": "max-age=500"]
            let answer = TransferResponse(headers: fields, body: DiskBytes.of(size))
            first.transport.script(url("\(size)"), [.response(answer)])
            let request = DataRequest(url("\(size)")).with(\.diskExpiration, .after(.seconds(1_000)))
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
            #expect(entry.stored == stored && entry.expires == stored + 1_000)
            #expect(entry.size >= size && entry.size < size + 1_000)
            #expect((test.cache.file(for: entry.key) != nil) == (size > 7_000), "a large one has a file")
            let response = try #require(test.cache.readResponse(for: url("\(size)")))
            #expect(response.data == DiskBytes.of(size) && response.source == .disk && response.status == 200)
            #expect(response.headers["ETag"] == "\"\(size)\"" && response.freshUntil == stored + 500)
        }
    }

    @Test("synchronize returns when all that was added before it is on disk", arguments: [50, 128, 300, 1_000])
    func synchronize(count: Int) async throws {
        let test = TestCache.onDisk(folder)
        for round in 1...3 {
            for number in 0..<count { try test.cache.addData(DiskBytes.of(100), for: CacheKey("\(round) \(number)")) }
            await test.cache.synchronize()
            #expect(test.cache.diskCount == round * count)
        }
    }

    @Test("keys with zero bytes, line breaks and letters of all kinds are kept whole and told apart")
    func strangeKeys() async throws {
        let small = ["same\0one", "same\0two", "\0", "same", "a\nb", "a\n#b", "é", "e\u{301}", " ", "../../x", "%00"]
        let large = small.map { $0 + "/large" }
        let first = TestCache(folder: folder).cache
        try await first.keep(small, size: 100)
        try await first.keep(large, size: 9_000)
        await first.shutdown()
        let cache = TestCache(folder: folder).cache
        #expect(cache.diskCount == small.count + large.count)
        for (keys, size) in [(small, 100), (large, 9_000)] {
            for key in keys {
                #expect(cache.entry(for: CacheKey(key))?.key == CacheKey(key))
                #expect(cache.readData(for: CacheKey(key)) == DiskBytes.of(size, key), "\(key.debugDescription)")
            }
        }
        #expect(await cache.verify().sound == small.count + large.count)
    }

    @Test("what addDataAndWait has stored is on disk when it returns, whoever else writes at that moment")
    func waits() async throws {
        let (test, other) = (TestCache(folder: folder), TestCache.onDisk(folder))
        try await withThrowingDiscardingTaskGroup { group in
            for task in 0..<4 {
                group.addTask {
                    for round in 0..<50 {
                        let key = CacheKey("\(task)/\(round)")
                        try await test.cache.addDataAndWait(Data(count: round * 60), for: key)
                        #expect(other.cache.readData(for: key)?.count == round * 60)
                    }
                }
            }
        }
    }

    @Test("a hit does not write to the entries or to the index")
    func hits() async throws {
        let test = TestCache.onDisk(folder)
        try await test.cache.keep(["small": 100, "large": 50_000])
        // Nobody waits for the comparison of files and index at the opening, which writes that it has been made.
        await test.cache.reconcile()
        // Readers share a table of locks.
        func state() -> [String] { folder.inventory.filter { !$0.contains("-shm ") && !$0.contains("lock") } }
        let before = state()
        for _ in 0..<100 {
            #expect(test.cache.readData(for: "small")?.count == 100)
            #expect(test.cache.readData(for: "large")?.count == 50_000)
        }
        await test.cache.synchronize()
        #expect(state() == before)
    }

    @Test("without a folder, or in one that cannot be used, no durable entry is told as written")
    func noDisk() async throws {
        let file = TemporaryFolder()
        try file.place("no folder", at: "taken")
        for folder in [nil, file.url.appendingPathComponent("taken"), URL(fileURLWithPath: "/proc/none/cache")] {
            let test = TestCache { $0.directory = folder }
            await test.cache.expectNotDurable()
            try await test.cache.addDataAndWait(Data(count: 100), for: DataRequest(a))
            #expect(test.cache.readData(for: a)?.count == 100 && test.cache.diskCount == 0 && test.cache.diskSize == 0)
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
        await #expect(throws: DipperError.shutDown) {
            try await test.cache.addDataAndWait(Data(), for: DataRequest.durable)
        }
    }

    // MARK: Files for other programs

    @Test("a request gives the file of its entry an extension, whatever the rule for the cache is")
    func ownExtension() async throws {
        let long = String(repeating: "n", count: 200)
        for naming in [.md5, .sha256(extension: .ofURL), .custom { _ in long }] as [FileNaming] {
            let test = TestCache(folder: TemporaryFolder()) { $0.fileNaming = naming }
            let (a, b) = (url("a.jpg"), url("b.jpg"))
            test.transport.script(a, [.body(DiskBytes.of(9_000))])
            let request = DataRequest(a).with(\.fileExtension, "bin").with(\.waitsForDiskWrite, true)
            _ = try await test.cache.getData(request).value
            try await test.cache.addDataAndWait(
                DiskBytes.of(9_000), for: DataRequest(b).with(\.fileExtension, "../x"))
            let file = try #require(test.cache.file(for: CacheKey(a)))
            #expect(file.pathExtension == "bin" && !file.path.contains("jpg"))
            #expect(try #require(test.cache.file(for: CacheKey(b))).pathExtension != "x")
            test.cache.removeData(for: a)
            try await test.cache.finishRemovals()
            #expect(!FileManager.default.fileExists(atPath: file.path))
        }
    }

    @Test(
        "a file has the name that the rule gives it, begins with the entry's bytes, and is found after a restart",
        arguments: [
            (.md5, "900150983cd24fb0d6963f7d28e17f72"), (.sha1, "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (.sha256(extension: .fixed("PNG")), "015ad.PNG"), (.custom { key in "page-\(key.string)" }, "page-abc"),
        ] as [(FileNaming, String)])
    func names(naming: FileNaming, expected: String) async throws {
        for round in 0..<2 {
            let cache = TestCache.onDisk(folder) { $0.fileNaming = naming }.cache
            if round == 0 { try await cache.keep(["abc": 9_000]) }
            let file = try #require(cache.file(for: "abc"))
            #expect(file.lastPathComponent.contains(expected), "\(file.lastPathComponent)")
            #expect(try Data(contentsOf: file).prefix(9_000) == DiskBytes.of(9_000, "abc"))
            #expect(cache.readData(for: "abc") == DiskBytes.of(9_000, "abc"))
            #expect(await cache.verify().sound == 1)
            await cache.shutdown()
        }
    }
}
