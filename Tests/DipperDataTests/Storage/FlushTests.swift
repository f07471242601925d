import FlushLog
import TestSupport
import Testing

@Suite("A durable entry is on the device when it counts as written", .timeLimit(.minutes(2)))
struct FlushTests {
    private let folder = TemporaryFolder()
    private let writes = StalledCodec()

    /// A request whose file has a name that no other test's has.
    private var request: DataRequest {
        DataRequest(url(folder.url.lastPathComponent)).with(\.durability, .durable).with(\.waitsForDiskWrite, true)
    }

    private var relaxed: DataRequest { request.with(\.durability, .relaxed) }

    private var flushes: Int { Int(flush_log_count("-" + request.cacheKey.digest)) }

    private func open(holdsWrites: Bool = false) -> TestCache {
        TestCache(folder: folder) { if holdsWrites { $0.recordCodec = writes } }
    }

    // MARK: Writes

    @Test("a large entry's file is flushed once, and its folders")
    func large() async throws {
        let test = open()
        try await test.cache.addDataAndWait(Data(count: 9_000), for: request)
        #expect(flushes == 1)
        let file = try #require(test.cache.file(for: request.cacheKey))
        for place in [file.deletingLastPathComponent().path, folder.url.lastPathComponent] {
            #expect(flush_log_count(place) >= 1)
        }
    }

    @Test("of calls that share a fetch one that wants it durable decides", arguments: [true, false])
    func shared(isFirst: Bool) async throws {
        let test = open()
        let tasks = (isFirst ? [request, relaxed] : [relaxed, request]).map { test.cache.getData($0) }
        try await test.transport.nextTransfer().finish(with: Data(count: 9_000))
        for task in tasks { _ = try await task.value }
        #expect(flushes == 1)
    }

    @Test("where nothing can be flushed no entry counts as durable, small or large", arguments: [100, 9_000])
    func failing(size: Int) async throws {
        let cache = open().cache
        try await cache.addDataAndWait(Data(count: 10), for: "first")
        let failing = flush_log_fail(folder.url.lastPathComponent)
        await #expect(throws: DipperError.notWritten) {
            try await cache.addDataAndWait(Data(count: size), for: request)
        }
        flush_log_mend(failing)
        try await cache.addDataAndWait(Data(count: size), for: request)
        #expect(cache.readData(for: request)?.count == size)
    }

    @Test("nothing is flushed for other entries, not even after a durable one")
    func others() async throws {
        let test = TestCache(folder: folder) { $0.memoryLimit = 0 }
        try await test.cache.addDataAndWait(Data(count: 9_000), for: request)
        // Where nothing can be flushed, whatever is flushed would fail.
        let failing = flush_log_fail(folder.url.lastPathComponent)
        defer { flush_log_mend(failing) }
        for number in 0..<20 {
            let other = DataRequest(url("\(folder.url.lastPathComponent)/\(number)"))
            try await test.cache.addDataAndWait(Data(count: number * 1_000), for: other)
            #expect(test.cache.readData(for: other)?.count == number * 1_000)
            #expect(flush_log_count("-" + other.cacheKey.digest) == 0)
        }
    }

    // MARK: Hits

    @Test("bytes that wait to be written, in memory or not, are waited for and flushed", arguments: [true, false])
    func waiting(isInMemory: Bool) async throws {
        let test = open(holdsWrites: true)
        try test.cache.addData(Data(count: 9_000), for: relaxed)
        if !isInMemory { test.cache.clearMemory() }
        let order = Box<[String]>([])
        let task = test.cache.getData(request).onEnd { _ in order.update { $0.append("ended") } }
        order.update { $0.append("written") }
        writes.door.stayOpen()
        #expect(try await task.value.count == 9_000)
        await test.cache.idle()
        #expect(order.value == ["written", "ended"])
        #expect(flushes == 1)
    }

    @Test("a write that waits for its turn is flushed if a durable call joins it")
    func joined() async throws {
        let test = open(holdsWrites: true)
        try test.cache.addData(Data(count: 10), for: "first")
        try await writes.door.waitForArrivals(1)
        try test.cache.addData(Data(count: 9_000), for: relaxed)
        let task = test.cache.getData(request)
        // The call has joined the write when a later one is answered.
        #expect(try await test.cache.getData(relaxed.with(\.waitsForDiskWrite, false)).value.count == 9_000)
        writes.door.stayOpen()
        #expect(try await task.value.count == 9_000)
        await test.cache.idle()
        #expect(flushes == 1)
    }

    @Test("what was written without being flushed is flushed, once")
    func onDisk() async throws {
        let test = open()
        try await test.cache.addDataAndWait(Data(count: 9_000), for: relaxed)
        #expect(flushes == 0)
        for request in [request, relaxed] {
            #expect(try await test.cache.getData(request).response.source == .memory)
            #expect(flushes == 1)
        }
    }

    @Test("what the disk does not have is written, unless it is removed or replaced meanwhile", arguments: 0..<3)
    func notOnDisk(change: Int) async throws {
        writes.door.open()
        let test = open(holdsWrites: true)
        try await test.cache.addDataAndWait(Data(count: 9_000), for: relaxed)
        test.cache.removeData(for: request, from: .disk)
        await test.cache.synchronize()
        let task = test.cache.getData(request)
        switch change {
        case 1: test.cache.removeData(for: request)
        case 2: try test.cache.addData(Data(count: 8_000), for: relaxed)
        default: break
        }
        writes.door.stayOpen()
        #expect(await task.error == (change == 1 ? .notWritten : nil))
        await test.cache.idle()
        test.cache.clearMemory()
        #expect(test.cache.readData(for: request)?.count == [9_000, nil, 8_000][change])
        // A write that is replaced may have begun, and is then flushed, too.
        if change != 1 { #expect(change == 0 ? flushes == 1 : (1...2).contains(flushes)) }
    }

    @Test(
        "a durable call that finds an entry which is being replaced has it written, until the new one takes its place")
    func replacedMeanwhile() async throws {
        let (door, isReplaced) = (Door(), Box(false))
        let test = TestCache(folder: folder) {
            // The new entry is about to be handed to the disk.
            $0.observe { if case .writeBegan(8_000) = $0.kind { door.pass() } }
        }
        try await test.cache.addDataAndWait(Data(count: 9_000), for: relaxed)
        test.cache.removeData(for: request, from: .disk)
        await test.cache.synchronize()
        DispatchQueue(label: "replacing").async { [cache = test.cache, relaxed] in
            try? cache.addData(Data(count: 8_000), for: relaxed)
            isReplaced.update { $0 = true }
        }
        try await door.waitForArrivals(1)
        #expect(await test.cache.getData(request).error == nil)
        door.stayOpen()
        try await isReplaced.wait { $0 }
        await test.cache.idle()
        #expect(test.cache.readData(for: request)?.count == 8_000)
        test.cache.clearMemory()
        #expect(test.cache.readData(for: request)?.count == 8_000)
    }

    @Test("a disk that fails fails the durable call and no other, and so does a cache without one")
    func fails() async throws {
        let test = open()
        let failing = flush_log_fail(folder.url.lastPathComponent)
        defer { flush_log_mend(failing) }
        for cache in [test.cache, TestCache().cache] {
            try await cache.addDataAndWait(Data(count: 9_000), for: relaxed)
            #expect(await cache.getData(request).error == .notWritten)
            #expect(await cache.getData(relaxed).error == nil)
            await cache.shutdown()
        }
    }
}
