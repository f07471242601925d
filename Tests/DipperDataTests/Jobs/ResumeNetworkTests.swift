import FaultServer
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("Bodies are continued against a real server", .timeLimit(.minutes(5)))
struct ResumeNetworkTests {
    private let size = 300_000

    private func cache(_ folder: TemporaryFolder? = nil, _ change: (inout DataCache.Configuration) -> Void = { _ in })
        -> DataCache
    {
        var configuration = DataCache.Configuration(directory: folder?.url)
        configuration.logger.logLevel = .critical
        configuration.retryPolicy = .fixed(.milliseconds(1), retries: 6)
        change(&configuration)
        return DataCache(configuration)
    }

    private func body(_ path: String, version: Int = 0) -> Data {
        FaultServer.body(of: path, size: size, version: version)
    }

    @Test(
        "a body that is cut short is continued where it ended",
        arguments: ["cut=100000", "reset=100000", "cut=100000&piece=60000"])
    func cut(fault: String) async throws {
        let server = try await FaultServer.start()
        let cache = cache()
        let path = "/bytes/\(size)/a"
        let response = try await cache.getData(server.url("\(path)?etag=v&times=1&\(fault)")).response
        #expect(response.data == body(path))
        // The client may have the last byte before the server has counted it.
        await server.waitForEnds(server.requests.count)
        let requests = server.requests
        #expect(requests.count >= 2)
        #expect(requests[1].header("Range") == "bytes=100000-" && requests[1].header("If-Range") == "\"v\"")
        #expect(requests[1].status == 206)
        #expect(requests.reduce(0) { $0 + $1.bytesSent } == size, "no byte twice")
        await cache.shutdown()
        await server.stop()
    }

