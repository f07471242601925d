import Dispatch
import TestSupport
import Testing

@Suite("Hooks and events of a task", .timeLimit(.minutes(2)))
struct HookTests {
    private let test = TestCache()
    private let a = url("a")

    private func listen(to task: DataTask) -> Box<[String]> {
        let heard = Box<[String]>([])
        task.onFail { error, isFatal in heard.update { $0.append(isFatal ? "fatal \(error)" : "\(error)") } }
            .onRetry { heard.update { $0.append("retry") } }
            .onProgress { progress in heard.update { $0.append("\(progress.received)") } }
            .then { data in heard.update { $0.append("then \(data.count)") } }
        return heard
    }

    // MARK: Order

    @Test("Hooks and streams tell of all that happens, in order; a stream begins with the present state")
    func order() async throws {
        let test = TestCache { $0.progressInterval = .zero }
        func lines(_ events: AsyncStream<DataTask.Event>) async -> [String] {
            var lines: [String] = []
            for await event in events {
                switch event {
                case .state(let state): lines.append("\(state)")
                case .progress(let progress): lines.append("\(progress.received)")
                case .failure(let error, let isFatal): lines.append(isFatal ? "fatal \(error)" : "\(error)")
                case .retry: lines.append("retry")
                case .interim: lines.append("interim")
                case .finished(let response): lines.append("finished \(response.source)")
                }
            }
            return lines
        }
        let (task, first) = try await test.begin(DataRequest(a).with(\.retryPolicy, .fixed(.seconds(1))))
        let heard = listen(to: task)
        let events = task.events
        first.send(progress: 3, of: 9)
        first.fail(with: .connectionLost)
        try await task.waitForFailures()
        let second = try await test.nextTransfer(after: .seconds(1))
        second.send(progress: 5, of: 9)
        second.finish(with: Data(count: 9))
        _ = await task.ending
        #expect(heard.value == ["3", "connection lost", "retry", "5", "then 9"])
        #expect(await lines(events) == ["transferring", "3", "connection lost", "retry", "5", "finished network"])
        #expect(await lines(task.events) == ["finished", "finished network"])
    }

    @Test("A retry tells of the failure that it follows; a closure may leave that out")
    func retries() async throws {
        test.transport.script(a, [.status(503), .failure(.connectionLost), .text("x")])
        let told = Box<[String]>([])
        let task = test.cache.getData(DataRequest(a).with(\.retryPolicy, .fixed(.seconds(1))))
            .onRetry { error in told.update { $0.append("\(error)") } }
            .onRetry { told.update { $0.append("again") } }
        let events = task.events
        await test.whileClockRuns { _ = await task.ending }
        #expect(told.value == ["status 503", "again", "connection lost", "again"])
        var retries: [DipperError] = []
        for await case .retry(let error) in events { retries.append(error) }
        #expect(retries == [.status(503), .connectionLost])
    }

    @Test("Progress is a sequence: the latest, then each further one, the last before the end, and no more")
    func progressSequence() async throws {
        let test = TestCache { $0.progressInterval = .zero }
        let (task, transfer) = try await test.begin(DataRequest(a))
        var early = task.progress.makeAsyncIterator()
        transfer.send(progress: 3, of: 9)
        #expect(await early.next()?.received == 3)
        var late = task.progress.makeAsyncIterator()
        #expect(await late.next()?.received == 3)
        for received in [5, 9] { transfer.send(progress: received, of: 9) }
        transfer.finish(with: Data(count: 9))
        _ = await task.ending
        // A reader that has fallen behind gets the latest.
        #expect(await late.next()?.received == 9)
        #expect(await late.next() == nil)
        var after = task.progress.makeAsyncIterator()
        #expect(await after.next() == nil)
    }

    @Test("A sequence that is still read keeps no task that has ended")
    func releasedByProgress() async throws {
        test.transport.script(a, [.text("x")])
        weak var released: DataTask?
        let progress: AsyncStream<TaskProgress>
        do {
            let task = test.cache.getData(a)
            released = task
            progress = task.progress
            _ = await task.ending
        }
        await test.cache.idle()
        #expect(released == nil)
        for await _ in progress {}
    }

    @Test("Hooks that are added late hear what has happened, in order, and each thing once")
    func lateHooks() async throws {
        test.transport.script(a, [.status(503), .failure(.connectionLost), .text("x"), .status(404)])
        let task = test.cache.getData(DataRequest(a).with(\.retryPolicy, .fixed(.seconds(1))))
        await test.whileClockRuns { _ = await task.result }
        for _ in 0..<2 {
            let heard = listen(to: task)
            _ = await task.ending
            #expect(heard.value.filter { $0 != "retry" } == ["status 503", "connection lost", "then 1"])
            #expect(heard.value.count == 5)
        }
        let failed = test.cache.getRemoteData(a)
        #expect(await failed.error == .status(404))
        let heard = listen(to: failed)
        _ = await failed.ending
        #expect(heard.value == ["fatal status 404"])
    }

