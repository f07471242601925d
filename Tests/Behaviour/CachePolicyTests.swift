import TestSupport
import Testing

@Suite("What a call reads and keeps", .timeLimit(.minutes(2)))
struct CachePolicyTests {
    private let test = TestCache(folder: TemporaryFolder())
    private let a = url("a")

    @Test("Each policy reads and keeps where it says", arguments: DataRequest.CachePolicy.allCases)
    func policies(policy: DataRequest.CachePolicy) async throws {
        let old = Data("old".utf8)
        try await test.cache.addDataAndWait(old, for: CacheKey(url("disk")))
        test.cache.clearMemory()
        try test.cache.addData(old, for: url("memory"))
        var lines: [String] = []
        for name in ["disk", "memory", "absent"] {
            test.transport.script(url(name), [.text("new")])
            let result = await test.cache.getData(DataRequest(url(name)).with(\.cachePolicy, policy)).ending
            lines.append((try? result.get().told) ?? result.error.map { "\($0)" } ?? "")
        }
        switch policy {
        case .useCache, .diskOnly: #expect(lines == ["old from disk", "old from memory", "new from network"])
        case .memoryOnly, .fromMemoryOrRefresh:
            #expect(lines == ["new from network", "old from memory", "new from network"])
        case .cacheOnly: #expect(lines == ["old from disk", "old from memory", "not cached: http://host.test/absent"])
        case .ignoreCache, .bypass: #expect(lines == ["new from network", "new from network", "new from network"])
        }
        #expect(test.transport.transfers.count == lines.count { $0.hasSuffix("network") })
        let keeps = ![.cacheOnly, .bypass].contains(policy)
        let absent = url("absent")
        #expect(test.cache.hasData(for: absent, in: .memory) == (keeps && policy != .diskOnly))
        #expect(test.cache.hasData(for: absent) == keeps)
        await test.cache.idle()
        test.cache.clearMemory()
        #expect(test.cache.hasData(for: absent) == (keeps && policy != .memoryOnly))
        guard policy == .useCache || policy == .diskOnly else { return }
        #expect(try await test.ask(DataRequest(absent).with(\.cachePolicy, policy)) == "new from disk")
        #expect(test.cache.hasData(for: absent, in: .memory) == (policy == .useCache))
    }

