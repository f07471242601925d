import TestSupport
import Testing

@Suite("Cancelling", .timeLimit(.minutes(2)))
struct CancellingTests {
    private let test = TestCache()
    private let a = url("a")

    enum Way: String, CaseIterable, Sendable { case task, url, all, awaiting, shutdown, timeLimit }

    private func end(_ task: DataTask, by way: Way, request: DataRequest) async throws {
        switch way {
        case .task: for _ in 0..<2 { task.cancel() }
        case .url: test.cache.cancel(request)
        case .all: test.cache.cancelAll()
        case .awaiting:
            let waiting = Task { await task.error }
            waiting.cancel()
            #expect(await waiting.value == .cancelled)
        case .shutdown: await test.cache.shutdown()
        case .timeLimit:
            try await test.clock.wake(after: .seconds(5))
        }
        #expect(await task.error == (way == .timeLimit ? .timedOut : .cancelled))
    }

    @Test("Every way to end a call stops its transfer and leaves nothing behind", arguments: Way.allCases)
    func stops(way: Way) async throws {
        let request = DataRequest(a).with(\.timeout, .seconds(5))
        let ends = Box(0)
        let (task, transfer) = try await test.begin(request)
        task.onEnd { _ in ends.increment() }
        try await end(task, by: way, request: request)
        try await transfer.wait { $0.isCancelled }
        if way != .shutdown { await test.cache.idle() }
        try await ends.wait { $0 == 1 }
        #expect(test.cache.queueCounts == QueueCounts())
        #expect(!test.cache.hasData(for: a))
        guard way != .shutdown else { return }
        // The next call does not join what has ended.
        test.transport.script(a, [.text("again")])
        #expect(try await test.ask(request) == "again from network")
        await test.cache.idle()
        #expect(ends.value == 1 && test.requests(a).count == 2)
    }

    // MARK: While a hook of the request is at work

    enum Place: String, CaseIterable, Sendable { case modifier, credentials, challenge, redirect }

    private func request(_ place: Place, _ gate: Gate) -> DataRequest {
        var request = DataRequest(a).with(\.timeout, .seconds(5))
        switch place {
        case .modifier: request.modifier = .changing { _ in await gate.pass() }
        case .redirect: request.redirectHandler = .changing { _ in await gate.pass() }
        case .credentials, .challenge:
            request.credentials = .provider { challenge in
                if place == .credentials || challenge.demand != nil { await gate.pass() }
                return challenge.demand == nil ? "x" : "y"
            }
        }
        return request
    }

    /// Hooks that went on before have had their effect when this returns.
    private func laterHooksReturn(_ test: TestCache) async throws {
        let modifier = RequestModifier.changing { _ in await Task.yield() }
        for number in 0..<5 {
            test.transport.script(url("later\(number)"), [.text("later")])
            _ = try await test.ask(DataRequest(url("later\(number)")).with(\.modifier, modifier))
        }
    }

    @Test(
        "A call that ends while a hook of its request is at work ends once, and sends nothing",
        arguments: Place.allCases, [Way.task, .url, .shutdown, .timeLimit])
    func duringHook(place: Place, way: Way) async throws {
        let gate = Gate()
        test.transport.script(
            a, [place == .redirect ? .redirect("/b") : place == .challenge ? .status(401) : .text("1")])
        test.transport.script(url("b"), [.text("1")])
        let request = request(place, gate)
        let ends = Box(0)
        let task = test.cache.getData(request).onEnd { _ in ends.increment() }
        try await gate.waitForArrival()
        let sent = test.transport.transfers.count
        try await end(task, by: way, request: request)
        gate.open()
        try await laterHooksReturn(way == .shutdown ? TestCache() : test)
        #expect(test.transport.transfers.count { !$0.request.url.path.hasPrefix("/later") } == sent)
        try await ends.wait { $0 == 1 }
        #expect(test.cache.queueCounts == QueueCounts())
    }

    @Test("A new call for the key, while the hook of a cancelled one is still at work, is served by itself")
    func newCallDuringHook() async throws {
        let gate = Gate()
        test.transport.script(a, [.text("1")])
        let held = RequestModifier.changing(identity: "me") { [transport = test.transport] _ in
            if transport.transfers.isEmpty { await gate.pass() }
        }
        let first = test.cache.getData(DataRequest(a).with(\.modifier, held))
        try await gate.waitForArrival()
        first.cancel()
        #expect(await first.error == .cancelled)
        let next = DataRequest(a).with(\.modifier, RequestModifier(identity: "me") { $0 })
        #expect(try await test.ask(next) == "1 from network")
        gate.open()
        try await laterHooksReturn(test)
        #expect(test.requests(a).count == 1)
    }

