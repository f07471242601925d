import TestSupport
import Testing

@Suite("A snapshot of the queues tells why each fetch waits", .timeLimit(.minutes(2)))
struct QueueSnapshotTests {
    private func waits(_ cache: DataCache, limit: Int = 200) -> [String: FetchSnapshot.Wait] {
        let fetches = cache.queueSnapshot(limit: limit).fetches
        let waits = fetches.compactMap { fetch in fetch.wait.map { (String(fetch.key.string.suffix(1)), $0) } }
        return Dictionary(waits) { first, _ in first }
    }

    private func order(_ cache: DataCache, limit: Int = 200) -> String {
        cache.queueSnapshot(limit: limit).fetches.map { $0.key.string.suffix(1) }.joined()
    }

    /// Returns the transfer of a fetch that goes on because the network has changed.
    private func transferOnceWoken(_ test: TestCache) async throws -> ScriptedTransfer {
        try await test.clock.waitForSleepers(1, dueWithin: .seconds(5))
        return try await test.nextTransfer(after: .seconds(5))
    }

    @Test("Running fetches come first, with their progress, then waiting ones in their order, with what they wait for")
    func urgentWork() async throws {
        let test = TestCache { $0.fastQueue = QueueConfiguration(maxConcurrent: 1) }
        let (_, transfer) = try await test.begin(url("a"))
        test.call(url("s"), in: .slow)
        test.call(DataRequest(url("b")).with(\.priority, .low), in: .fast)
        test.call(url("c"), in: .fast)
        test.call(url("c"), in: .fast)
        transfer.send(progress: 30, of: 90)
        let snapshot = test.cache.queueSnapshot()
        #expect(order(test.cache) == "acbs")
        #expect(snapshot.fetches.map(\.wait) == [nil, .slots(1), .slots(1), .urgentWork(3)])
        #expect(snapshot.fetches.map(\.callers) == [1, 2, 1, 1] && snapshot.fetches.map(\.attempts) == [1, 0, 0, 0])
        #expect(snapshot.fetches[0].progress == TaskProgress(received: 30, expected: 90))
        #expect(snapshot.fetches.map(\.priority) == [.normal, .normal, .low, .normal])
        #expect(snapshot.fetches[0].state == .transferring && snapshot.fetches[3].queue == .slow)
        #expect("\(snapshot.fetches[3])" == "http://host.test/s in slowQueue: waits for 3 urgent fetches")
        #expect(snapshot.counts == test.cache.queueCounts && snapshot.counts.fastWaiting == 2)
        #expect(order(test.cache, limit: 1) == "acs")
        test.cache.fastQueue.order = .lifo
        test.call(url("d"), in: .fast)
        #expect(order(test.cache) == "adcbs")
    }

    @Test("A prefetch that is held back, a host with all its fetches, and a suspended queue are told apart")
    func reasons() async throws {
        let test = TestCache { $0.fastQueue = QueueConfiguration(maxConcurrent: 5, maxPerHost: 1) }
        let (_, slow) = try await test.begin(url("s"), in: .slow)
        let (_, urgent) = try await test.begin(url("a"))
        try await slow.wait { $0.isThrottled }
        test.call(url("b"), in: .fast)
        let other = try #require(URL(string: "http://other.test/o"))
        _ = try await test.begin(other)
        #expect(waits(test.cache) == ["b": .host(1), "s": .urgentWork(3)])
        #expect(test.cache.queueSnapshot().fetches.last { $0.wait == .urgentWork(3) }?.state == .paused)
        test.cache.fastQueue.isSuspended = true
        #expect(waits(test.cache)["b"] == .suspended)
        test.cache.cancelAll()
        urgent.finish(with: Data())
        await test.cache.idle()
        #expect(test.cache.queueSnapshot().fetches.isEmpty && test.cache.queueSnapshot().counts == QueueCounts())
    }