    @Test("A call that fails again and again remembers its latest failures alone, and its end")
    func bounded() async throws {
        test.transport.script(a, Array(repeating: .status(503), count: 200) + [.text("x")])
        let task = test.cache.getData(DataRequest(a).with(\.retryPolicy, .fixed(.zero, retries: nil)))
        await test.whileClockRuns { _ = await task.result }
        let heard = listen(to: task)
        _ = await task.ending
        #expect(task.attempts == 201)
        #expect(heard.value.count == 64 && heard.value.last == "then 1")
    }

    @Test("Each call is told its end once and nothing after it, when its answer and its cancelling race")
    func oneEnd() async throws {
        let test = TestCache { $0.callbackQueue = .serial() }
        var logs: [Box<[String]>] = []
        for number in 0..<100 {
            let task = test.cache.getData(url("\(number)"))
            let log = listen(to: task)
            task.onEnd { _ in log.update { $0.append("end") } }
            logs.append(log)
            let transfer = try await test.transport.nextTransfer()
            async let answering: Void = transfer.finish(with: Data())
            async let moving: Void = transfer.send(progress: 1, of: 1)
            async let cancelling: Void = task.cancel()
            _ = await (answering, moving, cancelling)
        }
        await test.cache.idle()
        for lines in logs.map(\.value) {
            #expect(lines.last == "end" && lines.count { $0 == "end" } == 1, "\(lines)")
        }
    }

    // MARK: Progress

    @Test("Progress is told once per interval with the latest bytes, and the last byte at once")
    func progress() async throws {
        let test = TestCache { $0.progressInterval = .seconds(1) }
        let heard = Box<[Int]>([])
        let task = test.cache.getData(a).onProgress { progress in heard.update { $0.append(progress.received) } }
        let transfer = try await test.transport.nextTransfer()
        transfer.send(progress: 1, of: 100)
        try await heard.wait { $0 == [1] }
        for received in 2...9 { transfer.send(progress: received, of: 100) }
        // The cache has taken them in.
        _ = test.cache.queueCounts
        try await test.clock.waitForSleepers(1)
        #expect(heard.value == [1])
        test.clock.advance(by: .seconds(1))
        try await heard.wait { $0 == [1, 9] }
        for received in 10...20 { transfer.send(progress: received, of: 100) }
        transfer.send(progress: 100, of: 100)
        transfer.finish(with: Data(count: 100))
        _ = await task.ending
        #expect(heard.value == [1, 9, 100])
    }

    @Test("A hook that is added while nothing comes hears how far the transfer has come")
    func lateListeners() async throws {
        let test = TestCache { $0.progressInterval = .zero }
        let (task, transfer) = try await test.begin(a)
        transfer.send(progress: 40, of: 100)
        await task.receives(40)
        let heard = Box<[TaskProgress]>([])
        task.onProgress { progress in heard.update { $0.append(progress) } }
        try await heard.wait { $0.last == TaskProgress(received: 40, expected: 100) }
        #expect(heard.value.last?.fraction == 0.4)
        transfer.finish(with: Data(count: 100))
        #expect(await task.error == nil)
    }

    @Test("A new attempt does not tell of the bytes of the one before")
    func newAttempt() async throws {
        let test = TestCache {
            $0.progressInterval = .zero
            $0.retryPolicy = .fixed(.zero)
        }
        let (task, first) = try await test.begin(a)
        first.send(progress: 40, of: 100)
        first.fail(with: .connectionLost)
        let second = try await test.transport.nextTransfer()
        let heard = Box<[Int]>([])
        task.onProgress { progress in heard.update { $0.append(progress.received) } }
        second.send(progress: 7, of: 100)
        second.finish(with: Data(count: 100))
        #expect(try await task.ending.get().data.count == 100)
        #expect(heard.value == [7])
    }

    // MARK: Queues of closures

    @Test("The closures of a task run one at a time and in order, also on a concurrent queue")
    func concurrentQueue() async throws {
        let test = TestCache {
            $0.callbackQueue = .dispatch(DispatchQueue(label: "test", attributes: .concurrent))
            $0.progressInterval = .zero
        }
        let (heard, inside, overlaps) = (Box<[Int]>([]), Box(0), Box(0))
        let (task, transfer) = try await test.begin(a)
        task.onProgress { progress in
            if inside.increment() > 1 { overlaps.increment() }
            heard.update { $0.append(progress.received) }
            inside.update { $0 -= 1 }
        }
        for received in 1...500 { transfer.send(progress: received, of: 1_000) }
        transfer.finish(with: Data())
        _ = await task.ending
        #expect(overlaps.value == 0 && !heard.value.isEmpty)
        #expect(heard.value == Set(heard.value).sorted())
    }

    @Test("Closures that have nothing to hear yet take no turn of their queue")
    func silentHooks() async throws {
        let turns = Box(0)
        let queue = CallbackQueue.custom { work in
            turns.update { $0 += 1 }
            work()
        }
        let (task, transfer) = try await test.begin(DataRequest(a).with(\.callbackQueue, queue))
        task.onFail { _, _ in }.onRetry {}.then { _ in }
        #expect(turns.value == 0)
        transfer.finish(with: Data(count: 9))
        await test.cache.idle()
        #expect(turns.value == 1)
    }

