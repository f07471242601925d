import TestSupport
import Testing

@Suite("A disk that fails or is slow, made with FailingDisk, or whose index is held", .timeLimit(.minutes(2)))
struct DiskFailureTests {
    private let folder = TemporaryFolder()
    private let disk = FailingDisk()

    private func cache(memoryLimit: Int = 1 << 20) -> TestCache {
        TestCache(folder: folder) {
            $0.memoryLimit = memoryLimit
            disk.attach(to: &$0)
        }
    }

    @Test("full: entries stay in memory, nothing out of date is found, and writing goes on when there is room")
    func full() async throws {
        let test = cache()
        try await test.cache.keep(["kept": 9_000, "large": 9_000, "small": 100])
        disk.fail(.full)
        let refusals = disk.refusals
        for (key, size) in [("new", 8_000), ("large", 8_000), ("small", 200)] {
            try await test.cache.addDataAndWait(DiskBytes.of(size, "new"), for: CacheKey(key))
            #expect(test.cache.readData(for: CacheKey(key)) == DiskBytes.of(size, "new"), "in memory")
        }
        try await disk.waitForRefusals(refusals + 3)
        await test.cache.expectNotDurable()
        func expectNothingOld(_ cache: DataCache) {
            cache.clearMemory()
            for key: CacheKey in ["new", "large", "small"] { #expect(cache.readData(for: key) == nil, "\(key)") }
            #expect(cache.readData(for: "kept") == DiskBytes.of(9_000, "kept"))
        }
        expectNothingOld(test.cache)
        disk.heal()
        try await test.cache.addDataAndWait(Data(count: 300), for: DataRequest.durable)
        expectNothingOld(test.cache)
        #expect(test.cache.readData(for: DataRequest.durable)?.count == 300)
        let again = await test.reopened()
        expectNothingOld(again.cache)
        #expect(again.cache.readData(for: DataRequest.durable)?.count == 300)
        #expect(await again.cache.verify().isSound)
    }

    @Test("read-only: reads go on, and what is removed or cleared is not found any more")
    func readOnly() async throws {
        let test = cache(memoryLimit: 0)
        try await test.cache.keep(["a": 9_000, "b": 9_000, "c": 100, "d": 100])
        disk.fail(.readOnly)
        for key in ["a", "b", "c", "d"] { #expect(test.cache.readData(for: CacheKey(key)) != nil) }
        for key: CacheKey in ["a", "c"] { test.cache.removeData(for: key) }
        await test.cache.synchronize()
        for key: CacheKey in ["a", "c"] {
            #expect(test.cache.readData(for: key) == nil && !test.cache.hasData(for: key))
        }
        for key: CacheKey in ["b", "d"] { #expect(test.cache.readData(for: key) != nil) }
        test.cache.clear()
        await test.cache.synchronize()
        disk.heal()
        test.date.advance(by: 1)
        try await test.cache.keep(["after"], size: 9_000)
        for key: CacheKey in ["a", "b", "c", "d"] { #expect(test.cache.readData(for: key) == nil) }
        #expect(test.cache.readData(for: "after") == DiskBytes.of(9_000, "after"))
    }

    @Test("I/O errors: entries are fetched instead, and are there again when the disk is, none taken for damaged")
    func ioError() async throws {
        let test = cache(memoryLimit: 0)
        try await test.cache.keep(["large": 9_000, "small": 100])
        disk.fail(.ioError)
        for key: CacheKey in ["large", "small"] { #expect(test.cache.readData(for: key) == nil) }
        test.transport.script(url("a"), [.body(Data(count: 10))])
        for _ in 0..<2 {
            #expect(try await test.cache.getData(url("a")).response.source == .network)
            // While it waits to be written it can be read.
            await test.cache.idle()
        }
        #expect(disk.refusals > 0)
        disk.heal()
        #expect(test.cache.readData(for: "large") == DiskBytes.of(9_000, "large"))
        #expect(test.cache.readData(for: "small") == DiskBytes.of(100, "small"))
        await test.cache.synchronize()
        #expect(await test.cache.verify().damaged == 0)
    }

    @Test(
        "a cache that is opened on a failing disk works in memory, and keeps entries once the disk works",
        arguments: [.full, .readOnly, .ioError] as [FailingDisk.Fault])
    func opening(fault: FailingDisk.Fault) async throws {
        disk.fail(fault)
        let test = cache()
        try await test.cache.addDataAndWait(Data(count: 100), for: "a")
        #expect(test.cache.readData(for: "a")?.count == 100 && test.cache.diskCount == 0)
        disk.heal()
        try await test.cache.keep(["b"], size: 9_000)
        test.cache.clearMemory()
        #expect(test.cache.readData(for: "b") == DiskBytes.of(9_000, "b") && test.cache.diskCount == 1)
    }

    @Test("what cannot be flushed is not durable, and other entries are not held up by it")
    func flushing() async throws {
        let test = cache(memoryLimit: 0)
        disk.fail([.flush])
        for size in [100, 9_000] {
            await test.cache.expectNotDurable(size)
            try await test.cache.keep(["relaxed"], size: size)
            #expect(test.cache.readData(for: "relaxed") == DiskBytes.of(size, "relaxed"))
        }
        disk.heal()
        try await test.cache.addDataAndWait(Data(count: 9_000), for: DataRequest.durable)
    }

    @Test("slow: entries can be read while they are written, and a wait for the disk lasts until they are")
    func slow() async throws {
        let (test, other) = (cache(memoryLimit: 0), TestCache.onDisk(folder))
        // What opening the folder has begun is over then.
        _ = await test.cache.verify()
        disk.hold()
        let hasEnded = Box(false)
        let adding = Task { [cache = test.cache] in
            try await cache.addDataAndWait(DiskBytes.of(9_000, "a"), for: "a")
            hasEnded.update { $0 = true }
        }
        try await disk.waitForHeld(1)
        #expect(test.cache.readData(for: "a") == DiskBytes.of(9_000, "a") && other.cache.readData(for: "a") == nil)
        #expect(!hasEnded.value)
        disk.release()
        try await adding.value
        #expect(other.cache.readData(for: "a") == DiskBytes.of(9_000, "a") && disk.held == 0)
    }

    @Test("a file that cannot be deleted is an error of its removal, and is deleted once the disk works")
    func files() async throws {
        let test = cache(memoryLimit: 0)
        try await test.cache.keep(["a"], size: 9_000)
        let file = try #require(test.cache.file(for: "a"))
        disk.fail([.remove])
        test.cache.removeData(for: "a")
        await #expect(throws: DipperError.notRemoved) { try await test.cache.finishRemovals() }
        #expect(test.cache.readData(for: "a") == nil && FileManager.default.fileExists(atPath: file.path))
        disk.heal()
        // The attempt that came before the disk was well counts, too.
        _ = try? await test.cache.finishRemovals()
        test.cache.clear()
        try await test.cache.finishRemovals()
        #expect(!FileManager.default.fileExists(atPath: file.path))
    }

    @Test("a file that cannot be deleted is an error as often as it is asked about, also beside another open cache")
    func stillThere() async throws {
        let (test, other) = (cache(memoryLimit: 0), TestCache.onDisk(folder))
        try await other.cache.keep(["a"], size: 9_000)
        // Its look at the files of a new folder deletes those that have been removed, too.
        await other.cache.reconcile()
        let file = try #require(test.cache.file(for: "a"))
        disk.fail([.remove])
        test.cache.removeData(for: "a")
        for _ in 0..<3 {
            await #expect(throws: DipperError.notRemoved) { try await test.cache.finishRemovals() }
            #expect(FileManager.default.fileExists(atPath: file.path))
        }
        disk.heal()
        try await test.cache.finishRemovals()
        #expect(!FileManager.default.fileExists(atPath: file.path))
    }

    @Test("nothing is left to remove in a folder that is refused, or cannot be written, if entries were only added")
    func onlyAdded() async throws {
        for isRefused in [true, false] {
            let folder = TemporaryFolder()
            if isRefused {
                try Data("theirs".utf8).write(to: folder.url.appendingPathComponent("theirs"))
            } else {
                disk.fail(.readOnly)
            }
            let test = TestCache(folder: folder) { disk.attach(to: &$0) }
            try await test.cache.addDataAndWait(Data(count: 10), for: "new")
            try await test.cache.finishRemovals()
            try test.cache.addData(Data(count: 10), for: "newer")
            try await test.cache.finishRemovals()
            #expect(test.cache.readData(for: "newer")?.count == 10, "in memory")
            test.cache.trimDisk(to: 0)
            await #expect(throws: DipperError.notRemoved) { try await test.cache.finishRemovals() }
            disk.heal()
        }
    }

    // MARK: An index that another process holds

    private func filled() async throws -> TestCache {
        let test = TestCache.onDisk(folder)
        try await test.cache.keep(["a": 9_000, "b": 9_000, "c": 100])
        return test
    }

    /// Another process that holds the index until it ends.
    /// - Parameter isClosing: whether the index cannot even be read, as while the last process that has it open closes it.
    private func hold(isClosing: Bool = false) async throws -> LineTool {
        let program = """
            import fcntl, sqlite3, sys, time
            if \(isClosing ? "True" : "False"):
                index = open(sys.argv[1], 'r+b')
                fcntl.lockf(index, fcntl.LOCK_EX, 510, 0x40000002)
            else:
                index = sqlite3.connect(sys.argv[1], isolation_level=None)
                index.execute('BEGIN IMMEDIATE')
            print('held', flush=True)
            sys.stdin.readline()
            time.sleep(\(isClosing ? 0.3 : 0))
            """
        let index = folder.url.appendingPathComponent("index.sqlite").path
        let tool = try LineTool("/usr/bin/python3", ["-c", program, index])
        #expect(await tool.nextLine() == "held")
        return tool
    }

    @Test(
        "an index that is held is read; what is added waits in memory, what is removed is gone; all is on disk afterwards",
        .timeLimit(.minutes(1)))
    func letGo() async throws {
        let test = try await filled()
        let holder = try await hold()
        try test.cache.addData(DiskBytes.of(9_000, "new"), for: "b")
        try test.cache.addData(DiskBytes.of(100, "d"), for: "d")
        test.cache.removeData(for: "a")
        func expectChanged(_ cache: DataCache) {
            #expect(cache.readData(for: "a") == nil)
            #expect(cache.readData(for: "b") == DiskBytes.of(9_000, "new"))
            #expect(cache.readData(for: "c") == DiskBytes.of(100, "c"))
            #expect(cache.readData(for: "d") == DiskBytes.of(100, "d"))
        }
        expectChanged(test.cache)
        holder.end()
        await test.cache.synchronize()
        expectChanged(test.cache)
        let again = await test.reopened()
        expectChanged(again.cache)
        #expect(await again.cache.verify().isSound)
    }

    @Test(
        "a read that comes before the index is open waits until another process has closed it", .timeLimit(.minutes(1)))
    func closing() async throws {
        await (try await filled()).cache.shutdown()
        let holder = try await hold(isClosing: true)
        // The holder lets go by itself: a machine with much to do may run the test's next line seconds later.
        holder.write("\n")
        let test = TestCache(folder: folder)
        #expect(test.cache.readData(for: "b") == DiskBytes.of(9_000, "b"))
        #expect(test.cache.diskCount == 3)
        await test.cache.shutdown()
    }

    @Test(
        "a held index holds up no end of a cache, whatever waits to be written and removed; what was on disk stays",
        .timeLimit(.minutes(1)))
    func ending() async throws {
        let test = try await filled()
        let holder = try await hold()
        for number in 0..<300 { try test.cache.addData(Data(count: 100), for: CacheKey("new \(number)")) }
        for number in 0..<20 { test.cache.removeDerived(of: CacheKey("old \(number)")) }
        await test.cache.shutdown()
        holder.end()
        let again = TestCache(folder: folder)
        #expect(again.cache.readData(for: "b") == DiskBytes.of(9_000, "b"))
        #expect(await again.cache.verify().isSound)
    }

    @Test(
        "work on a held index that nobody waits for delays nobody, and is done when the index is let go",
        .timeLimit(.minutes(1)))
    func background() async throws {
        await (try await filled()).cache.shutdown()
        let holder = try await hold()
        // After a reboot, files and rows are compared, and the index notes that they have been.
        let test = TestCache(folder: folder) { $0.boot = "next" }
        let begun = ContinuousClock.now
        async let report = test.cache.verify()
        await test.cache.synchronize()
        #expect(.now - begun < .seconds(20))
        holder.end()
        await test.cache.reconcile()
        #expect(await report.isSound)
        await test.cache.shutdown()
    }

    @Test(
        "a store that was killed is cleaned up after once the index that another process holds is let go",
        .timeLimit(.minutes(1)))
    func killed() async throws {
        await (try await filled()).cache.shutdown()
        let lock = folder.url.appendingPathComponent("stores/0123456789abcdef.lock")
        try Data().write(to: lock)
        let holder = try await hold()
        let test = TestCache(folder: folder)
        await test.cache.synchronize()
        #expect(FileManager.default.fileExists(atPath: lock.path))
        holder.end()
        await test.cache.reconcile()
        #expect(!FileManager.default.fileExists(atPath: lock.path))
        await test.cache.shutdown()
    }

    // MARK: Reads that wait for the disk

    private let keys = (0..<40).map { "k\($0)" }

    /// Returns a cache with entries, whose reads the disk holds.
    private func reading() async throws -> TestCache {
        let test = cache(memoryLimit: 0)
        try await test.cache.keep(keys + ["urgent"], size: 9_000)
        disk.hold([.read])
        return test
    }

    private func request(_ key: String, _ priority: Priority = .low) -> DataRequest {
        DataRequest(url(key)).with(\.key, CacheKey(key)).with(\.priority, priority)
    }

    @Test("a call of high priority is answered before those that wait for the disk, also for an entry of theirs")
    func order() async throws {
        let test = try await reading()
        let order = Box<[String]>([])
        var tasks: [DataTask] = []
        func call(_ name: String, _ request: DataRequest) {
            tasks.append(test.cache.getData(request).onEnd { _ in order.update { $0.append(name) } })
        }
        for key in keys { call(key, request(key)) }
        try await disk.waitForHeld(1)
        call("urgent", request("urgent", .high))
        call("again", request("k39", .high))
        disk.release()
        for task in tasks { #expect(try await task.response.source == .disk) }
        await test.cache.idle()
        let early = order.value.prefix(12)
        #expect(early.contains("urgent") && early.contains("again"), "\(order.value)")
        #expect(test.transport.transfers.isEmpty)
    }

    @Test("a call that is cancelled while it waits for the disk is not looked up")
    func cancelled() async throws {
        let test = try await reading()
        disk.fail([.read])
        let tasks = keys.map { test.cache.getData(request($0)) }
        try await disk.waitForHeld(1)
        for task in tasks { task.cancel() }
        for task in tasks { #expect(await task.error == .cancelled) }
        disk.release()
        await test.cache.idle()
        #expect(disk.refusals < 12)
        #expect(test.transport.transfers.isEmpty)
    }

    @Test("a picture that is added while the disk is asked is what later calls get")
    func added() async throws {
        let a = url("a")
        let test = TestImageCache(folder: folder) { disk.attach(to: &$0.data) }
        try test.script(a, .sample(seed: 3))
        try await test.load(a)
        test.cache.clearMemory()
        disk.hold([.read])
        let task = test.cache.getImage(a)
        try await disk.waitForHeld(1)
        let new = Image.sample(seed: 90)
        try test.cache.addImage(new, for: a)
        disk.release()
        _ = try await task.value
        await test.cache.idle()
        #expect(try await test.pixels(a) == new.pixels)
        let restarted = await test.reopened()
        #expect(try await restarted.pixels(a) == new.pixels)
        #expect(restarted.transport.transfers.isEmpty)
    }
}

@Suite(
    "A real disk that is full or read-only", .enabled(if: geteuid() == 0, "mounting a tmpfs needs root"),
    .timeLimit(.minutes(2)))
struct RealDiskTests {
    @Test("full: the cache goes on in memory, durable writes fail, and it writes again when there is room")
    func full() async throws {
        let mount = try Mount(megabytes: 2)
        let test = TestCache { $0.directory = mount.cache }
        for number in 0..<40 {
            try await test.cache.addDataAndWait(DiskBytes.of(100_000, "\(number)"), for: CacheKey("\(number)"))
        }
        await test.cache.expectNotDurable(1 << 20)
        for number in 0..<40 { #expect(test.cache.readData(for: CacheKey("\(number)"))?.count == 100_000, "in memory") }
        test.cache.clearMemory()
        for number in 0..<40 {
            let read = test.cache.readData(for: CacheKey("\(number)"))
            #expect(read == nil || read == DiskBytes.of(100_000, "\(number)"))
        }
        test.cache.clear()
        await test.cache.synchronize()
        try await test.cache.addDataAndWait(Data(count: 50_000), for: "after")
        test.cache.clearMemory()
        #expect(test.cache.readData(for: "after")?.count == 50_000)
        #expect(await test.cache.verify().isSound)
        await test.cache.shutdown()
    }

    @Test("full while a body arrives: what came before stays, and no file is left over")
    func fullWhileArriving() async throws {
        let mount = try Mount(megabytes: 8)
        let whole = DiskBytes.noise(6 << 20)
        let fields: HTTPHeaders = ["ETag": "\"v\"", "Content-Length": "\(whole.count)"]
        // The other cache sees what a program would find that starts after this one was killed.
        let open = {
            TestCache.onDisk(mount.folder) {
                $0.directory = mount.cache
                $0.leases.sharesFolder = false
            }
        }
        var test = open()
        try await test.leave(TransferResponse(headers: fields, body: whole.prefix(2 << 20)), of: url("a"))
        await test.cache.shutdown()
        try mount.fill(leaving: 1 << 20)
        test = open()
        let (task, transfer) = try await test.begin(url("a"))
        let part: HTTPHeaders = [
            "ETag": "\"v\"", "Content-Range": "bytes \(2 << 20)-\(whole.count - 1)/\(whole.count)",
        ]
        transfer.hold(TransferResponse(status: 206, headers: part, body: whole[(2 << 20)..<(4 << 20)]))
        _ = test.cache.queueCounts
        await test.cache.synchronize()
        #expect(mount.blobs == 1)
        #expect(try await open().nextFields(of: url("a"))["Range"] == "bytes=\(2 << 20)-")
        transfer.finish(with: Data(whole[(2 << 20)...]), status: 206, headers: part)
        #expect(try await task.value == whole)
        await test.cache.synchronize()
        #expect(mount.blobs <= 1)
        await test.cache.shutdown()
    }

    @Test("read-only: large entries are read, and nothing is an error")
    func readOnly() async throws {
        let mount = try Mount(megabytes: 8)
        let writer = TestCache { $0.directory = mount.cache }
        try await writer.cache.keep(["large"], size: 9_000)
        await writer.cache.shutdown()
        try mount.makeReadOnly()
        let reader = TestCache { $0.directory = mount.cache }
        #expect(reader.cache.readData(for: "large") == DiskBytes.of(9_000, "large"))
        try await reader.cache.addDataAndWait(Data(count: 10), for: "new")
        #expect(reader.cache.readData(for: "new")?.count == 10, "in memory")
        try await reader.cache.addDataAndWait(Data(count: 20), for: "large")
        reader.cache.clearMemory()
        #expect(reader.cache.readData(for: "large")?.count != 9_000, "it is out of date")
        reader.cache.removeData(for: "large")
        reader.cache.clear()
        await reader.cache.synchronize()
        #expect(!reader.cache.hasData(for: "large"))
        await reader.cache.shutdown()
    }

    // MARK: Removing on a full disk

    enum Removing: String, CaseIterable {
        case one, trim, flush, clear

        func run(_ cache: DataCache) {
            switch self {
            case .one: cache.removeData(for: "k0")
            case .trim: cache.trimDisk(to: 0)
            case .flush: cache.flush(olderThan: .seconds(-1))
            case .clear: cache.clear()
            }
        }
    }

    @Test(
        "full: what is removed is gone with its files, also if the folder is opened when it is full",
        arguments: Removing.allCases, [false, true])
    func removing(how: Removing, isReopened: Bool) async throws {
        let mount = try Mount(megabytes: 3)
        var test = TestCache { $0.directory = mount.cache }
        try await test.cache.keep((0..<12).map { "k\($0)" }, size: 90_000)
        try await test.cache.keep((0..<200).map { "small \($0)" }, size: 2_000)
        #expect(mount.blobs == 12 && test.cache.diskCount == 212)
        if isReopened { await test.cache.shutdown() }
        try mount.fill()
        if isReopened { test = TestCache { $0.directory = mount.cache } }
        how.run(test.cache)
        try await test.cache.finishRemovals()
        test.cache.clearMemory()
        if how == .one {
            // Others may have made room.
            #expect((6...11).contains(mount.blobs) && test.cache.diskCount >= 190)
            #expect(test.cache.readData(for: "k0") == nil && test.cache.readData(for: "k11") != nil)
        } else {
            #expect(mount.blobs == 0 && test.cache.diskCount == 0)
        }
        test.cache.clear()
        try await test.cache.finishRemovals()
        #expect(mount.blobs == 0 && test.cache.diskCount == 0)
        #expect(await test.cache.verify().isSound)
        await test.cache.shutdown()
    }

    @Test("full of small entries alone, which have no files: they can be removed one after the other, and all")
    func removingSmall() async throws {
        let mount = try Mount(megabytes: 3)
        let test = TestCache.onDisk(mount.folder) { $0.directory = mount.cache }
        try await test.cache.keep((0..<100).map { "k\($0)" }, size: 8_000)
        try mount.fill()
        for number in 0..<40 {
            test.cache.removeData(for: CacheKey("k\(number)"))
            try await test.cache.finishRemovals()
        }
        #expect((50...60).contains(test.cache.diskCount), "\(test.cache.diskCount)")
        #expect(test.cache.readData(for: "k0") == nil && test.cache.readData(for: "k99") != nil)
        test.cache.clear()
        try await test.cache.finishRemovals()
        #expect(test.cache.diskCount == 0 && test.cache.listedKeys.isEmpty)
        await test.cache.shutdown()
    }

    @Test("a folder that an earlier version has left without room for removals gives up files of entries for it")
    func noReserve() async throws {
        let mount = try Mount(megabytes: 3)
        let writer = TestCache { $0.directory = mount.cache }
        try await writer.cache.keep((0..<12).map { "k\($0)" }, size: 90_000)
        await writer.cache.shutdown()
        try FileManager.default.removeItem(at: mount.cache.appendingPathComponent("reserve"))
        try mount.fill()
        let test = TestCache { $0.directory = mount.cache }
        test.cache.clear()
        try await test.cache.finishRemovals()
        #expect(mount.blobs == 0 && test.cache.diskCount == 0)
        await test.cache.shutdown()
    }

    /// Returns a cache with twelve entries of 90,000 bytes, whose files leave no room when they are deleted.
    private func kept(on mount: Mount, _ disk: FailingDisk? = nil) async throws -> TestCache {
        let test = TestCache.onDisk(mount.folder) {
            $0.directory = mount.cache
            disk?.attach(to: &$0)
        }
        try await test.cache.keep((0..<12).map { "k\($0)" }, size: 90_000)
        try mount.keepBlobs()
        return test
    }

    @Test("removals on a full disk where deleting files frees nothing give up few of them, however many fail")
    func snapshots() async throws {
        let (mount, disk) = (try Mount(megabytes: 3), FailingDisk())
        let test = try await kept(on: mount, disk)
        try FileManager.default.removeItem(at: mount.cache.appendingPathComponent("reserve"))
        try mount.fill()
        disk.fail(.full)
        for number in 0..<5 {
            test.cache.removeData(for: CacheKey("k\(number)"))
            await #expect(throws: DipperError.notRemoved) { try await test.cache.finishRemovals() }
            test.cache.removeDerived(of: CacheKey("k\(number)"))
            await #expect(throws: DipperError.notRemoved) { try await test.cache.finishRemovals() }
        }
        #expect(mount.blobs == 6)
        await test.cache.shutdown()
    }

    @Test("a crowded volume where deleting files frees nothing costs a few entries a minute, not all")
    func vainEviction() async throws {
        let mount = try Mount(megabytes: 3)
        let test = try await kept(on: mount)
        try mount.fill()
        func write() async throws {
            for number in 0..<20 {
                try await test.cache.addDataAndWait(Data(count: 90_000), for: CacheKey("\(number)"))
            }
        }
        try await write()
        let left = mount.blobs
        #expect((6..<12).contains(left))
        test.date.advance(by: 61)
        try await write()
        #expect((left / 2..<left).contains(mount.blobs))
        await test.cache.shutdown()
    }

    @Test("what is written right after clearing a crowded volume stays")
    func afterClearing() async throws {
        let mount = try Mount(megabytes: 4)
        let test = TestCache.onDisk(mount.folder) { $0.directory = mount.cache }
        try await test.cache.keep((0..<12).map { "k\($0)" }, size: 90_000)
        try mount.fill(leaving: 550_000)
        test.cache.clear()
        try await test.cache.addDataAndWait(DiskBytes.of(450_000, "new"), for: DataRequest.durable)
        try await test.cache.finishRemovals()
        test.cache.clearMemory()
        #expect(test.cache.readData(for: DataRequest.durable)?.count == 450_000 && mount.blobs == 1)
        await test.cache.shutdown()
    }

    @Test("a volume that can have no more files gives up the reserve for a cache that is opened")
    func openingWhenFull() async throws {
        let mount = try Mount(megabytes: 3, files: 200)
        let test = TestCache.onDisk(mount.folder) { $0.directory = mount.cache }
        try await test.cache.keep(["a"], size: 9_000)
        try mount.fillWithFiles()
        let other = TestCache.onDisk(mount.folder) { $0.directory = mount.cache }
        other.cache.clear()
        try await other.cache.finishRemovals()
        #expect(mount.blobs == 0)
        await other.cache.shutdown()
        await test.cache.shutdown()
    }

    @Test("a volume that is smaller than the limit does not become full: each entry is written, and old ones go")
    func smallVolume() async throws {
        let mount = try Mount(megabytes: 3)
        let test = TestCache.onDisk(mount.folder) { $0.directory = mount.cache }
        for number in 0..<60 {
            let request = DataRequest.durable.with(\.key, CacheKey("k\(number)"))
            try await test.cache.addDataAndWait(DiskBytes.of(100_000, "\(number)"), for: request)
            #expect(test.cache.readData(for: CacheKey("k\(number)")) == DiskBytes.of(100_000, "\(number)"))
        }
        for number in 0..<600 { try await test.cache.keep(["small \(number)"], size: 6_000) }
        #expect(test.cache.readData(for: "small 599") != nil && test.cache.readData(for: "k0") == nil)
        #expect(test.cache.diskSize > 500_000 && test.cache.diskSize < 9 << 18)
        #expect(test.cache.diskLimit == 512 << 20)
        await test.cache.shutdown()
    }

    @Test("read-only: what cannot be removed is an error")
    func notRemoved() async throws {
        let mount = try Mount(megabytes: 8)
        let writer = TestCache { $0.directory = mount.cache }
        try await writer.cache.keep(["k0"], size: 9_000)
        try await writer.cache.finishRemovals()
        await writer.cache.shutdown()
        try mount.makeReadOnly()
        for how in Removing.allCases {
            let reader = TestCache { $0.directory = mount.cache }
            how.run(reader.cache)
            await #expect(throws: DipperError.notRemoved) { try await reader.cache.finishRemovals() }
            await reader.cache.shutdown()
        }
        #expect(mount.blobs == 1)
    }
}
