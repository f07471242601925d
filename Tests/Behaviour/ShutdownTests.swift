import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("The end of a cache", .timeLimit(.minutes(2)))
struct ShutdownTests {
    private let a = url("a")

    @Test("A shutdown cancels running, waiting and parked calls, and later calls end with shutDown")
    func calls() async throws {
        let test = TestCache(folder: TemporaryFolder())
        test.network.setReachable(false, host: "far.test")
        let parked = test.cache.getData(DataRequest(string: "http://far.test/x"))
        try await parked.waitForFailures()
        let (running, transfer) = try await test.begin(a)
        let waiting = test.cache.slowGetData(url("b"))
        let events = test.cache.events
        await test.cache.shutdown()
        for task in [running, waiting, parked] { #expect(await task.error == .cancelled) }
        #expect(transfer.isCancelled)
        #expect(test.cache.queueCounts == QueueCounts())
        var count = 0
        for await _ in events { count += 1 }
        #expect(count > 0, "the stream of events ends")
        for queue in [FetchQueue.fast, .slow] { #expect(await test.call(a, in: queue).error == .shutDown) }
        await test.cache.shutdown()
        #expect(test.transport.transfers.count == 1)
    }

    @Test("Each of many calls is told its end once, and what had come before is on disk")
    func manyCalls() async throws {
        let test = TestCache(folder: TemporaryFolder()) { $0.callbackQueue = .serial() }
        for number in 0..<20 { try await test.keep("\(number)", for: url("\(number)")) }
        let ended = Box(0)
        for number in 0..<2_000 { test.cache.slowGetData(url("more\(number)")).onEnd { _ in ended.increment() } }
        let next = await test.reopened()
        try await ended.wait { $0 == 2_000 }
        for number in 0..<20 { #expect(next.cache.data(for: url("\(number)")) == Data("\(number)".utf8)) }
        await next.cache.shutdown()
        #expect(ended.value == 2_000)
    }

    @Test("Releasing the last reference ends the calls of a cache")
    func released() async throws {
        let transport = ScriptedTransport()
        var configuration = DataCache.Configuration()
        configuration.transport = transport
        configuration.networkMonitor = ManualNetwork()
        var cache: DataCache? = DataCache(configuration)
        let task = cache?.getData(a)
        let transfer = try await transport.nextTransfer()
        cache = nil
        #expect(await task?.error == .cancelled)
        try await transfer.wait { $0.isCancelled }
    }

    // MARK: What is kept alive

    @Test("After its shutdown a cache is released as a whole", arguments: [true, false])
    func noLeak(hasFolder: Bool) async throws {
        let isGone = Box(false)
        let fields: HTTPHeaders = ["ETag": "\"1\"", "Cache-Control": "max-age=10, stale-while-revalidate=100"]
        do {
            let canary = Canary(isGone)
            let test = TestCache(folder: hasFolder ? TemporaryFolder() : nil) { configuration in
                let now = configuration.now
                configuration.now = { withExtendedLifetime(canary) { now() } }
            }
            test.transport.script(a, [.text("1", fields), .text("2", fields)])
            _ = try await test.cache.getData(DataRequest(a).with(\.timeout, .seconds(600))).value
            test.date.advance(by: 20)
            _ = try await test.cache.getData(a).response.revalidation?.value
            test.cache.getData(url("silent"))
            await test.cache.shutdown()
        }
        try await isGone.wait { $0 }
    }

    @Test("A task whose hooks hold it is released after its end")
    func noCycle() async throws {
        let test = TestCache()
        let gone = [Box(false), Box(false)]
        do {
            let canaries = gone.map { Canary($0) }
            let (fetched, transfer) = try await test.begin(a)
            fetched.onEnd { [canary = canaries[0]] _ in withExtendedLifetime((canary, fetched)) {} }
            transfer.finish(with: Data())
            _ = await fetched.ending
            test.transport.script(url("b"), [.failure(.connectionLost), .silence])
            let cancelled = test.cache.getData(url("b"))
            cancelled.onFail { [canary = canaries[1]] _, _ in withExtendedLifetime((canary, cancelled)) {} }
            try await cancelled.waitForFailures()
            cancelled.cancel()
            _ = await cancelled.ending
        }
        for box in gone { try await box.wait { $0 } }
        await test.cache.shutdown()
    }

    @Test("Nothing is kept of a call whose transport answers before it has returned the transfer")
    func instantTransport() async throws {
        struct InstantTransport: Transport, Transfer {
            var receive: (@Sendable (TransferEvent) -> Void)?
            func cancel() {}
            func setThrottled(_ isThrottled: Bool) {}
            func setQueue(_ queue: FetchQueue) {}
            func start(
                _ request: TransferRequest, receive: @escaping @Sendable (TransferEvent) -> Void
            ) -> any Transfer {
                receive(.finished(.success(TransferResponse(body: Data("here".utf8)))))
                return InstantTransport(receive: receive)
            }
            func shutdown() async {}
        }
        let test = TestCache { $0.transport = InstantTransport() }
        let isGone = Box(false)
        do {
            let canary = Canary(isGone)
            let validation = ResponseValidation { _ in withExtendedLifetime(canary) { nil } }
            #expect(try await test.ask(DataRequest(a).with(\.validation, validation)) == "here from network")
        }
        try await isGone.wait { $0 }
        await test.cache.shutdown()
    }
}
