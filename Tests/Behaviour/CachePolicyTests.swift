import DipperData
import DipperTesting
import Foundation
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
        "A call past memory takes nothing from a call that shares its fetch", arguments: [true, false], [true, false])
    func sharedPastMemory(isFirst: Bool, hasDisk: Bool) async throws {
        let test = TestCache(folder: hasDisk ? TemporaryFolder() : nil)
        let policies: [DataRequest.CachePolicy] = isFirst ? [.diskOnly, .useCache] : [.useCache, .diskOnly]
        let tasks = policies.map { test.cache.getData(DataRequest(a).with(\.cachePolicy, $0)) }
        try await test.transport.nextTransfer().finish(with: Data("1".utf8))
        for task in tasks { #expect(try await task.response.source == .network) }
        await test.cache.idle()
        #expect(test.cache.hasData(for: a, in: .memory) && test.cache.diskCount == (hasDisk ? 1 : 0))
        #expect(test.transport.transfers.count == 1)
    }

    @Test("Bodies are kept byte for byte, empty ones too", arguments: [0, 1, 2_047, 2_048, 2_049, 70_000])
    func byteExact(size: Int) async throws {
        let body = Data((0..<size).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) })
        test.transport.script(a, [.body(body)])
        #expect(try await test.cache.getData(DataRequest(a).with(\.waitsForDiskWrite, true)).value == body)
        #expect(test.cache.diskCount == 1, "a call that waits for the disk ends when its entry is there")
        test.cache.clearMemory()
        let response = try await test.cache.getData(a).response
        #expect(response.data == body && response.source == .disk)
    }

    @Test("An answer that expires at once is handed out and not kept")
    func expiredAtOnce() async throws {
        test.transport.script(a, [.text("1")])
        #expect(try await test.ask(DataRequest(a).with(\.diskExpiration, .expired)) == "1 from network")
        #expect(test.cache.data(for: a) == nil)
    }

    @Test("A part that the caller asks for does not remove the whole that is stored, and is not kept as the whole")
    func parts() async throws {
        let part = ScriptedTransport.Step.text("w", ["Content-Range": "bytes 0-0/5"], status: 206)
        test.transport.script(a, [.text("whole", ["Cache-Control": "max-age=10"]), part])
        let request = DataRequest(a).with(\.key, "k")
        _ = try await test.ask(request)
        test.date.advance(by: 20)
        #expect(try await test.ask(request.with(\.headers, ["Range": "bytes=0-0"])) == "w from network")
        #expect(test.cache.data(for: "k") == Data("whole".utf8))
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
}
