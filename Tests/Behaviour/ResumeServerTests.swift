import FaultServer
import TestSupport
import Testing

@Suite("The cache and its transport against a real server", .timeLimit(.minutes(2)))
struct ResumeServerTests {
    private let size = 300_000
    private var path: String { "/bytes/\(size)/a" }

    private func with(
        _ folder: TemporaryFolder? = nil, _ change: (inout DataCache.Configuration) -> Void = { _ in },
        _ body: (FaultServer, DataCache) async throws -> Void
    ) async throws {
        try await withFaultServer(
            folder,
            {
                $0.retryPolicy = .fixed(.milliseconds(1), retries: 6)
                change(&$0)
            }, body)
    }

    private var body: Data { FaultServer.body(of: path, size: size) }

    @Test(
        "a body that is cut short is continued where it ended, however often, and no byte comes twice",
        arguments: ["cut=100000&times=1", "reset=100000&times=1", "cut=100000&piece=60000&times=1", "cut=70000"])
    func cut(fault: String) async throws {
        try await with { server, cache async throws in
            #expect(try await cache.getData(server.url("\(path)?etag=v&\(fault)")).value == body)
            // The client may have the last byte before the server has counted it.
            await server.waitForEnds(server.requests.count)
            let requests = server.requests
            let first = fault == "cut=70000" ? 70_000 : 100_000
            #expect(requests.count >= 2 && requests[1].status == 206)
            #expect(requests[1].header("Range") == "bytes=\(first)-" && requests[1].header("If-Range") == "\"v\"")
            #expect(requests.reduce(0) { $0 + $1.bytesSent } == size)
        }
    }

    @Test(
        "the largest body counts what is here, and progress never goes beyond the end", arguments: ["", "&norange=1"])
    func maximumSize(fault: String) async throws {
        let heard = Box<[TaskProgress]>([])
        try await with {
            $0.network.maximumBodySize = size
            $0.progressInterval = .zero
        } _: { server, cache async throws in
            cache.fastQueue.isSuspended = true
            let task = cache.getData(server.url("\(path)?etag=v&cut=200000&times=1\(fault)"))
                .onProgress { progress in heard.update { $0.append(progress) } }
            cache.fastQueue.isSuspended = false
            #expect(try await task.value == body)
            await cache.idle()
            #expect(heard.value.allSatisfy { $0.expected == size && $0.received <= size })
            #expect(heard.value.last?.received == size)
        }
        // Each part would do, the whole would not.
        try await with {
            $0.network.maximumBodySize = size - 1
        } _: { server, cache async throws in
            let chunked = server.url("\(path)?etag=w&chunked=1&cut=200000&times=1\(fault)")
            #expect(await cache.getData(chunked).error == .tooLarge)
        }
    }

    @Test("a call in the next run goes on where the last was cancelled")
    func afterCancel() async throws {
        let folder = TemporaryFolder()
        try await with(folder) {
            $0.progressInterval = .zero
        } _: { server, cache async throws in
            let target = server.url("\(path)?etag=v&stall=60000&times=1")
            let task = cache.getData(target)
            await task.receives(atLeast: 40_000)
            task.cancel()
            #expect(await task.error == .cancelled)
            await server.waitForEnds(1)
            await cache.shutdown()
            let next = DataCache(.init(directory: folder.url))
            #expect(try await next.getData(target).value == body)
            let range = try #require(server.requests.last?.header("Range"))
            let offset = try #require(Int(range.dropFirst(6).dropLast()))
            #expect(offset >= 40_000 && offset <= 60_000 && server.requests.count == 2)
            await next.shutdown()
        }
    }