    @Test("A parked fetch tells how long it is offline, or how much of its back-off or of Retry-After is left")
    func parked() async throws {
        let test = TestCache { $0.retryPolicy = .fixed(.seconds(10), retries: 3) }
        test.network.setReachable(false, host: "host.test")
        let offline = test.call(url("o"), in: .fast)
        try await offline.waitForFailures()
        test.network.isUp = true
        test.transport.script(url("x"), [.failing(.connectionLost)])
        let other = try #require(URL(string: "http://other.test/r"))
        let headers: HTTPHeaders = ["Retry-After": "30"]
        test.transport.script(other, [.response(TransferResponse(status: 503, headers: headers, body: Data()))])
        let late = test.call(other, in: .fast)
        try await late.waitForFailures()
        test.clock.advance(by: .milliseconds(4_500))
        #expect(waits(test.cache)["o"] == .network(since: .milliseconds(4_500)))
        #expect(waits(test.cache)["r"] == .retryAfter(.seconds(30), left: .milliseconds(25_500)))
        let texts = test.cache.queueSnapshot().fetches.map { "\($0.wait.map { "\($0)" } ?? "")" }
        #expect(texts == ["offline for 5 s", "the server says Retry-After 30 s, 26 s left"])
        #expect(test.cache.queueSnapshot().fetches.map(\.state) == [.parked, .parked])
        test.network.setReachable(true, host: "host.test")
        let transfer = try await transferOnceWoken(test)
        transfer.fail(with: .connectionLost)
        try await offline.waitForFailures()
        #expect(waits(test.cache)["o"] == .backOff(.seconds(10)))
        #expect(test.cache.queueSnapshot().fetches.contains { $0.failure == .connectionLost })
    }

    @Test("A retry rule that is being asked is the reason")
    func rule() async throws {
        let (asked, answer) = (Box(false), Box(false))
        let policy = RetryPolicy.custom { _ in
            asked.update { $0 = true }
            try? await answer.wait { $0 }
            return nil
        }
        let test = TestCache { $0.retryPolicy = policy }
        test.transport.script(url("a"), [.failing(.connectionLost)])
        let task = test.call(url("a"), in: .fast)
        try await asked.wait { $0 }
        #expect(waits(test.cache) == ["a": .retryRule])
        answer.update { $0 = true }
        #expect(await task.error == .connectionLost)
    }

    @Test("A simulated network holds fetches back until it is real again, or answers as a constrained one")
    func simulatedNetwork() async throws {
        let test = TestCache()
        test.cache.simulatedNetwork = .offline
        let task = test.call(url("a"), in: .fast)
        try await task.waitForFailures()
        guard case .network? = waits(test.cache)["a"] else { return #expect(Bool(false), "\(waits(test.cache))") }
        test.cache.simulatedNetwork = .constrained
        test.cache.slowQueue.allowsConstrainedNetwork = false
        let slow = test.call(url("s"), in: .slow)
        try await transferOnceWoken(test).finish(with: Data("a".utf8))
        #expect(try await task.value == Data("a".utf8))
        try await slow.waitForFailures()
        #expect(slow.state == .parked)
        // The conditions of the real network stay.
        test.network.setConditions(NetworkConditions(isExpensive: true))
        #expect(test.cache.networkConditions == NetworkConditions(isConstrained: true, isExpensive: true))
        test.network.setConditions(NetworkConditions())
        test.cache.simulatedNetwork = nil
        try await transferOnceWoken(test).finish(with: Data())
        #expect(await slow.error == nil && test.cache.simulatedNetwork == nil)
    }

    @Test("A simulated memory pressure empties memory, and the limit comes back after it")
    func simulatedPressure() throws {
        let test = TestCache()
        try test.cache.addData(Data(count: 100), for: "a")
        test.cache.simulatedMemoryPressure = .severe
        #expect(test.cache.memoryCount == 0 && test.cache.memoryPressure == .severe)
        test.cache.simulatedMemoryPressure = nil
        try test.cache.addData(Data(count: 100), for: "a")
        #expect(test.cache.memoryCount == 1 && test.cache.memoryPressure == .normal)
    }

    @Test("A sink that is added later receives events until its observation is released")
    func observed() async throws {
        let test = TestCache()
        let record = EventRecord()
        try test.cache.addData(Data("a".utf8), for: CacheKey(url("a")))
        var observation: ChangeObservation? = test.cache.observe(record)
        _ = try await test.call(url("a"), in: .fast).value
        #expect(record.kinds == [.callBegan(.fast), .callAnswered(.memory)])
        withExtendedLifetime(observation) {}
        observation = nil
        _ = try await test.call(url("a"), in: .fast).value
        #expect(record.kinds.count == 2)
    }
}
