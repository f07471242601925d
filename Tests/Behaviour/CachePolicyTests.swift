import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("What a call reads and keeps", .timeLimit(.minutes(2)))
struct CachePolicyTests {
    private let a = url("a")

    @Test("Each policy reads and keeps where it says", arguments: DataRequest.CachePolicy.allCases)
    func policies(policy: DataRequest.CachePolicy) async throws {
        let test = TestCache(folder: TemporaryFolder())
        let old = Data("old".utf8)
        try await test.cache.addDataAndWait(old, for: CacheKey(url("disk")))
        test.cache.clearMemory()
        try test.cache.addData(old, for: url("memory"))
        var lines: [String] = []
        for name in ["disk", "memory", "absent"] {
            test.transport.script(url(name), [.text("new")])
            let task = test.cache.getData(DataRequest(url(name)).with(\.cachePolicy, policy))
            switch await task.ending {
            case .success(let response): lines.append(response.told)
            case .failure(let error): lines.append("\(error)")
            }
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
        #expect(test.cache.hasData(for: url("absent"), in: .memory) == (keeps && policy != .diskOnly))
        #expect(test.cache.hasData(for: url("absent")) == keeps)
        await test.cache.idle()
        test.cache.clearMemory()
        #expect(test.cache.hasData(for: url("absent")) == (keeps && policy != .memoryOnly))
        if policy == .useCache || policy == .diskOnly {
            #expect(try await test.ask(DataRequest(url("absent")).with(\.cachePolicy, policy)) == "new from disk")
            #expect(test.cache.hasData(for: url("absent"), in: .memory) == (policy == .useCache))
        }
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
        let test = TestCache(folder: TemporaryFolder())
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
        let test = TestCache(folder: TemporaryFolder())
        test.transport.script(a, [.text("1")])
        #expect(try await test.ask(DataRequest(a).with(\.diskExpiration, .expired)) == "1 from network")
        #expect(test.cache.data(for: a) == nil)
    }

    @Test("A part that the caller asks for does not remove the whole that is stored, and is not kept as the whole")
    func parts() async throws {
        let test = TestCache()
        let part = ScriptedTransport.Step.text("w", ["Content-Range": "bytes 0-0/5"], status: 206)
        test.transport.script(a, [.text("whole", ["Cache-Control": "max-age=10"]), part])
        let request = DataRequest(a).with(\.key, "k")
        _ = try await test.ask(request)
        test.date.advance(by: 20)
        #expect(try await test.ask(request.with(\.headers, ["Range": "bytes=0-0"])) == "w from network")
        #expect(test.cache.data(for: "k") == Data("whole".utf8))
        test.transport.script(url("b"), [part, .text("whole")])
        let count = Box(0)
        let modifier = RequestModifier { request in
            var request = request
            if count.increment() == 1 { request.headers["Range"] = "bytes=0-0" }
            return request
        }
        let modified = DataRequest(url("b")).with(\.modifier, modifier).with(\.freshness, .immutable())
        #expect(try await test.ask(modified) == "w from network")
        #expect(try await test.ask(modified) == "whole from network")
    }

    @Test("The fields of the part that completes a body say, all of them, whether the whole is kept")
    func fieldsOfParts() async throws {
        let test = TestCache { $0.retryPolicy = .fixed(.zero) }
        for fields in [["max-age=50"], ["max-age=50", "no-store"]] {
            let target = url("\(fields.count)")
            var part: HTTPHeaders = ["Content-Range": "bytes 2-3/4", "ETag": "\"1\""]
            for field in fields { part.append("Cache-Control", field) }
            let beginning = TransferResponse(
                headers: ["ETag": "\"1\"", "Content-Length": "4"], body: Data("he".utf8))
            test.transport.script(
                target, [.interrupted(beginning, .connectionLost), .text("re", part, status: 206)])
            #expect(try await test.ask(target) == "here from network")
            #expect(test.cache.hasData(for: target) == (fields.count == 1))
        }
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
        ])
    func defects(request: DataRequest, expected: DipperError) async {
        let test = TestCache()
        let heard = Box<[DipperError]>([])
        let tasks = [test.cache.getData(request), test.cache.slowGetData(request)]
        for task in tasks {
            task.onFail { error, isFatal in if isFatal { heard.update { $0.append(error) } } }
            #expect(await task.error == expected)
        }
        await test.cache.idle()
        #expect(heard.value == [expected, expected])
        #expect(test.transport.transfers.isEmpty)
    }
}
