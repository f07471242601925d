import Dipper
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("idle()", .timeLimit(.minutes(2)))
struct IdleTests {
    private let test = TestCache()

    @Test("returns when all calls have ended, their closures have been called, and the answers are on disk")
    func everything() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder) { $0.callbackQueue = .serial() }
        let called = Box(0)
        for number in 0..<20 {
            test.transport.script(url("\(number)"), [.status(503), .body(Data(count: 5_000))])
            test.cache.slowGetData(url("\(number)")) { _ in called.increment() }
        }
        await test.whileClockRuns { await test.cache.idle() }
        #expect(called.value == 20)
        #expect(test.cache.queueCounts == QueueCounts())
        let other = DataCache(.init(directory: folder.url))
        for number in 0..<20 { #expect(other.data(for: url("\(number)"))?.count == 5_000) }
        await other.shutdown()
    }

    @Test("waits for a call that a closure makes, and for typed values")
    func chained() async throws {
        for (name, text) in [("a", "[1]"), ("b", "[2]")] { test.transport.script(url(name), [.text(text)]) }
        let values = Box<[[Int]]>([])
        test.cache.getData(url("a")) { _ in
            test.cache.getValue([Int].self, from: url("b")).then { value in values.update { $0.append(value) } }
        }
        await test.cache.idle()
        #expect(values.value == [[2]])
    }

    @Test("waits for closures on a request's own queue, which are done when that queue does them, and for their calls")
    func ownQueue() async throws {
        test.transport.script(url("a"), [.text("a")])
        let held = Box<[@Sendable () -> Void]>([])
        let request = DataRequest(url("a")).with(\.callbackQueue, .custom { work in held.update { $0.append(work) } })
        let called = Box(0)
        let task = test.cache.getData(request) { _ in
            called.increment()
            test.cache.getData(request) { _ in called.increment() }
        }
        #expect(await task.error == nil, "the value does not wait for the queue")
        for number in 0..<2 {
            try await held.wait { !$0.isEmpty }
            await #expect(throws: WaitTimeout.self) { try await test.cache.idle(within: .milliseconds(20)) }
            #expect(called.value == number)
            let works = held.value
            held.update { $0 = [] }
            for work in works { work() }
        }
        await test.cache.idle()
        #expect(called.value == 2)
    }

    @Test("of an image cache waits until pictures are made and their closures called")
    func pictures() async throws {
        let test = TestImageCache(decoder: CountingDecoder(isHeld: true))
        try test.transport.script(url("a.png"), [.image(.sample())])
        let shown = Box(0)
        test.cache.getImage(url("a.png")) { _ in shown.increment() }
        await #expect(throws: WaitTimeout.self) { try await test.cache.idle(within: .milliseconds(50)) }
        #expect(shown.value == 0)
        test.decoder.releaseAll()
        await test.cache.idle()
        #expect(shown.value == 1)
    }

    @Test("with a limit fails with the numbers of fetches that wait")
    func limit() async throws {
        let (task, transfer) = try await test.begin(url("silent"))
        let error = await #expect(throws: WaitTimeout.self) {
            try await test.cache.idle(within: .milliseconds(20))
        }
        #expect(error?.description.contains("fastRunning: 1") == true, "\(String(describing: error))")
        transfer.finish(with: Data())
        try await test.cache.idle(within: .seconds(30))
        #expect(await task.error == nil)
    }
}