    @Test(
        "Calls of different policies share a fetch, whoever comes first, and the answer is kept where one of them says",
        arguments: [
            // Two policies, whether there is a disk, and the number of entries that are on it afterwards.
            (.diskOnly, .useCache, true, 1), (.diskOnly, .useCache, false, 0), (.bypass, .useCache, true, 1),
            (.bypass, .memoryOnly, true, 0),
        ] as [(DataRequest.CachePolicy, DataRequest.CachePolicy, Bool, Int)], [true, false])
    func shared(
        row: (one: DataRequest.CachePolicy, other: DataRequest.CachePolicy, hasDisk: Bool, onDisk: Int), isFirst: Bool
    ) async throws {
        let test = TestCache(folder: row.hasDisk ? TemporaryFolder() : nil)
        let policies = isFirst ? [row.one, row.other] : [row.other, row.one]
        let tasks = policies.map { test.cache.getData(DataRequest(a).with(\.cachePolicy, $0)) }
        try await test.transport.nextTransfer().finish(with: Data("1".utf8))
        for task in tasks { #expect(try await task.response.told == "1 from network") }
        await test.cache.idle()
        #expect(test.cache.hasData(for: a, in: .memory))
        #expect(test.cache.memoryCount == 1 && test.cache.diskCount == row.onDisk)
        #expect(test.transport.transfers.count == 1)
    }

    @Test("A call that waits for the disk ends when its entry is there, an empty one too", arguments: ["1", ""])
    func waitsForDisk(body: String) async throws {
        test.transport.script(a, [.text(body)])
        #expect(try await test.ask(DataRequest(a).with(\.waitsForDiskWrite, true)) == "\(body) from network")
        #expect(test.cache.diskCount == 1)
        test.cache.clearMemory()
        #expect(try await test.ask(a) == "\(body) from disk")
    }

    @Test("An answer that expires at once is handed out and not kept")
    func expiredAtOnce() async throws {
        test.transport.script(a, [.text("1")])
        #expect(try await test.ask(DataRequest(a).with(\.diskExpiration, .expired)) == "1 from network")
        #expect(test.cache.readData(for: a) == nil)
    }

    @Test("A part that the caller asks for does not remove the whole that is stored, and is not kept as the whole")
    func parts() async throws {
        let part = ScriptedTransport.Step.text("w", ["Content-Range": "bytes 0-0/5"], status: 206)
        test.transport.script(a, [.text("whole", ["Cache-Control": "max-age=10"]), part])
        let request = DataRequest(a).with(\.key, "k")
        _ = try await test.ask(request)
        test.date.advance(by: 20)
        #expect(try await test.ask(request.with(\.headers, ["Range": "bytes=0-0"])) == "w from network")
        #expect(test.cache.readData(for: "k") == Data("whole".utf8))
        test.transport.script(url("b"), [part, .text("whole")])
        let count = Box(0)
        let modifier = RequestModifier.changing { if count.increment() == 1 { $0.headers["Range"] = "bytes=0-0" } }
        let modified = DataRequest(url("b")).with(\.modifier, modifier).with(\.freshness, .immutable())
        #expect(try await test.ask(modified) == "w from network")
        #expect(try await test.ask(modified) == "whole from network")
    }

    @Test(
        "The fields of the part that completes a body say, all of them, whether the whole is kept",
        arguments: [["max-age=50"], ["max-age=50", "no-store"]])
    func fieldsOfParts(controls: [String]) async throws {
        let part = Parts.part(40..<100, more: HTTPHeaders(controls.map { .init("Cache-Control", $0) }))
        test.transport.script(a, [.interrupted(Parts.beginning(40), .connectionLost), .response(part)])
        let response = try await test.cache.getData(DataRequest(a).with(\.retryPolicy, .fixed(.zero))).response
        #expect(response.data == Parts.whole && response.source == .network)
        #expect(test.cache.hasData(for: a) == (controls.count == 1))
    }

    // MARK: Bad input

    @Test(
        "A request that cannot be fetched ends at once with its own error, in both queues",
        arguments: [
            (DataRequest(string: ""), DipperError.invalidURL), (DataRequest(string: "no url"), .invalidURL),
            (DataRequest(string: "http://"), .invalidURL), (DataRequest(string: "/relative"), .invalidURL),
            (DataRequest(string: "ftp://host/a"), .unsupportedScheme),
            (DataRequest(url("a")).with(\.key, ""), .emptyKey),
            (DataRequest(url("a")).with(\.headers, ["A": "b\r\nC: d"]), .invalidHeader),
            (DataRequest(url("a")).with(\.headers, ["": "b"]), .invalidHeader),
        ], [FetchQueue.fast, .slow])
    func defects(row: (request: DataRequest, error: DipperError), queue: FetchQueue) async {
        let task = test.call(row.request, in: queue)
        let failures = task.failures()
        #expect(await task.error == row.error)
        await test.cache.idle()
        #expect(failures.value.count == 1 && failures.value[0].hasPrefix("fatal \(row.error)"))
        #expect(test.transport.transfers.isEmpty)
    }

    // MARK: Past the cache

    private var past: DataRequest { DataRequest(a).with(\.cachePolicy, .bypass) }

    @Test("The network answers it, and neither tier has the answer afterwards")
    func keepsNothing() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        test.transport.script(a, [.text("1", ["Cache-Control": "max-age=100"]), .text("2"), .text("3")])
        let request = past.with(\.waitsForDiskWrite, true).with(\.durability, .durable)
        #expect(try await test.ask(request) == "1 from network")
        #expect(try await test.cache.slowGetData(request).value == Data("2".utf8))
        await test.cache.idle()
        #expect(!test.cache.hasData(for: a) && test.cache.memoryCount == 0 && test.cache.diskCount == 0)
        let files = folder.files.filter {
            !$0.hasPrefix("index.") && !["dipper-cache", "reserve"].contains($0) && !$0.hasSuffix(".lock")
                && !$0.hasPrefix("leases/")
        }
        #expect(files.isEmpty)
    }

    @Test("An entry of the tiers is not read, not asked about, does not stand in, and stays", arguments: [true, false])
    func readsNothing(inMemory: Bool) async throws {
        try await test.keep("kept", ["ETag": "\"1\"", "Cache-Control": "max-age=100"], for: a)
        await test.cache.idle()
        if !inMemory { test.cache.clearMemory() }
        test.transport.script(a, [.text("new", ["Cache-Control": "no-store"]), .status(404), .status(503)])
        #expect(try await test.ask(past) == "new from network")
        #expect(await test.cache.getData(past).error == .status(404))
        #expect(await test.cache.getData(past.with(\.retryPolicy, .never)).error == .status(503))
        #expect(test.requests(a).allSatisfy { $0["If-None-Match"] == nil })
        #expect(test.cache.cachedSource(for: a) == (inMemory ? .memory : .disk))
        #expect(test.cache.readData(for: a) == Data("kept".utf8))
    }

    @Test("The beginning of a body that breaks off serves the next attempt and is not left on disk")
    func partials() async throws {
        test.transport.script(a, [.interrupted(Parts.beginning(40), .connectionLost)])
        let task = test.cache.getData(past.with(\.retryPolicy, .fixed(.zero, retries: 1)))
        await test.whileClockRuns { await test.cache.idle() }
        #expect(await task.error == .connectionLost)
        #expect(test.requests(a).map { $0["Range"] } == [nil, "bytes=40-"])
        let next = await test.reopened()
        try await next.keep("1", for: a)
        #expect(next.requests(a).map { $0["Range"] } == [nil])
    }

    @Test("A cache may be set up to keep nothing but what the program adds")
    func byDefault() async throws {
        let test = TestCache(folder: TemporaryFolder()) { $0.cachePolicy = .bypass }
        test.transport.script(a, [.text("1"), .text("2")])
        #expect(try await test.ask(a) == "1 from network")
        #expect(try await test.ask(a) == "2 from network")
        try await test.cache.addDataAndWait(Data("own".utf8), for: "own")
        #expect(test.cache.readData(for: "own") == Data("own".utf8) && test.cache.diskCount == 1)
    }
}
