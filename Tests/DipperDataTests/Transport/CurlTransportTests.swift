import FaultServer
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("libcurl against a server with faults", .timeLimit(.minutes(5)))
struct CurlTransportTests {
    /// Runs one transfer to its end.
    private func fetch(
        _ url: URL, headers: HTTPHeaders = [:], _ change: (inout CurlConfiguration) -> Void = { _ in }
    ) async -> Result<TransferResponse, DipperError> {
        var configuration = CurlConfiguration()
        change(&configuration)
        let transport = CurlTransport(configuration)
        let result = await withCheckedContinuation { continuation in
            _ = transport.start(TransferRequest(url: url, headers: headers)) { event in
                if case .finished(let result) = event { continuation.resume(returning: result) }
            }
        }
        await transport.shutdown()
        return result
    }

    private func error(_ result: Result<TransferResponse, DipperError>) -> DipperError? {
        if case .failure(let error) = result { error } else { nil }
    }

    @Test(
        "bodies come byte for byte", arguments: ["", "?chunked=1", "?close=1", "?drip=3000,1", "?gzip=1", "?norange=1"])
    func bodies(query: String) async throws {
        let server = try await FaultServer.start()
        for size in [0, 1, 16_384, 200_000] {
            let path = "/bytes/\(size)/x"
            let response = try await fetch(server.url(path + query)).get()
            #expect(response.status == 200)
            #expect(response.body == FaultServer.body(of: path, size: size))
        }
        await server.stop()
    }

