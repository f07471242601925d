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
            test.transport.script(url(name), [.says("new")])
            let task = test.cache.getData(DataRequest(url(name)).with(\.cachePolicy, policy))
            switch await task.ending {
            case .success(let response): lines.append(response.line)
            case .failure(let error): lines.append("\(error)")
            }
        }
        switch policy {
        case .useCache: #expect(lines == ["old, disk", "old, memory", "new, network"])
        case .memoryOnly, .fromMemoryOrRefresh: #expect(lines == ["new, network", "old, memory", "new, network"])
        case .cacheOnly: #expect(lines == ["old, disk", "old, memory", "not cached"])
        case .ignoreCache, .bypass: #expect(lines == ["new, network", "new, network", "new, network"])
        }
        #expect(test.transport.transfers.count == lines.count { $0.hasSuffix("network") })
        let keepsInMemory = ![.cacheOnly, .bypass].contains(policy)
        #expect(test.cache.hasData(for: url("absent")) == keepsInMemory)
        await test.cache.idle()
        test.cache.clearMemory()
        #expect(test.cache.hasData(for: url("absent")) == (keepsInMemory && policy != .memoryOnly))
        await test.cache.shutdown()
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
        await test.cache.shutdown()
    }

    @Test("An answer that expires at once is handed out and not kept")
    func expiredAtOnce() async throws {
        let test = TestCache(folder: TemporaryFolder())
        test.transport.script(a, [.says("1")])
        #expect(try await test.line(DataRequest(a).with(\.diskExpiration, .expired)) == "1, network")
        #expect(test.cache.data(for: a) == nil)
        await test.cache.shutdown()
    }

    @Test("A look gives neither the body of an error nor a variant for other fields")
    func look() async throws {
        let test = TestCache()
        test.transport.script(a, [.says("none", ["Cache-Control": "max-age=100"], status: 404)])
        #expect(await test.cache.getData(DataRequest(a).with(\.validation, .anyStatus)).error == nil)
        #expect(test.cache.data(for: a) == nil && test.cache.response(for: a)?.status == 404)
        let request = DataRequest(url("b")).with(\.key, "k")
        test.transport.script(url("b"), [.says("de", ["Cache-Control": "max-age=100", "Vary": "Accept-Language"])])
        let german = request.with(\.headers, ["Accept-Language": "de"])
        _ = try await test.line(german)
        #expect(test.cache.data(for: request) == nil && test.cache.data(for: german) == Data("de".utf8))
    }

    @Test("A part that the caller asks for does not remove the whole that is stored, and is not kept as the whole")
    func parts() async throws {
        let test = TestCache()
        let part = ScriptedTransport.Step.says("w", ["Content-Range": "bytes 0-0/5"], status: 206)
        test.transport.script(a, [.says("whole", ["Cache-Control": "max-age=10"]), part])
        let request = DataRequest(a).with(\.key, "k")
        _ = try await test.line(request)
        test.date.advance(by: 20)
        #expect(try await test.line(request.with(\.headers, ["Range": "bytes=0-0"])) == "w, network")
        #expect(test.cache.data(for: "k") == Data("whole".utf8))
        test.transport.script(url("b"), [part, .says("whole")])
        let isPart = Box(true)
        let modifier = RequestModifier { request in
            var request = request
            if isPart.update({
                let was = $0; $0 = false; return was
            }) {
                request.headers["Range"] = "bytes=0-0"
            }
            return request
        }
        let modified = DataRequest(url("b")).with(\.modifier, modifier).with(\.freshness, .immutable())
        #expect(try await test.line(modified) == "w, network")
        #expect(try await test.line(modified) == "whole, network")
    }

    @Test("The fields of the part that completes a body say, all of them, whether the whole is kept")
    func fieldsOfParts() async throws {
        let test = TestCache { $0.retryPolicy = .fixed(.zero) }
        for fields in [["max-age=50"], ["max-age=50", "no-store"]] {
            let target = url("\(fields.count)")
            let part = HTTPHeaders(
                [.init("Content-Range", "bytes 2-3/4"), .init("ETag", "\"1\"")]
                    + fields.map { .init("Cache-Control", $0) })
            let beginning = TransferResponse(
                headers: ["ETag": "\"1\"", "Content-Length": "4"], body: Data("he".utf8))
            test.transport.script(
                target,
                [
                    .interrupted(beginning, .connectionLost),
                    .response(TransferResponse(status: 206, headers: part, body: Data("re".utf8))),
                ])
            #expect(try await test.line(target) == "here, network")
            #expect(test.cache.hasData(for: target) == (fields.count == 1))
        }
    }

    // MARK: Bad input

    @Test(
        "A request that cannot be fetched ends at once with its own error, in both queues",
        arguments: [
            (DataRequest(string: ""), DipperError.invalidURL), (DataRequest(string: "no url"), .invalidURL),
            (DataRequest(string: "http://"), .invalidURL), (DataRequest(string: "/relative"), .invalidURL),
            (DataRequest(string: "file:///etc/passwd"), .unsupportedScheme),
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
