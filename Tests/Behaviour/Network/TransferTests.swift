import FaultServer
import TestSupport
import Testing

@Suite("Transfers from a server with faults", .timeLimit(.minutes(2)))
struct TransferTests {
    @Test(
        "bodies come byte for byte", arguments: ["", "?chunked=1", "?close=1", "?drip=3000,1", "?gzip=1", "?norange=1"])
    func bodies(query: String) async throws {
        try await withFaultServer { server, cache async throws in
            for size in [0, 1, 16_384, 200_000] {
                let path = "/bytes/\(size)/x"
                let response = try await cache.getData(server.url(path + query)).response
                #expect(response.status == 200)
                #expect(response.data == FaultServer.body(of: path, size: size))
            }
        }
    }

    @Test(
        "faults of servers are told apart",
        arguments: [
            ("/bytes/5000/a?cut=100", DipperError.truncated), ("/bytes/5000/a?length=9000", .truncated),
            ("/bytes/5000/a?reset=100", .connectionLost), ("/bytes/5000/a?cut=100&chunked=1", .connectionLost),
            ("/bytes/60000/a", .tooLarge), ("/bytes/60000/a?chunked=1", .tooLarge),
            ("/bytes/10/a?noanswer=1", .timedOut),
        ])
    func faults(target: String, expected: DipperError) async throws {
        try await withFaultServer {
            $0.network.maximumBodySize = 50_000
            // On a busy machine the others may stand still for a while.
            if expected == .timedOut { $0.network.lowSpeedTime = .seconds(1) }
        } _: { server, cache async throws in
            let error = await cache.getData(server.url(target)).error
            #expect(
                error == expected || (expected == .connectionLost && error == .truncated),
                "\(String(describing: error))")
            #expect(error?.detail != nil || expected == .tooLarge)
        }
    }

    @Test("answers before the final one are told to the call, and are no part of the final one")
    func interim() async throws {
        let server = try await RawServer.start { _ in
            [
                .send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"),
                .send("HTTP/1.1 200 OK\r\nCache-Control: max-age=9\r\nContent-Length: 4\r\n\r\nhere"),
            ]
        }
        let cache = DataCache(DataCache.Configuration())
        let task = cache.getData(DataRequest(string: server.url("/")))
        let heard = Box<[InterimResponse]>([])
        task.onInterim { response in heard.update { $0.append(response) } }
        let response = try await task.response
        try await cache.waitForHooks()
        let (hints, processing) = (
            InterimResponse(status: 103, headers: ["Link": "</a>"]), InterimResponse(status: 102)
        )
        #expect(heard.value == [hints, processing])
        #expect(response.status == 200 && response.headers["Link"] == nil)
        task.onInterim { response in heard.update { $0.append(response) } }
        try await cache.waitForHooks()
        #expect(heard.value == [hints, processing, hints, processing], "a late hook hears what it has missed")
        #expect(try await cache.getData(DataRequest(string: server.url("/"))).response.source == .memory)
        await cache.shutdown()
        await server.stop()
    }

    @Test("a connection refused and a host without an address are failures that may pass")
    func refused() async throws {
        // Bound, so that nobody else gets it, but not listening.
        let socket = try BoundSocket()
        try await withFaultServer { _, cache async throws in
            for (url, expected) in [
                ("http://127.0.0.1:\(socket.port)/", DipperError.connectionFailed),
                ("http://nowhere.invalid/", .hostNotFound),
            ] {
                let error = await cache.getData(DataRequest(string: url)).error
                #expect(error == expected && error?.mayPass == true)
            }
        }
    }

    @Test("the long body of an error is not waited for", .inCheck, arguments: ["", "&chunked=1"])
    func longError(more: String) async throws {
        try await withFaultServer { server, cache async throws in
            let target = server.url("/bytes/10/a?status=404&errorBody=20000000&drip=70000,500" + more)
            #expect(await cache.getData(target).error == .status(404))
            await server.waitForEnds(1)
            #expect(server.requests[0].bytesSent < 5_000_000)
        }
    }

    @Test("fields go out and come back; the metrics tell times, bytes, the protocol and whether a connection was used")
    func headersAndMetrics() async throws {
        try await withFaultServer { server, cache async throws in
            for number in 0..<2 {
                let target = server.url("/bytes/5000/\(number)?delay=30&header=X-Answer:%20yes&etag=tag")
                let request = DataRequest(target).with(\.headers, ["X-Ask": "hello", "X-Empty": ""])
                let response = try await cache.getData(request).response
                #expect(response.headers["x-answer"] == "yes" && response.headers["ETag"] == "\"tag\"")
                let metrics = try #require(response.metrics)
                #expect(metrics.reusedConnection == (number == 1))
                #expect(metrics.bytesReceived == 5_000 && metrics.httpVersion == "HTTP/1.1")
                #expect(metrics.firstByte >= .milliseconds(25) && metrics.total >= metrics.firstByte)
            }
            for request in server.requests {
                #expect(request.header("X-Ask") == "hello" && request.header("X-Empty") == "")
                #expect(request.header("User-Agent") == "Dipper")
            }
        }
    }

    @Test("a prefetch that is held back on its way reads nothing on until urgent work has ended")
    func heldBack() async throws {
        let queue = DispatchQueue(label: "test")
        try await withFaultServer {
            $0.progressInterval = .zero
            $0.callbackQueue = .dispatch(queue)
        } _: { server, cache async throws in
            let received = Box(0)
            // The server sends for eight seconds or more: it has not ended when it is held back.
            let prefetch = cache.slowGetData(server.url("/bytes/40000000/long?drip=10000,2"))
            prefetch.onProgress { progress in received.update { $0 = progress.received } }
            try await received.wait { $0 > 0 }
            let urgent = cache.getData(server.url("/bytes/10/a?noanswer=1"))
            // By the end of another call the prefetch is held back. It stays so during a third one.
            _ = try await cache.getData(server.url("/bytes/10/b?delay=100")).value
            let before = queue.sync { received.value }
            _ = try await cache.getData(server.url("/bytes/10/c?delay=100")).value
            #expect(queue.sync { received.value } == before)
            urgent.cancel()
            try await received.wait { $0 > before }
        }
    }

    @Test("a call that is cancelled ends at once and frees its connection; shutting down ends all others")
    func ends() async throws {
        try await withFaultServer { server, cache async throws in
            let task = cache.getData(server.url("/bytes/10/a?noanswer=1"))
            await server.waitForRequests(1)
            task.cancel()
            #expect(await task.error == .cancelled)
            await server.waitForEnds(1)
            let (urgent, slow) = (
                cache.getData(server.url("/bytes/10/b?noanswer=1")), cache.slowGetData(server.url("/bytes/10/c"))
            )
            await server.waitForRequests(2)
            await cache.shutdown()
            await server.waitForEnds(2)
            for task in [urgent, slow] { #expect(await task.error != nil) }
            #expect(await cache.getData(server.url("/bytes/10/d")).error == .shutDown)
            #expect(server.requests.count == 2)
        }
    }
}