    @Test("A queue that is held up hears of all it missed, with the progress of the latest attempt alone")
    func heldUpQueue() async throws {
        let queue = DispatchQueue(label: "held up")
        let test = TestCache { $0.callbackQueue = .dispatch(queue) }
        let (task, transfer) = try await test.begin(DataRequest(a).with(\.retryPolicy, .fixed(.seconds(1))))
        let heard = listen(to: task)
        queue.suspend()
        transfer.send(progress: 1, of: 9)
        transfer.fail(with: .connectionLost)
        let second = try await test.nextTransfer(after: .seconds(1))
        second.send(progress: 5, of: 9)
        second.finish(with: Data(count: 9))
        #expect(await task.error == nil, "the value does not wait for hooks")
        queue.resume()
        _ = await task.ending
        #expect(heard.value == ["connection lost", "retry", "5", "then 9"])
    }

    @Test("A closure that blocks its queue holds up no fetch, no retry and no call")
    func blockedQueue() async throws {
        let test = TestCache {
            $0.callbackQueue = .serial()
            $0.retryPolicy = .fixed(.seconds(1))
        }
        let door = Door()
        test.transport.script(a, [.text("a")])
        let blocking = test.cache.getData(a) { _ in door.pass() }
        try await door.waitForArrivals(1)
        test.transport.script(url("b"), [.failure(.connectionLost), .text("b")])
        let told = try await test.whileClockRuns { try await test.ask(url("b")) }
        #expect(told == "b from network")
        door.stayOpen()
        _ = await blocking.ending
    }

    // MARK: Code of the program's own

    @Test("Every closure that the program gives the cache may call the cache")
    func reentrant() async throws {
        struct Curious: DataProvider {
            let look: @Sendable () -> Void
            var cacheKey: CacheKey { "curious" }
            var isLocal: Bool {
                look()
                return false
            }
            func data() async throws -> Data {
                look()
                return Data("x".utf8)
            }
        }
        let test = TestCache(folder: TemporaryFolder())
        let looks = Box<Set<String>>([])
        let (task, inner) = (Box<DataTask?>(nil), Box<DataTask?>(nil))
        let (cache, b) = (test.cache, url("b"))
        let look: @Sendable (String) -> Void = { place in
            _ = (cache.queueCounts, cache.statistics, cache.hasData(for: url("a")))
            _ = (task.value?.state, task.value?.attempts)
            cache.moveTaskToSlowQueue(url("none"))
            cache.cancel(url("none"))
            looks.update { _ = $0.insert(place) }
        }
        for target in [a, b] { test.transport.script(target, [.status(503), .text("here")]) }
        var request = DataRequest(a)
        request.retryPolicy = .custom { _ in
            look("policy")
            return .zero
        }
        request.modifier = .changing(identity: "me") { _ in look("modifier") }
        request.validation = ResponseValidation { response in
            look("validation")
            return response.status == 200 ? nil : .status(response.status)
        }
        request.credentials = .provider(identity: "me") { _ in
            look("credentials")
            return nil
        }
        let outer = cache.getData(request)
        task.update { $0 = outer }
        outer.onFail { _, _ in look("fail") }.onRetry { look("retry") }.then { _ in
            look("then")
            let next = cache.getData(DataRequest(b).with(\.retryPolicy, .fixed(.zero)))
            inner.update { $0 = next }
        }
        await test.whileClockRuns { await cache.idle() }
        #expect(try await inner.value?.value == Data("here".utf8))
        #expect(try await cache.getData(DataRequest(Curious { look("provider") })).value == Data("x".utf8))
        // A stored answer is checked again.
        cache.clearMemory()
        #expect(try await cache.getData(request).response.source == .disk)
        #expect(
            looks.value == ["policy", "modifier", "validation", "credentials", "fail", "retry", "then", "provider"])
    }

    // MARK: The handle

    @Test("The result is the bytes, or the error with which the task ends; a task equals itself alone")
    func handle() async {
        test.transport.script(a, [.text("x")])
        test.transport.script(url("b"), [.status(404)])
        let tasks = [test.cache.getData(a), test.cache.getData(a), test.cache.getData(url("b"))]
        #expect(await tasks[0].result == .success(Data("x".utf8)))
        #expect(await tasks[2].result == .failure(.status(404)))
        #expect(tasks.map(\.state) == [.finished, .finished, .failed(.status(404))])
        #expect(tasks[0] == tasks[0] && tasks[0] != tasks[1])
        #expect(Set(tasks + tasks).count == 3)
    }

    @Test("A task prints its key without secrets, its queue and its state, and dumps no more")
    func description() async throws {
        test.network.isUp = false
        let task = test.cache.slowGetData(url("a?token=secret"))
        try await task.waitForFailures()
        #expect("\(task)" == "http://host.test/a?token=*** slow parked")
        #expect(String(reflecting: task) == "\(task)")
        var dumped = ""
        dump(task, to: &dumped)
        #expect(!dumped.contains("secret"))
    }
}