    @Test("a program that changes the bytes it is shown does not change the answer")
    func changedBytes() async throws {
        let (size, path) = (1_200_000, "/bytes/1200000/b")
        try await with {
            $0.progressInterval = .zero
            $0.callbackQueue = .inPlace
        } _: { server, cache async throws in
            let shown = Box(Data())
            let task = cache.getData(server.url("\(path)?etag=v&stall=1100000&times=1"))
            task.onBytes { bytes in shown.update { $0 = bytes } }
            try await shown.wait { $0.count > 600_000 }
            shown.update { $0.removeFirst(16) }
            server.resetStalled()
            #expect(try await task.value == FaultServer.body(of: path, size: size))
        }
    }

    @Test("a prefetch whose server hangs up while it is held back goes on without a failure")
    func lostPatience() async throws {
        try await with {
            $0.retryPolicy = .never
            $0.network.lowSpeedTime = .seconds(600)
        } _: { server, cache async throws in
            let failures = Box(0)
            let slow = cache.slowGetData(server.url("\(path)?etag=v&stall=150000&times=1"))
                .onFail { _, _ in failures.increment() }
            await slow.receives(atLeast: 10_000)
            let urgent = cache.getData(server.url("/bytes/10/u?stall=5&times=1"))
            await server.waitForStalls(2)
            #expect(slow.state == .paused)
            // Both lose their connections; the urgent one goes on by itself, the other when it is let go on.
            server.resetStalled()
            urgent.cancel()
            #expect(try await slow.value == body)
            await cache.idle()
            #expect(failures.value == 0)
        }
    }

    // MARK: All at once

    private static let resources = [
        "etag=a&cacheControl=max-age=5", "etag=b&cacheControl=max-age=5,stale-while-revalidate=20",
        "etag=c&cacheControl=no-cache", "etag=d&cacheControl=no-store",
        "etag=e&cacheControl=max-age=3,stale-if-error=50&status=503&times=2",
        "etag=f&cut=4000&times=3&cacheControl=max-age=4", "etag=g&cacheControl=max-age=2&drip=2000,1",
        "etag=h&reset=3000&times=2&cacheControl=max-age=4,must-revalidate", "cacheControl=max-age=1",
        "etag=i&cut=5000&times=1&norange=1", "status=404", "hops=2&etag=j&cacheControl=max-age=3",
        "etag=k&header=Vary:X-Kind&cacheControl=max-age=6", "etag=l&cut=4000&times=2&rangeShift=3",
        "etag=W/m&cut=3000&times=1", "etag=n&cut=3000&times=1&chunked=1&rangeTotal=10001",
        "etag=o&gzip=1&cut=900&times=1",
    ]

    @Test("calls at random over short-lived entries and broken answers all end, each once, with the right bytes")
    func storm() async throws {
        let date = ManualDate()
        let ends = Box<[Int: Int]>([:])
        let served = Box(0)
        try await with(TemporaryFolder()) {
            $0.retryPolicy = .exponential(base: .milliseconds(3), retries: 8)
            $0.timeout = .seconds(60)
            $0.now = { date.now }
        } _: { server, cache async throws in
            await withTaskGroup(of: Void.self) { group in
                for worker in 0..<6 {
                    group.addTask {
                        var random = SeededRandom(UInt64(worker))
                        for step in 0..<50 {
                            let number = Int.random(in: 0..<Self.resources.count, using: &random)
                            let path = "/bytes/10000/r\(number)-\(Int.random(in: 0..<2, using: &random))"
                            let key = CacheKey(path)
                            var request = DataRequest(server.url("\(path)?\(Self.resources[number])")).with(\.key, key)
                            switch Int.random(in: 0..<12, using: &random) {
                            case 0: request.headers = ["Cache-Control": "no-cache"]
                            case 1: request.headers = ["Cache-Control": "max-stale"]
                            case 2: request.headers = ["X-Kind": "\(step % 3)"]
                            case 3: request.waitsForDiskWrite = true
                            case 4: request.validation = .anyStatus
                            case 5...8:
                                request.cachePolicy = DataRequest.CachePolicy.allCases.randomElement(using: &random)
                            default: break
                            }
                            let task = random.chance(2) ? cache.getData(request) : cache.slowGetData(request)
                            let call = worker * 1_000 + step
                            task.onEnd { _ in ends.update { $0[call, default: 0] += 1 } }
                            switch Int.random(in: 0..<16, using: &random) {
                            case 0: task.cancel()
                            case 1: task.moveToSlowQueue()
                            case 2: cache.moveTaskToSlowQueue(key)
                            case 3: cache.removeData(for: key)
                            case 4: cache.clearMemory()
                            case 5: cache.clear()
                            case 6: cache.cancel(key)
                            case 7: cache.flush(olderThan: .seconds(2))
                            case 8...9: date.advance(by: 1)
                            default: break
                            }
                            guard !random.chance(3), let response = try? await task.response, response.status == 200
                            else { continue }
                            served.update { $0 += 1 }
                            #expect(response.data == FaultServer.body(of: path, size: 10_000), "\(path)")
                        }
                    }
                }
            }
            // Refreshes behind old bytes end as well.
            await cache.idle()
            #expect(cache.queueCounts == QueueCounts())
            #expect(ends.value.count == 300 && ends.value.values.allSatisfy { $0 == 1 })
            #expect(served.value > 60, "\(served.value) of 300")
        }
    }

