import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("Code of the program's own that looks at the cache", .timeLimit(.minutes(5)))
struct CallersCodeTests {
    @Test("a validation may read its own task while a stored answer is confirmed")
    func validation() async throws {
        let test = TestCache()
        let a = url("a")
        let fields: HTTPHeaders = ["ETag": "\"1\"", "Cache-Control": "max-age=10, must-revalidate"]
        test.transport.script(a, [.text("1", fields), .status(304, fields)])
        _ = try await test.cache.getData(a).value
        test.date.advance(by: 20)
        let task = Box<DataTask?>(nil)
        let seen = Box<[Int]>([])
        let curious = ResponseValidation { _ in
            if let attempts = task.value?.attempts { seen.update { $0.append(attempts) } }
            return nil
        }
        test.network.isUp = false
        let parked = test.cache.getData(DataRequest(a).with(\.validation, curious))
        try #require(await settle { parked.state == .parked })
        task.update { $0 = parked }
        test.network.isUp = true
        let hasEnded = await settle {
            test.clock.advance(by: .milliseconds(10))
            return parked.state == .finished
        }
        try #require(hasEnded)
        #expect(try await parked.response.source == .revalidated)
        #expect(!seen.value.isEmpty)
        await test.cache.shutdown()
    }

    @Test("a provider may look at the cache when it is asked whether it is local")
    func provider() async throws {
        struct Curious: DataProvider {
            let cache: DataCache
            let asked: Box<Int>
            var cacheKey: CacheKey { "curious" }
            var isLocal: Bool {
                asked.update { $0 += 1 }
                return cache.queueCounts.parked > 0
            }
            func data() async throws -> Data { Data("x".utf8) }
        }
        let test = TestCache()
        let asked = Box(0)
        let request = DataRequest(Curious(cache: test.cache, asked: asked)).with(\.cachePolicy, .ignoreCache)
        #expect(try await test.cache.getData(request).value == Data("x".utf8))
        #expect(asked.value > 0)
        await test.cache.shutdown()
    }

    // MARK: Hooks in place

    @Test("a hook that blocks off the calling thread holds up no new call, and one other thread runs the hooks")
    func blockedHook() async throws {
        let test = TestCache()
        let door = Door()
        let ended = Box(0)
        // More than two turns of the engine. The calling thread runs the hooks of the first one.
        let tasks = (0..<500).map { test.cache.slowGetData(url("\($0)")) }
        let caller = Box(pthread_self())
        for task in tasks {
            task.onEnd { _ in
                if pthread_self() != caller.value { door.pass() }
                ended.update { $0 += 1 }
            }
        }
        caller.update { $0 = pthread_self() }
        test.cache.cancelAll()
        try #require(await settle { door.arrivals == 1 })
        test.cache.getData(url("new"))
        #expect(await settle { test.transport.transfers(of: url("new")).count == 1 })
        #expect(await stays { door.arrivals == 1 })
        door.stayOpen()
        await test.cache.shutdown()
        #expect(await settle { ended.value == 500 })
    }

    @Test("a hook that blocks does not hold up the retries of other calls")
    func blockedTimer() async throws {
        let test = TestCache {
            $0.clock = ContinuousClock()
            $0.retryPolicy = .fixed(.milliseconds(1), retries: 1)
        }
        let door = Door()
        for name in ["a", "b"] { test.transport.script(url(name), [.failure(.connectionLost), .silence]) }
        // The hook is there before the first attempt fails.
        test.cache.fastQueue.isSuspended = true
        test.cache.getData(url("a")).onRetry { door.pass() }
        // The thread that makes the first attempt may run the hook as well, if the timer fires soon enough.
        Thread.detachNewThread { test.cache.fastQueue.isSuspended = false }
        try #require(await settle { door.arrivals == 1 })
        test.cache.getData(url("b"))
        #expect(await settle { test.transport.transfers(of: url("b")).count == 2 })
        door.stayOpen()
        await test.cache.shutdown()
    }

    @Test("hooks wait until the thread has stopped carrying out actions, also those of an engine around this one")
    func nested() {
        let log = Box<[String]>([])
        let steps = Afterwards.collect {
            let inner = Afterwards.collect { Afterwards.run { log.update { $0.append("hook") } } }
            #expect(inner.isEmpty)
            log.update { $0.append("action") }
        }
        for step in steps { step() }
        Afterwards.run { log.update { $0.append("at once") } }
        #expect(log.value == ["action", "hook", "at once"])
    }
}
