import DipperTesting
import Dispatch
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("A task and its hooks", .timeLimit(.minutes(5)))
struct DataTaskTests {
    @Test("hooks added late hear what has happened, in order, and each thing once")
    func lateHooks() async throws {
        let test = TestCache()
        test.transport.script(url("a"), [.status(503), .failure(.connectionLost), .body(Data("x".utf8))])
        let task = test.cache.getData(DataRequest(url("a")).with(\.retryPolicy, .fixed(.seconds(1))))
        for _ in 0..<2 {
            try await test.clock.waitForSleepers(1)
            test.clock.advance(by: .seconds(1))
        }
        _ = try await task.value
        for _ in 0..<2 {
            let heard = Box<[String]>([])
            task.onFail { error, isFatal in heard.update { $0.append("\(error.shortDescription) \(isFatal)") } }
            task.onRetry { heard.update { $0.append("retry") } }
            task.then { data in heard.update { $0.append("\(data.count)") } }
            // The thread that has ended the task may be the one that calls the hooks.
            #expect(
                await settle {
                    heard.value == ["status 503 false", "connection lost false", "retry", "retry", "1"]
                })
        }
    }

    @Test("hooks are called in the order of what happened")
    func hookOrder() async throws {
        let test = TestCache()
        let heard = Box<[String]>([])
        let task = test.cache.getData(DataRequest(url("a")).with(\.retryPolicy, .fixed(.seconds(1))))
        task.onRetry { heard.update { $0.append("retry") } }
        task.onFail { error, isFatal in heard.update { $0.append("fail \(isFatal)") } }
        task.onProgress { progress in heard.update { $0.append("\(progress.received)") } }
        task.then { _ in heard.update { $0.append("then") } }
        try await test.transport.nextTransfer().fail(with: .connectionLost)
        try await test.clock.waitForSleepers(1)
        test.clock.advance(by: .seconds(1))
        let transfer = try await test.transport.nextTransfer()
        transfer.send(progress: 5, of: 9)
        transfer.finish(with: Data(count: 9))
        // A hook for the end is called after all the others; whoever awaits the value may be earlier.
        await withCheckedContinuation { continuation in task.onEnd { _ in continuation.resume() } }
        #expect(heard.value == ["fail false", "retry", "5", "then"])
    }

    @Test("a task that joins a parked job hears of its failure")
    func joinParked() async {
        let test = TestCache()
        test.network.isUp = false
        let first = test.cache.getData(url("a"))
        #expect(await settle { first.state == .parked })
        let heard = Box<[DipperError]>([])
        test.cache.slowGetData(url("a")).onFail { error, _ in heard.update { $0.append(error) } }
        #expect(await settle { heard.value == [.unreachable] })
        await test.cache.shutdown()
    }

    @Test("progress is throttled by the interval, and the last byte is always told")
    func progress() async throws {
        let test = TestCache { $0.progressInterval = .seconds(1) }
        let heard = Box<[Int]>([])
        let task = test.cache.getData(url("a")).onProgress { progress in heard.update { $0.append(progress.received) } }
        let transfer = try await test.transport.nextTransfer()
        for received in 1...9 { transfer.send(progress: received, of: 100) }
        try await test.clock.waitForSleepers(1)
        test.clock.advance(by: .seconds(1))
        #expect(await settle { heard.value == [1, 9] })
        for received in 10...20 { transfer.send(progress: received, of: 100) }
        transfer.send(progress: 100, of: 100)
        transfer.finish(with: Data(count: 100))
        _ = try await task.value
        #expect(await settle { heard.value == [1, 9, 100] })
    }

    @Test("the event stream begins with the present state and ends with the end")
    func events() async throws {
        let test = TestCache()
        let task = test.cache.getData(url("a"))
        let transfer = try await test.transport.nextTransfer()
        let events = task.events
        transfer.send(progress: 1, of: 2)
        transfer.finish(with: Data(count: 2))
        var seen: [String] = []
        for await event in events {
            switch event {
            case .state(let state): seen.append("\(state)")
            case .progress(let progress): seen.append("\(progress.received)")
            case .finished(let response): seen.append("finished \(response.source.rawValue)")
            case .failure, .retry: seen.append("?")
            }
        }
        #expect(seen == ["transferring", "1", "finished network"])
        var late: [String] = []
        for await event in task.events { late.append("\(event)".prefix(while: { $0 != "(" }).description) }
        #expect(late == ["state", "finished"])
    }

    @Test("closures of a task run one at a time and in order, also on a concurrent queue")
    func concurrentQueue() async throws {
        let queue = DispatchQueue(label: "test", attributes: .concurrent)
        let test = TestCache {
            $0.callbackQueue = .dispatch(queue); $0.progressInterval = .zero
        }
        let heard = Box<[Int]>([])
        let inside = Box(0)
        let overlaps = Box(0)
        let task = test.cache.getData(url("a")).onProgress { progress in
            inside.update { $0 += 1 }
            if inside.value > 1 { overlaps.update { $0 += 1 } }
            heard.update { $0.append(progress.received) }
            inside.update { $0 -= 1 }
        }
        let transfer = try await test.transport.nextTransfer()
        for received in 1...500 { transfer.send(progress: received, of: 1_000) }
        transfer.finish(with: Data())
        await withCheckedContinuation { continuation in task.onEnd { _ in continuation.resume() } }
        #expect(overlaps.value == 0)
        #expect(heard.value == heard.value.sorted())
        #expect(Set(heard.value).count == heard.value.count)
    }

    @Test("a closure that calls the cache from in place does not lock up")
    func reentrant() async throws {
        let test = TestCache()
        test.transport.script(url("a"), [.body(Data("a".utf8))])
        test.transport.script(url("b"), [.body(Data("b".utf8))])
        let inner = Box<DataTask?>(nil)
        let outer = test.cache.getData(url("a"))
        outer.then { _ in
            test.cache.cancel(url("nothing"))
            let task = test.cache.getData(url("b"))
            inner.update { $0 = task }
        }
        _ = try await outer.value
        #expect(try await inner.value?.value == Data("b".utf8))
        await test.cache.shutdown()
    }

    @Test("a custom queue is handed the work")
    func customQueue() async throws {
        let pending = Box<[@Sendable () -> Void]>([])
        let test = TestCache()
        let called = Box(false)
        let request = DataRequest(url("a")).with(
            \.callbackQueue, .custom { work in pending.update { $0.append(work) } })
        test.transport.script(url("a"), [.body(Data())])
        let task = test.cache.getData(request) { _ in called.update { $0 = true } }
        _ = try await task.value
        #expect(!called.value)
        for work in pending.value { work() }
        #expect(called.value)
        await test.cache.shutdown()
    }

    @Test("a hook that holds its own task is let go of after the end")
    func noCycle() async throws {
        let test = TestCache()
        test.transport.script(url("a"), [.body(Data())])
        weak let weakTask: DataTask?
        do {
            let task = test.cache.getData(url("a"))
            task.onFail { _, _ in _ = task }
            task.then { _ in _ = task }
            _ = try await task.value
            weakTask = task
        }
        await test.cache.shutdown()
        #expect(weakTask == nil)
    }

    @Test("the result is the bytes, or the error with which the task ends")
    func result() async {
        let test = TestCache()
        test.transport.script(url("a"), [.body(Data("x".utf8))])
        test.transport.script(url("b"), [.status(404)])
        #expect(await test.cache.getData(url("a")).result == .success(Data("x".utf8)))
        #expect(await test.cache.getData(url("b")).result == .failure(.status(404)))
        await test.cache.shutdown()
    }

    @Test("a task is equal to itself alone, also if another call has the same key")
    func identity() async {
        let test = TestCache()
        let (one, two) = (test.cache.getData(url("a")), test.cache.getData(url("a")))
        #expect(one == one && one != two)
        #expect(Set([one, two, one]) == [two, one] && Set([one, two, one]).count == 2)
        await test.cache.shutdown()
    }

    @Test("a task prints its key without secrets, its queue and its state, and dumps no more")
    func description() async {
        let test = TestCache()
        test.network.isUp = false
        let task = test.cache.slowGetData(url("a?token=secret"))
        #expect(await settle { task.state == .parked })
        #expect("\(task)" == "http://host.test/a?token=*** slow parked")
        #expect(String(reflecting: task) == "\(task)")
        var dumped = ""
        dump(task, to: &dumped)
        #expect(!dumped.contains("secret"))
        await test.cache.shutdown()
    }
}