    // MARK: The transport alone

    private func result(
        of request: TransferRequest, over transport: CurlTransport, _ begun: (any Transfer) async -> Void = { _ in }
    ) async -> Result<TransferResponse, DipperError> {
        let (ends, end) = AsyncStream.makeStream(of: Result<TransferResponse, DipperError>.self)
        await begun(transport.start(request) { if case .finished(let result) = $0 { end.yield(result) } })
        for await result in ends { return result }
        return .failure(.cancelled)
    }

    @Test("A body that is too large ends a transfer that was held back, once it is let go on")
    func tooLargeAfterPause() async throws {
        let server = try await FaultServer.start()
        var configuration = CurlConfiguration()
        configuration.maximumBodySize = 1_000
        let transport = CurlTransport(configuration)
        func end(of path: String, _ begun: (any Transfer) async -> Void = { _ in }) async -> DipperError? {
            await result(of: TransferRequest(url: server.url(path), queue: .slow), over: transport, begun).error
        }
        let error = await end(of: "/bytes/10000/a?chunked=1&delay=50") { transfer in
            transfer.setThrottled(true)
            await server.waitForEnds(1)
            // The first bytes have been held back when another transfer of the pool is over.
            #expect(await end(of: "/bytes/10/b?delay=50") == nil)
            transfer.setThrottled(false)
        }
        #expect(error == .tooLarge)
        await transport.shutdown()
        await server.stop()
    }

    @Test("A server that hangs up amid the TLS handshake is a failure that may pass", arguments: [true, false])
    func handshake(isReset: Bool) async throws {
        let hostile = try await HostileServer(greeting: [isReset ? .reset : .close]) { _ in [] }
        let request = DataRequest(string: hostile.server.url("/", scheme: "https"))
        let error = await hostile.cache.getData(request).error
        // A reset may come before the connection counts as made.
        #expect(error == .connectionLost || isReset && error == .connectionFailed)
        if !isReset { #expect(error?.detail == "the TLS handshake was broken off") }
        await hostile.stop()
    }

    @Test("A request leaves nothing of its method and body behind for the next one")
    func methods() async throws {
        let server = try await RawServer.start { request in
            let body = request.head.hasPrefix("HEAD") ? "" : "here"
            return [.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\n" + body), .close]
        }
        let transport = CurlTransport()
        let requests = [
            ("POST", Data("1".utf8)), ("POST", Data()), ("HEAD", nil), ("POST", Data("1".utf8)), ("GET", nil),
        ]
        for (method, body) in requests {
            var request = TransferRequest(url: URL(string: server.url("/x"))!)
            request.method = method
            request.body = body
            let response = try await result(of: request, over: transport).get()
            #expect(response.body == Data((method == "HEAD" ? "" : "here").utf8), "\(method)")
        }
        await transport.shutdown()
        await server.stop()
    }
}
