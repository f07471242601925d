import DipperTesting
import Foundation
import Logging
import TestSupport
import Testing

@testable import DipperData

@Suite("Listeners of a cache's events", .timeLimit(.minutes(5)))
struct EventListenerTests {
    private let a = url("a")

    private func cache(level: Logger.Level = .critical) throws -> TestCache {
        let test = TestCache(folder: TemporaryFolder()) { $0.logger.logLevel = level }
        try test.cache.addData(Data(count: 10), for: a)
        return test
    }

    @Test("each listener receives everything from the moment it began to listen, until the cache has shut down")
    func several() async throws {
        let test = try cache()
        let first = test.cache.events(about: .calls)
        _ = try await test.cache.getData(a).value
        let second = test.cache.events(about: .calls)
        _ = try await test.cache.slowGetData(a).value
        await test.cache.shutdown()
        var heard: [[CacheEvent.Kind]] = [[], []]
        for await event in first { heard[0].append(event.kind) }
        for await event in second { heard[1].append(event.kind) }
        let slow: [CacheEvent.Kind] = [.callBegan(.slow), .callAnswered(.memory)]
        #expect(heard == [[.callBegan(.fast), .callAnswered(.memory)] + slow, slow])
        for await event in test.cache.events { Issue.record("after the end: \(event)") }
    }

    @Test("a listener that is too slow is told how many events it has missed, and goes on with the newest")
    func slow() async throws {
        let test = try cache()
        let events = test.cache.events(about: .calls, limit: 3)
        for _ in 0..<5 { _ = try await test.cache.getData(a).value }
        var listener = events.makeAsyncIterator()
        let missed = await listener.next()
        #expect(missed?.kind == .missed(7) && missed?.id == nil)
        var kept: [CacheEvent.Kind?] = []
        for _ in 0..<3 { kept.append(await listener.next()?.kind) }
        #expect(kept == [.callAnswered(.memory), .callBegan(.fast), .callAnswered(.memory)])
        _ = try await test.cache.getData(a).value
        await test.cache.shutdown()
        var rest: [CacheEvent.Kind] = []
        while let event = await listener.next() { rest.append(event.kind) }
        #expect(rest == [.callBegan(.fast), .callAnswered(.memory)], "nothing was missed since")
    }

    @Test("no event is built while nobody listens", arguments: [Logger.Level.critical, .info])
    func nobody(level: Logger.Level) async throws {
        let test = try cache(level: level)
        let hub = test.cache.engine.events
        test.transport.script(url("b"), [.body(Data("b".utf8))])
        for name in ["a", "b", "b"] { _ = try await test.cache.getData(url(name)).value }
        await test.cache.synchronize()
        #expect(hub.built.count == 0 && !hub.wants(.notes))
        do {
            let events = test.cache.events
            #expect(hub.wants(.notes))
            _ = try await test.cache.getData(a).value
            #expect(hub.built.count == 2)
            withExtendedLifetime(events) {}
        }
        #expect(await settle { !hub.wants([.notes, .writes]) })
        _ = try await test.cache.getData(a).value
        #expect(hub.built.count == 2)
        await test.cache.shutdown()
    }

    @Test("a listener whose Swift task is cancelled no longer listens")
    func cancelled() async throws {
        let test = try cache()
        let hub = test.cache.engine.events
        let events = test.cache.events
        let listening = Task { for await _ in events {} }
        listening.cancel()
        await listening.value
        #expect(await settle { !hub.wants(.notes) })
        await test.cache.shutdown()
    }

    @Test("a listener that begins while a job is under way hears how it goes on")
    func late() async throws {
        let test = try cache()
        let task = test.cache.getData(url("b"))
        let transfer = try await test.transport.nextTransfer()
        let events = test.cache.events(about: [.calls, .jobs])
        task.moveToSlowQueue()
        transfer.finish(with: Data("b".utf8))
        _ = try await task.value
        await test.cache.shutdown()
        var kinds: [CacheEvent.Kind] = []
        for await event in events { kinds.append(event.kind) }
        #expect(kinds.contains(.queueChanged(.slow)) && kinds.contains(.callAnswered(.network)))
    }
}