    @Test("A move while a hook is at work counts for the request that is sent then")
    func moveDuringHook() async throws {
        let gate = Gate()
        let task = test.cache.getData(request(.modifier, gate))
        try await gate.waitForArrival()
        task.moveToSlowQueue()
        #expect(task.queue == .slow && task.requestedQueue == .fast)
        gate.open()
        let transfer = try await test.transport.nextTransfer()
        #expect(transfer.request.queue == .slow && transfer.request.headers["Priority"] == "u=6")
        transfer.finish(with: Data())
        #expect(await task.error == nil)
    }

    @Test("A URL means all its calls, whatever their header fields and keys; a request those with its key")
    func everyCall() async throws {
        let test = TestImageCache()
        let requests = [
            ImageRequest(a), ImageRequest(a).with(\.headers, ["Accept": "image/webp"]),
            ImageRequest(a).with(\.key, "own"), ImageRequest(url("b")).with(\.key, "other"),
        ]
        let (cache, data) = (test.cache, test.cache.data)
        let pictures = requests.map { cache.getImage($0) }
        cache.moveTaskToSlowQueue(a)
        #expect(pictures.map(\.queue) == [FetchQueue.slow, .slow, .slow, .fast])
        cache.cancel(requests[1])
        #expect(await pictures[1].error == .cancelled)
        cache.cancel(requests[0])
        #expect(await pictures[0].error == .cancelled)
        #expect(
            cache.queueCounts.slowWaiting + cache.queueCounts.slowRunning + cache.queueCounts.parked == 1,
            "that of the key")
        cache.cancel(a)
        for task in [pictures[0], pictures[2]] { #expect(await task.error == .cancelled) }
        #expect(cache.queueCounts.fastRunning == 1)
        cache.cancelAll()
        let tasks = requests.map { data.getData($0.data) }
        data.moveTaskToSlowQueue(a)
        #expect(tasks.map(\.queue) == [FetchQueue.slow, .slow, .slow, .fast])
        data.cancel(requests[1].data)
        #expect(await tasks[1].error == .cancelled)
        data.cancel(CacheKey(a))
        #expect(await tasks[0].error == .cancelled)
        #expect(
            cache.queueCounts.slowWaiting + cache.queueCounts.slowRunning + cache.queueCounts.parked == 1,
            "that of the key")
        data.cancel(a)
        for task in [tasks[0], tasks[2]] { #expect(await task.error == .cancelled) }
        #expect(cache.queueCounts.fastRunning == 1)
    }

    @Test("A literal means the calls of that key alone")
    func literals() async throws {
        let test = TestImageCache()
        let requests = [ImageRequest(a), ImageRequest(a).with(\.headers, ["Accept": "image/webp"])]
        let (cache, data) = (test.cache, test.cache.data)
        let pictures = requests.map { cache.getImage($0) }
        cache.moveTaskToSlowQueue("http://host.test/a")
        #expect(pictures.map(\.queue) == [FetchQueue.slow, .fast])
        cache.cancel("http://host.test/a")
        #expect(await pictures[0].error == .cancelled)
        #expect(cache.queueCounts.fastRunning == 1)
        cache.cancelAll()
        #expect(await pictures[1].error == .cancelled)
        let tasks = requests.map { data.getData($0.data) }
        data.moveTaskToSlowQueue("http://host.test/a")
        #expect(tasks.map(\.queue) == [FetchQueue.slow, .fast])
        data.cancel("http://host.test/a")
        #expect(await tasks[0].error == .cancelled)
        #expect(data.queueCounts.fastRunning == 1)
    }

    @Test("The task of a provider is cancelled when no call waits for it any more")
    func provider() async throws {
        let (gate, isCancelled) = (Gate(), Box(false))
        let provider = CustomProvider(key: "k") {
            await withTaskCancellationHandler {
                await gate.pass()
            } onCancel: {
                isCancelled.update { $0 = true }
            }
            return Data()
        }
        let task = test.cache.getData(DataRequest(provider))
        try await gate.waitForArrival()
        task.cancel()
        #expect(await task.error == .cancelled)
        try await isCancelled.wait { $0 }
        gate.open()
    }
}
