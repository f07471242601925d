import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Slow code of the program's own holds up no other call", .timeLimit(.minutes(2)))
struct SlowCodeTests {
    private let a = url("a")
    private let b = url("b")

    private func expectAnswer(_ test: TestCache, whileHeldAt arrivals: Box<Int>, _ door: Door) async throws {
        try await arrivals.wait { $0 > 0 }
        test.transport.script(b, [.text("b")])
        #expect(try await test.ask(b) == "b from network")
        door.stayOpen()
    }

    @Test("a validation of an answer")
    func validation() async throws {
        let (door, arrivals) = (Door(), Box(0))
        let test = TestCache()
        test.transport.script(a, [.text("a")])
        let slow = ResponseValidation { _ in
            arrivals.update { $0 += 1 }
            door.pass()
            return nil
        }
        let task = test.cache.getData(DataRequest(a).with(\.validation, slow))
        try await expectAnswer(test, whileHeldAt: arrivals, door)
        #expect(try await task.value == Data("a".utf8))
        await test.cache.shutdown()
    }

    @Test("a call that joins while the validation of another is asked is asked itself")
    func joining() async throws {
        let (door, asked) = (Door(), Box<[String]>([]))
        let test = TestCache { $0.retryPolicy = .never }
        test.transport.script(a, [.text("broken", ["Cache-Control": "max-age=500"])])
        func request(_ name: String) -> DataRequest {
            let validation = ResponseValidation { _ in
                asked.update { $0.append(name) }
                if name == "first" { door.pass() }
                return .rejected
            }
            return DataRequest(a).with(\.validation, validation)
        }
        let first = test.cache.getData(request("first"))
        try await asked.wait { $0 == ["first"] }
        let second = test.cache.getData(request("second"))
        #expect(test.cache.queueCounts.fastRunning == 1)
        door.stayOpen()
        door.open()
        for task in [first, second] { #expect(await task.error == .rejected) }
        #expect(asked.value.contains("second"))
        #expect(test.cache.data(for: a) == nil)
        await test.cache.shutdown()
    }

    @Test("a modifier that does not return: neither cancelling nor a shutdown waits for it", arguments: [false, true])
    func endlessModifier(isShutDown: Bool) async throws {
        let (asked, ends) = (Box(0), AsyncStream<Void>.makeStream())
        let test = TestCache { $0.fastQueue.maxConcurrent = 1 }
        let endless = RequestModifier { request in
            asked.increment()
            for await _ in ends.stream {}
            return request
        }
        let task = test.cache.getData(DataRequest(a).with(\.modifier, endless))
        try await asked.wait { $0 == 1 }
        test.transport.script(b, [.text("b")])
        let next = test.cache.getData(b)
        if isShutDown { await test.cache.shutdown() } else { task.cancel() }
        #expect(await task.error == .cancelled)
        #expect(await next.error == (isShutDown ? .cancelled : nil), "its place in the queue is free")
        ends.continuation.finish()
        await test.cache.shutdown()
        #expect(test.requests(a).isEmpty)
    }

    @Test("a codec of what is kept in a tier of the program's own")
    func codec() async throws {
        let codec = StalledCodec()
        let shelf = Shelf()
        let test = TestCache {
            $0.tiers = [shelf]
            $0.recordCodec = codec
        }
        test.transport.script(a, [.text("a", ["Cache-Control": "max-age=500"])])
        #expect(try await test.ask(a) == "a from network")
        try await expectAnswer(test, whileHeldAt: codec.arrivals, codec.door)
        await test.cache.idle()
        #expect(shelf.records.value.count == 2)
        await test.cache.shutdown()
    }

    @Test("a hook that runs in place")
    func hook() async throws {
        let (door, arrivals) = (Door(), Box(0))
        let test = TestCache { $0.callbackQueue = .inPlace }
        test.cache.getData(a).onEnd { _ in
            arrivals.update { $0 += 1 }
            door.pass()
        }
        // A hook that is added after the end runs where it is added, which would hold up the test itself.
        try await test.transport.nextTransfer().finish(with: Data("a".utf8))
        try await expectAnswer(test, whileHeldAt: arrivals, door)
        await test.cache.idle()
        await test.cache.shutdown()
    }
}
