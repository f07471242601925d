import TestSupport
import Testing

@Suite("No host decides for how long others wait", .timeLimit(.minutes(2)))
struct GivenSlotTests {
    private static let body = Data("0123456789".utf8)

    /// Begins a call whose transfer has brought four bytes of ten, and brings no more.
    private func beginTrickle(_ test: TestCache, in queue: FetchQueue = .fast) async throws -> (
        DataTask, ScriptedTransfer
    ) {
        let (task, transfer) = try await test.begin(url("trickle"), in: queue)
        transfer.hold(
            TransferResponse(headers: ["ETag": "\"1\"", "Content-Length": "10"], body: Self.body.prefix(4)))
        transfer.send(progress: 4, of: 10)
        return (task, transfer)
    }

    @Test("However many calls one host leaves without an answer, a call to another host starts at once")
    func otherHost() async throws {
        let test = TestCache()
        for number in 0..<20 { test.cache.getData(url("a\(number)")) }
        try await test.transport.waitForTransfers(8)
        let other = try #require(URL(string: "http://other.test/b"))
        test.cache.getData(other)
        try await test.transport.waitForTransfers(1, of: other)
        #expect(test.transport.transfers.count == 9)
        await test.cache.shutdown()
    }

    @Test(
        "A transfer that brings little gives its slot to a waiting one, keeps its bytes, and goes on",
        arguments: [1, 2])
    func givesWay(slots: Int) async throws {
        let test = TestCache { $0.fastQueue = QueueConfiguration(maxConcurrent: slots) }
        let (task, trickle) = try await beginTrickle(test)
        let failures = task.failures()
        let quick = slots == 2 ? try await test.begin(url("quick")).1 : nil
        let waiting = test.cache.getData(url("waiting"))
        for look in 1...2 {
            quick?.send(progress: look * 1_000_000, of: 10_000_000)
            try await test.clock.wake(after: .seconds(5))
        }
        let next = try await test.transport.nextTransfer()
        #expect(next.request.url == url("waiting") && trickle.isCancelled && quick?.isCancelled != true)
        next.finish(with: Data("w".utf8))
        #expect(try await waiting.value == Data("w".utf8))
        let rest = try await test.transport.nextTransfer()
        #expect(rest.request.url == url("trickle") && rest.request.headers["Range"] == "bytes=4-")
        rest.finish(
            with: Self.body.dropFirst(4), status: 206, headers: ["ETag": "\"1\"", "Content-Range": "bytes 4-9/10"])
        #expect(try await task.value == Self.body)
        #expect(failures.value.isEmpty)
    }

    @Test(
        "The slot goes to the one that waits, also where the one that gave it would come first",
        arguments: [(QueueConfiguration.Order.lifo, Priority.normal), (.fifo, .high)])
    func comesFirst(order: QueueConfiguration.Order, priority: Priority) async throws {
        let test = TestCache { $0.fastQueue = QueueConfiguration(maxConcurrent: 1, order: order) }
        let (task, trickle) = try await beginTrickle(test)
        task.priority = priority
        let waiting = test.cache.getData(url("waiting"))
        for _ in 1...2 { try await test.clock.wake(after: .seconds(5)) }
        let next = try await test.transport.nextTransfer()
        #expect(next.request.url == url("waiting") && trickle.isCancelled)
        next.finish(with: Data("w".utf8))
        #expect(try await waiting.value == Data("w".utf8))
        #expect(try await test.transport.nextTransfer().request.url == url("trickle"))
        await test.cache.shutdown()
    }

    @Test("A prefetch that brings little holds up no other prefetch")
    func prefetch() async throws {
        let test = TestCache()
        let (_, trickle) = try await beginTrickle(test, in: .slow)
        test.cache.slowGetData(url("waiting"))
        for _ in 1...2 { try await test.clock.wake(after: .seconds(5)) }
        #expect(try await test.transport.nextTransfer().request.url == url("waiting"))
        #expect(trickle.isCancelled)
    }

    @Test("Calls that wait for others of their own host are waited for as well")
    func ownHost() async throws {
        let test = TestCache { $0.fastQueue = QueueConfiguration(maxConcurrent: 8, maxPerHost: 1) }
        let (_, trickle) = try await beginTrickle(test)
        test.cache.getData(url("waiting"))
        for _ in 1...2 { try await test.clock.wake(after: .seconds(5)) }
        #expect(try await test.transport.nextTransfer().request.url == url("waiting"))
        #expect(trickle.isCancelled)
    }

    @Test("As long as waiting calls start, no transfer gives way; each time one has, it may hold its slot for longer")
    func patience() async throws {
        let test = TestCache { $0.fastQueue = QueueConfiguration(maxConcurrent: 2) }
        let (_, trickle) = try await beginTrickle(test)
        for number in 0..<12 { test.cache.getData(url("a\(number)")) }
        for _ in 0..<8 {
            let next = try await test.transport.nextTransfer()
            try await test.clock.wake(after: .seconds(5))
            // The next look is due: this one has been.
            try await test.clock.waitForSleepers(1)
            next.finish(with: Data())
        }
        #expect(!trickle.isCancelled)

        let alone = TestCache { $0.fastQueue = QueueConfiguration(maxConcurrent: 1) }
        var holding = try await beginTrickle(alone).1
        alone.cache.getData(url("other"))
        // The first look only notes the bytes.
        for looks in [2, 2, 3, 3] {
            for _ in 0..<looks {
                #expect(!holding.isCancelled)
                try await alone.clock.wake(after: .seconds(5))
            }
            let next = try await alone.transport.nextTransfer()
            #expect(holding.isCancelled && next.request.url != holding.request.url)
            holding = next
        }
    }
}