    @Test("answers that are cut again and again come to an end, each attempt with more")
    func cutAgain() async throws {
        let server = try await FaultServer.start()
        let cache = cache()
        let path = "/bytes/\(size)/a"
        #expect(try await cache.getData(server.url("\(path)?etag=v&cut=70000")).value == body(path))
        #expect(
            server.requests.map { $0.header("Range") } == [
                nil, "bytes=70000-", "bytes=140000-", "bytes=210000-", "bytes=280000-",
            ])
        await cache.shutdown()
        await server.stop()
    }

    @Test(
        "a continuation that is none is not taken for one",
        arguments: [
            "rangeShift=1", "rangeTotal=300001", "rangeStatus=416", "rangeBare=1", "rangeMultipart=1", "norange=1",
            "rangeShift=5&rangeTotal=300005",
        ])
    func lies(fault: String) async throws {
        let server = try await FaultServer.start()
        let cache = cache()
        let path = "/bytes/\(size)/a"
        #expect(try await cache.getData(server.url("\(path)?etag=v&cut=100000&times=1&\(fault)")).value == body(path))
        let ranges = server.requests.map { $0.header("Range") }
        // The whole in place of the part is taken at once; after a part that does not fit the whole is asked for.
        #expect(ranges == (fault == "norange=1" ? [nil, "bytes=100000-"] : [nil, "bytes=100000-", nil]))
        await cache.shutdown()
        await server.stop()
    }

    @Test(
        "a resource that has changed is fetched anew, also if the server gives a part of it",
        arguments: ["", "&rangeBlind=1"])
    func changed(fault: String) async throws {
        let server = try await FaultServer.start()
        let cache = cache()
        let path = "/bytes/\(size)/a"
        let target = server.url("\(path)?etag=v&cut=100000&times=1&changes=1\(fault)")
        let data = try await cache.getData(target).value
        #expect((1...4).contains { body(path, version: $0) == data })
        #expect(server.requests[1].header("Range") == "bytes=100000-")
        await cache.shutdown()
        await server.stop()
    }

    @Test("a coded body is begun anew")
    func coded() async throws {
        let server = try await FaultServer.start()
        let cache = cache()
        let path = "/bytes/\(size)/a"
        #expect(try await cache.getData(server.url("\(path)?etag=v&gzip=1&cut=100000&times=1")).value == body(path))
        #expect(server.requests[1].header("Range") == nil)
        await cache.shutdown()
        await server.stop()
    }

    @Test("the largest body counts what is here, and not what an answer from the start makes of it")
    func maximumSize() async throws {
        let server = try await FaultServer.start()
        let path = "/bytes/\(size)/a"
        // As large as allowed: continued, and begun anew because the server knows no ranges.
        for fault in ["", "&norange=1"] {
            let cache = cache { $0.network.maximumBodySize = size }
            let target = server.url("\(path)?etag=v&cut=200000&times=1\(fault)")
            #expect(try await cache.getData(target).value == body(path), "\(fault)")
            await cache.shutdown()
        }
        // Each part would do, the whole would not.
        let cache = cache { $0.network.maximumBodySize = size - 1 }
        let chunked = server.url("\(path)?etag=w&chunked=1&cut=200000&times=1")
        #expect(await cache.getData(chunked).error == .tooLarge)
        await cache.shutdown()
        await server.stop()
    }

    @Test("progress never goes beyond the end, whatever becomes of the continuation", arguments: ["", "&norange=1"])
    func progress(fault: String) async throws {
        let server = try await FaultServer.start()
        let cache = cache { $0.progressInterval = .zero }
        let path = "/bytes/\(size)/a"
        let heard = Box<[TaskProgress]>([])
        let task = cache.getData(server.url("\(path)?etag=v&cut=200000&times=1\(fault)"))
            .onProgress { progress in heard.update { $0.append(progress) } }
        _ = await task.heard
        let progress = heard.value
        #expect(progress.allSatisfy { $0.expected == size && $0.received <= size })
        #expect(progress.last?.received == size)
        await cache.shutdown()
        await server.stop()
    }

    @Test("a call after a cancel goes on, in this run and in the next", arguments: [false, true])
    func afterCancel(reopens: Bool) async throws {
        let server = try await FaultServer.start()
        let folder = TemporaryFolder()
        var cache = cache(folder) { $0.progressInterval = .zero }
        let path = "/bytes/\(size)/a"
        let target = server.url("\(path)?etag=v&stall=60000&times=1")
        let task = cache.getData(target)
        _ = await task.reaches { event in
            if case .progress(let progress) = event { progress.received >= 40_000 } else { false }
        }
        cache.moveTaskToSlowQueue(target)
        cache.getData(target).cancel()
        task.cancel()
        #expect(await task.error == .cancelled)
        await server.waitForEnds(1)
        if reopens {
            await cache.shutdown()
            cache = self.cache(folder)
        } else {
            // What has arrived is handed over when the transfer ends.
            try #require(
                await settle {
                    folder.files.contains { $0.hasPrefix("partial/") && !$0.hasPrefix("partial/.") }
                })
        }
        #expect(try await cache.getData(target).value == body(path))
        let range = try #require(server.requests.last?.header("Range"))
        let offset = try #require(Int(range.dropFirst(6).dropLast()))
        #expect(offset >= 40_000 && offset <= 60_000)
        #expect(server.requests.count == 2)
        await cache.synchronize()
        #expect(!folder.files.contains { $0.hasPrefix("partial/") })
        await cache.shutdown()
        await server.stop()
    }

    @Test("a prefetch whose server hangs up while it is held back goes on without a failure")
    func lostPatience() async throws {
        let server = try await FaultServer.start()
        let cache = cache {
            $0.retryPolicy = .never
            $0.network.lowSpeedTime = .seconds(600)
        }
        let path = "/bytes/\(size)/s"
        let failures = Box(0)
        let slow = cache.slowGetData(server.url("\(path)?etag=v&stall=150000&times=1"))
            .onFail { _, _ in failures.update { $0 += 1 } }
        _ = await slow.reaches { if case .progress(let progress) = $0 { progress.received >= 10_000 } else { false } }
        let urgent = cache.getData(server.url("/bytes/10/u?stall=5&times=1"))
        await server.waitForStalls(2)
        #expect(slow.state == .paused)
        // Both lose their connections; the urgent one goes on by itself, the other when it is let go on.
        server.resetStalled()
        urgent.cancel()
        guard case .success(let response) = await slow.heard else {
            Issue.record("the prefetch has failed: \(await slow.error as Any)")
            return
        }
        #expect(response.data == body(path))
        #expect(failures.value == 0)
        await cache.shutdown()
        await server.stop()
    }

    @Test("random faults over real connections give the whole of one version or an error")
    func random() async throws {
        let seed = UInt64.random(in: .min ... .max)
        var random = SeededRandom(seed)
        let server = try await FaultServer.start()
        let folder = TemporaryFolder()
        let cache = cache(folder)
        var faults: [String] = []
        var whole = 0
        for number in 0..<250 {
            let length = Int.random(in: 1...40_000, using: &random)
            let all = [
                "etag=v\(number)", "etag=W/v", "lastModified=Sun,%2006%20Nov%201994%2008:49:37%20GMT",
                "cut=\(length / 2)",
                "cut=\(length / 3)&times=2", "reset=\(length / 4)&times=3",
                "changes=\(Int.random(in: 1...3, using: &random))",
                "norange=1", "rangeShift=3", "rangeTotal=\(length + 1)", "rangeStatus=416", "rangeBare=1",
                "rangeMultipart=1", "piece=\(max(1, length / 5))", "piece=\(max(1, length / 300))", "chunked=1",
                "gzip=1",
                "drip=5000,1",
            ]
            faults = all.filter { _ in Int.random(in: 0..<4, using: &random) == 0 }
            if Bool.random(using: &random) { faults = ["etag=v\(number)", "cut=\(length / 3)"] + faults.dropFirst(2) }
            // A change under the same validator is one that nobody could tell.
            if !faults.contains(where: { $0.hasPrefix("etag=v") })
                || faults.contains(where: { $0.hasPrefix("lastMod") })
            {
                faults.removeAll { $0.hasPrefix("changes") }
            }
            let path = "/bytes/\(length)/r\(number)"
            let target = server.url("\(path)?\(faults.joined(separator: "&"))")
            let request = DataRequest(target).with(\.retryPolicy, .fixed(.zero, retries: 8))
            if let data = try? await cache.getData(request).value {
                let isRight = (0..<200).contains { FaultServer.body(of: path, size: length, version: $0) == data }
                #expect(isRight, "\(faults) of \(length), seed \(seed)")
                whole += 1
            }
        }
        #expect(whole > 125, "\(whole) of 250, seed \(seed)")
        #expect(cache.queueCounts == QueueCounts())
        await cache.shutdown()
        await server.stop()
    }
}