    @Test(
        "faults of servers are told apart",
        arguments: [
            ("/bytes/5000/a?cut=100", DipperError.truncated),
            ("/bytes/5000/a?length=9000", .truncated),
            ("/bytes/5000/a?reset=100", .connectionLost),
            ("/bytes/5000/a?cut=100&chunked=1", .connectionLost),
            ("/bytes/60000/a", .tooLarge),
            ("/bytes/60000/a?chunked=1", .tooLarge),
            ("/bytes/10/a?noanswer=1", .timedOut),
        ])
    func faults(target: String, expected: DipperError) async throws {
        let server = try await FaultServer.start()
        let result = await fetch(server.url(target)) {
            $0.maximumBodySize = 50_000
            // On a busy machine the others may stand still for a while.
            if expected == .timedOut { $0.lowSpeedTime = .seconds(1) }
        }
        let error = error(result)
        #expect(
            error == expected || (expected == .connectionLost && error == .truncated), "\(String(describing: error))")
        #expect(error?.detail != nil || expected == .tooLarge)
        await server.stop()
    }

    @Test("the long body of an error is not waited for", arguments: ["", "&chunked=1"])
    func longError(more: String) async throws {
        let server = try await FaultServer.start()
        let target = server.url("/bytes/10/a?status=404&errorBody=20000000&drip=70000,500" + more)
        let response = try await fetch(target).get()
        #expect(response.status == 404)
        await server.waitForEnds(1)
        #expect(server.requests[0].bytesSent < 5_000_000)
        await server.stop()
    }

    @Test("a connection refused and a host without an address are failures that may pass")
    func refused() async throws {
        // Bound, so that nobody else gets it, but not listening.
        let (socket, port) = try NginxServer.boundSocket()
        defer { close(socket) }
        let refused = error(await fetch(URL(string: "http://127.0.0.1:\(port)/")!))
        #expect(refused == .connectionFailed)
        #expect(refused?.mayPass == true)
        let unknown = error(await fetch(URL(string: "http://nowhere.invalid/")!))
        #expect(unknown == .hostNotFound)
        #expect(unknown?.mayPass == true)
    }

    @Test("a redirect is an answer like any other")
    func redirects() async throws {
        let server = try await FaultServer.start()
        let response = try await fetch(server.url("/bytes/100/a?hops=3")).get()
        #expect(response.status == 302)
        #expect(response.headers["Location"] != nil)
        #expect(server.requests.count == 1)
        await server.stop()
    }

    @Test("headers go out and come back; a field without a value is sent")
    func headers() async throws {
        let server = try await FaultServer.start()
        let response = try await fetch(
            server.url("/bytes/10/a?header=X-Answer:%20yes&etag=tag"), headers: ["X-Ask": "hello", "X-Empty": ""]
        ).get()
        #expect(response.headers["x-answer"] == "yes")
        #expect(response.headers["ETag"] == "\"tag\"")
        let request = try #require(server.requests.first)
        #expect(request.header("X-Ask") == "hello")
        #expect(request.header("X-Empty") == "")
        await server.stop()
    }

    @Test("metrics tell the times, the bytes, the protocol and whether the connection was used before")
    func metrics() async throws {
        let server = try await FaultServer.start()
        let cache = DataCache()
        var seen: [TransferMetrics] = []
        for number in 0..<2 {
            let response = try await cache.getData(server.url("/bytes/5000/\(number)?delay=30")).response
            seen.append(try #require(response.metrics))
        }
        #expect(!seen[0].reusedConnection)
        #expect(seen[1].reusedConnection)
        for metrics in seen {
            #expect(metrics.bytesReceived == 5_000)
            #expect(metrics.httpVersion == "HTTP/1.1")
            #expect(metrics.firstByte >= .milliseconds(25))
            #expect(metrics.total >= metrics.firstByte)
        }
        await cache.shutdown()
        await server.stop()
    }

    @Test("a transfer that is throttled on its way reads nothing on until it is released")
    func throttledOnItsWay() async throws {
        let server = try await FaultServer.start()
        let transport = CurlTransport()
        func start(_ path: String) -> (any Transfer, AsyncStream<TransferEvent>) {
            let (events, continuation) = AsyncStream<TransferEvent>.makeStream()
            let request = TransferRequest(url: server.url(path), queue: .slow, isThrottled: false)
            let transfer = transport.start(request) { event in
                received.update { if case .progress(let count, _) = event, path.contains("long") { $0 = count } }
                continuation.yield(event)
                if case .finished = event { continuation.finish() }
            }
            return (transfer, events)
        }
        let received = Box(0)
        // The server sends for eight seconds or more: it has not ended when it is throttled.
        let (transfer, events) = start("/bytes/40000000/long?drip=10000,2")
        for await event in events { if case .progress = event { break } }
        transfer.setThrottled(true)
        // Another transfer of the thread comes after the throttling, and gives the server time to send on.
        func other() async { for await _ in start("/bytes/10/short?delay=100").1 {} }
        await other()
        let before = received.value
        await other()
        #expect(received.value == before)
        transfer.setThrottled(false)
        #expect(await settle { received.value > before })
        transfer.cancel()
        await transport.shutdown()
        await server.stop()
    }

    @Test("a transfer that is throttled from the start asks nothing until it is released")
    func throttling() async throws {
        let server = try await FaultServer.start()
        let transport = CurlTransport()
        let received = Box(0)
        let path = "/bytes/4000000/x"
        func start(_ isThrottled: Bool) -> (any Transfer, AsyncStream<TransferEvent>) {
            let (events, continuation) = AsyncStream<TransferEvent>.makeStream()
            let transfer = transport.start(
                TransferRequest(url: server.url(path), queue: .slow, isThrottled: isThrottled)
            ) { event in
                if case .progress(let count, _) = event { received.update { $0 = count } }
                continuation.yield(event)
                if case .finished = event { continuation.finish() }
            }
            return (transfer, events)
        }
        let (held, heldEvents) = start(true)
        let (other, otherEvents) = start(false)
        for await event in otherEvents {
            if case .progress = event { break }
        }
        #expect(server.requests.count == 1, "the throttled one has not asked")
        other.setThrottled(true)
        other.setThrottled(false)
        for await event in otherEvents {
            if case .finished(let result) = event {
                #expect(try result.get().body == FaultServer.body(of: path, size: 4_000_000))
            }
        }
        held.setThrottled(false)
        for await event in heldEvents {
            if case .finished(let result) = event { #expect(try result.get().body.count == 4_000_000) }
        }
        await transport.shutdown()
        await server.stop()
    }

    @Test("a cancelled transfer ends as cancelled and frees its connection")
    func cancel() async throws {
        let server = try await FaultServer.start()
        let cache = DataCache()
        let task = cache.getData(server.url("/bytes/10/a?noanswer=1"))
        await server.waitForRequests(1)
        task.cancel()
        #expect(await task.error == .cancelled)
        await server.waitForEnds(1)
        await cache.shutdown()
        await server.stop()
    }

    @Test("the threads end with the cache")
    func threads() async throws {
        func threads() -> Set<String> {
            let tasks = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")) ?? []
            let names = tasks.compactMap {
                try? String(contentsOfFile: "/proc/self/task/\($0)/comm", encoding: .utf8)
            }
            return Set(names.map { $0.trimmingCharacters(in: .newlines) }.filter { $0.hasPrefix("ending-") })
        }
        let folder = TemporaryFolder()
        var configuration = DataCache.Configuration(directory: folder.url)
        configuration.name = "ending"
        configuration.retryPolicy = .never
        let cache = DataCache(configuration)
        #expect(await cache.getData(URL(string: "http://127.0.0.1:1/")!).error == .connectionFailed)
        // A thread names itself once it runs.
        #expect(await settle { threads() == ["ending-fast", "ending-slow", "ending-disk", "ending-read"] })
        await cache.shutdown()
        // The kernel lists a thread for a moment after it has been joined.
        #expect(await settle { threads().isEmpty })
    }
}
