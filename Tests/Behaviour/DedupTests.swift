import Dispatch
import TestSupport
import Testing

@Suite("One fetch per key", .timeLimit(.minutes(2)))
struct DedupTests {
    private let test = TestCache(folder: TemporaryFolder()) { $0.retryPolicy = .never }
    private let a = url("a")
    private let body = Data("here".utf8)

    @Test("Calls from both queues and many threads share one request, and each closure is called once")
    func oneRequest() async throws {
        let test = TestCache { $0.callbackQueue = nil }
        let calls = Box(0)
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<60 {
                group.addTask {
                    test.call(url("a"), in: number % 3 == 0 ? .slow : .fast).then { _ in calls.increment() }
                }
            }
        }
        try await test.transport.nextTransfer().finish(with: body)
        await test.cache.idle()
        #expect(calls.value == 60)
        let again = try await test.cache.getData(a).response
        #expect(again.told == "here from memory" && again.attempts == 0)
        #expect(test.transport.transfers.count == 1)
        #expect(test.cache.statistics.networkRequests == 1 && test.cache.statistics.networkAnswers == 60)
    }

    @Test("The fragment of a URL is no part of what is fetched: what came for one answers the other")
    func fragments() async throws {
        let fields: HTTPHeaders = ["ETag": "\"1\"", "Cache-Control": "max-age=10"]
        try await test.keep("1", fields, for: url("a#top"))
        test.transport.script(a, [.text("1", fields)])
        #expect(try await test.ask(a) == "1 from memory")
        test.date.advance(by: 20)
        #expect(try await test.ask(a) == "1 from network")
        #expect(test.requests(a).map { $0["If-None-Match"] } == ["\"1\""])
    }

    @Test(
        "What a call asks for leaves with it: who stays is served as if it had never joined", arguments: [false, true])
    func leaving(isLast: Bool) async throws {
        let other = TestCache { $0.fastQueue.maxConcurrent = 1 }
        try await other.keep("1", ["ETag": "\"1\"", "Cache-Control": "max-age=10"], for: a, age: 10)
        let (_, running) = try await other.begin(url("running"))
        let early = isLast ? nil : other.cache.getRemoteData(a)
        let stays = other.cache.getData(a)
        let leaves = early ?? other.cache.getRemoteData(a)
        leaves.cancel()
        #expect(await leaves.error == .cancelled)
        other.transport.script(a, [.status(304)])
        running.finish(with: Data())
        #expect(try await stays.response.told == "1 from revalidated")
        #expect(other.requests(a).last?["If-None-Match"] == "\"1\"")
    }

    // MARK: Calls with rules of their own

    @Test("A call with a validation that begins a fetch and leaves it has no say, and takes nothing away")
    func leavingJudge() async throws {
        try await test.keep("1", ["ETag": "\"1\"", "Cache-Control": "max-age=10"], for: a, age: 10)
        let (leaves, transfer) = try await test.begin(
            DataRequest(a).with(\.validation, ResponseValidation { $0.status == 200 ? nil : .rejected }))
        let stays = test.cache.getData(a)
        _ = test.cache.queueCounts
        leaves.cancel()
        #expect(await leaves.error == .cancelled)
        transfer.finish(with: Data("gone".utf8), status: 404)
        #expect(await stays.error?.status == 404)
        #expect(test.transport.transfers(of: a).count == 2 && test.cache.hasData(for: a))
    }

    private static let refusal = ResponseValidation { _ in .rejected }

    @Test(
        "The answer to a shared request is for the calls whose own validation accepts it",
        arguments: [
            (ResponseValidation.anyStatus, ResponseValidation.success, 404, nil, DipperError.status(404)),
            (.success, .anyStatus, 404, .status(404), nil), (refusal, .success, 200, .rejected, nil),
        ] as [(ResponseValidation, ResponseValidation, Int, DipperError?, DipperError?)])
    func validations(
        first: ResponseValidation, second: ResponseValidation, status: Int, firstError: DipperError?,
        secondError: DipperError?
    ) async throws {
        let (one, transfer) = try await test.begin(DataRequest(a).with(\.validation, first))
        let other = test.cache.getData(DataRequest(a).with(\.validation, second))
        test.transport.script(a, [.text("fine", status: status)])
        transfer.finish(with: Data("fine".utf8), status: status)
        #expect(await one.error == firstError)
        #expect(await other.error == secondError)
    }

    @Test("A call that refuses what an alternative has brought ends by itself, and so does the fetch")
    func refusesAlternative() async throws {
        test.transport.script(url("b"), [.text("mirror")])
        let (first, transfer) = try await test.begin(DataRequest(a).with(\.alternatives, [url("b")]))
        let picky = ResponseValidation { $0.body == Data("mirror".utf8) ? .rejected : nil }
        let second = test.cache.getData(DataRequest(a).with(\.validation, picky))
        transfer.fail(with: .connectionFailed)
        await test.whileClockRuns { await test.cache.idle() }
        #expect(await first.error == nil)
        #expect(await second.error == .rejected)
        #expect(test.transport.transfers.count == 2)
    }

    @Test(
        "An answer that is for one request alone is not handed to a call with other fields",
        arguments: [["Vary": "*"], ["Cache-Control": "no-store"]] as [HTTPHeaders])
    func forOneAlone(headers: HTTPHeaders) async throws {
        let request = DataRequest(a).with(\.key, "k")
        let (one, transfer) = try await test.begin(request.with(\.headers, ["Cookie": "user=1"]))
        let two = test.cache.getData(request.with(\.headers, ["Cookie": "user=2"]))
        test.transport.script(a, [.text("page of 2", headers)])
        transfer.finish(with: Data("page of 1".utf8), headers: headers)
        #expect(try await one.value == Data("page of 1".utf8))
        #expect(try await two.value == Data("page of 2".utf8))
    }

    @Test(
        "a call on its way while an earlier answer drops the entry is joined by those after it, and its answer kept",
        arguments: [false, true])
    func onItsWay(waitsForLease: Bool) async throws {
        let (scripted, leases) = (ScriptedTransport(), LateLeases())
        let (action, made) = (Box<@Sendable () -> Void>({}), Box<DataTask?>(nil))
        let test = TestCache(folder: waitsForLease ? TemporaryFolder() : nil) {
            $0.transport = BusyTransport(base: scripted, url: url("b")) { action.value() }
            $0.leases.services = [leases]
        }
        let first = test.cache.getData(a)
        let transfer = try await scripted.nextTransfer()
        action.update { [a, body] in
            $0 = {
                leases.areLate.update { $0 = true }
                transfer.finish(with: body, headers: ["Cache-Control": "no-store"])
                let task = test.cache.getData(DataRequest(a).with(\.cachePolicy, .ignoreCache))
                made.update { $0 = task }
            }
        }
        let other = test.cache.getData(url("b"))
        try await made.wait { $0 != nil }
        func begun() async throws -> ScriptedTransfer {
            #expect(try await scripted.nextTransfer().request.url == url("b"))
            return try await scripted.nextTransfer()
        }
        // The second call has its turn before the third one is made.
        var asked: ScriptedTransfer?
        if waitsForLease { try await leases.waiting.wait { $0.count == 1 } } else { asked = try await begun() }
        let (second, third) = (try #require(made.value), test.cache.getData(a))
        try await test.cache.waitForHooks()
        for answer in leases.waiting.value { answer() }
        if waitsForLease { asked = try await begun() }
        other.cancel()
        _ = await other.error
        try #require(try await first.value == body && scripted.transfers.count == 3)
        asked?.finish(with: Data("newer".utf8))
        for task in [second, third] { #expect(try await task.value == Data("newer".utf8)) }
        #expect(test.cache.readData(for: a) == Data("newer".utf8))
    }

    @Test("A reader that joins a refresh is answered from disk, and the refresh by the network")
    func readerJoinsRefresh() async throws {
        try await test.cache.addDataAndWait(Data("old".utf8), for: CacheKey(a))
        test.cache.clearMemory()
        let refresh = test.cache.getRemoteData(a)
        let transfer = try await test.transport.nextTransfer()
        #expect(try await test.ask(a) == "old from disk")
        transfer.finish(with: body)
        #expect(try await refresh.response.told == "here from network")
        #expect(test.transport.transfers.count == 1)
        #expect(test.cache.readData(for: a) == body)
    }

    @Test("A call that may use the cache alone is not answered by the fetch that it joins", arguments: [true, false])
    func cacheOnly(hasFolder: Bool) async throws {
        let test = TestCache(folder: hasFolder ? TemporaryFolder() : nil)
        let (fetching, transfer) = try await test.begin(a)
        let reading = test.cache.getData(DataRequest(a).with(\.cachePolicy, .cacheOnly))
        #expect(await reading.error == .notCached)
        transfer.finish(with: body)
        #expect(await fetching.error == nil)
    }
}

/// Has another thread do something while the cache's own thread begins the transfer of a URL.
private struct BusyTransport: Transport {
    let base: ScriptedTransport
    let url: URL
    let action: @Sendable () -> Void

    func start(
        _ request: TransferRequest, receive: @escaping @Sendable (TransferEvent) -> Void
    ) -> any Transfer {
        if request.url == url {
            let isDone = DispatchSemaphore(value: 0)
            Thread.detachNewThread { [action] in
                action()
                isDone.signal()
            }
            _ = isDone.wait(timeout: .now() + 10)
        }
        return base.start(request, receive: receive)
    }

    func shutdown() async { await base.shutdown() }
}

/// Gives each lease, but from some time on only when the test says so.
private final class LateLeases: LeaseService {
    let name = "late"
    let placesExpire = true
    let areLate = Box(false), waiting = Box<[@Sendable () -> Void]>([])

    func claim(_ key: CacheKey, _ report: @escaping @Sendable (LeaseEvent) -> Void) -> any LeaseClaim {
        LateClaim(self, report)
    }

    private final class LateClaim: LeaseClaim {
        let service: LateLeases
        let report: @Sendable (LeaseEvent) -> Void

        init(_ service: LateLeases, _ report: @escaping @Sendable (LeaseEvent) -> Void) {
            (self.service, self.report) = (service, report)
        }

        func take(_ place: LeasePlace, since lookedUp: Date) {
            let answer: @Sendable () -> Void = { [report] in
                report(.taken(place, mayBeKept: false, lifetime: nil))
            }
            if service.areLate.value { service.waiting.update { $0.append(answer) } } else { answer() }
        }

        func watch(in queue: FetchQueue) {}
        func tell(_ news: LeaseNews) {}
        func end(_ outcome: LeaseNews) {}
    }
}
