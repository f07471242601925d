import TestSupport
import Testing

@Suite("Queues, for pictures", .timeLimit(.minutes(2)))
struct ImageQueueTests {
    private let a = url("a.png"), b = url("b.png")
    private let picture = Image.sample()
    private let test = TestImageCache(folder: TemporaryFolder())

    @Test("an urgent call promotes the prefetch of its picture; a move puts both behind urgent work, and loses no hook")
    func moves() async throws {
        let test = TestImageCache()
        let told = Box<[String]>([])
        let (urgent, first) = try await test.begin(a)
        let prefetch = test.cache.slowGetImage(b)
        try await test.passThrough()
        #expect(prefetch.state == .waiting && test.transport.transfers(of: b).isEmpty)
        let wanted = test.cache.getImage(ImageRequest(b).inverted)
            .onFail { error, _ in told.update { $0.append("\(error)") } }
            .then { _ in told.update { $0.append("there") } }
        let second = try await test.transport.nextTransfer()
        #expect(second.request.url == b && second.queue == .fast)
        test.cache.moveTaskToSlowQueue(b)
        try await second.wait { $0.queue == .slow && $0.isThrottled }
        #expect(wanted.queue == .slow && wanted.state == .paused && !second.isCancelled)
        first.finish(with: try picture.png)
        _ = try await urgent.value
        try await second.wait { !$0.isThrottled }
        second.finish(with: try picture.png)
        #expect(try await prefetch.value.pixels == picture.pixels)
        #expect(try await wanted.value.pixels == picture.inverted)
        await test.cache.idle()
        #expect(told.value == ["there"] && test.transport.transfers(of: b).count == 1)
        // Without effect where there is nothing.
        test.cache.moveTaskToSlowQueue(url("nothing"))
    }

    @Test("no prefetch starts between the look for a processed picture and the fetch of its original")
    func reservation() async throws {
        test.cache.data.slowQueue.isSuspended = true
        let prefetches = (0..<5).map { test.cache.slowGetImage(url("later-\($0)")) }
        // What was asked for first would start in any gap.
        let tasks = (0..<8).map { test.cache.getImage(ImageRequest(url("now-\($0)")).processed(by: Inverting())) }
        test.cache.data.slowQueue.isSuspended = false
        var seen: [ScriptedTransfer] = []
        while seen.count < 8 { seen.append(try await test.transport.nextTransfer()) }
        #expect(seen.allSatisfy { $0.request.url.path.hasPrefix("/now") })
        for transfer in seen { transfer.finish(with: try picture.png) }
        for task in tasks { _ = try await task.value }
        let next = try await test.transport.nextTransfer()
        #expect(next.request.url.path.hasPrefix("/later"))
        test.cache.cancelAll()
        for task in prefetches { #expect(await task.error == .cancelled) }
    }

    @Test("an urgent call that is demoted and cancelled while it looks at the disk holds no prefetch up")
    func demotedReservation() async throws {
        let request = ImageRequest(a).inverted
        for _ in 0..<50 {
            let task = test.cache.getImage(request)
            test.cache.moveTaskToSlowQueue(request)
            task.cancel()
            #expect(await task.error == .cancelled)
        }
        try test.script(b, picture)
        #expect(await test.cache.slowGetImage(b).error == nil)
    }

    @Test("a prefetch that the disk can answer waits for no download, also if the picture is processed")
    func prefetchesOnDisk() async throws {
        let processed = ImageRequest(a).inverted
        for address in [a, b] { try test.script(address, picture) }
        for request in [processed, ImageRequest(b)] { _ = try await test.cache.getImage(request).value }
        let two = await test.reopened()
        let ends = Box<[String]>([])
        func note(_ name: String, _ task: ImageTask) { task.onEnd { _ in ends.update { $0.append(name) } } }
        note("network", two.cache.getImage(url("urgent")))
        let transfer = try await two.transport.nextTransfer()
        let prefetches = [processed, ImageRequest(b)].map { two.cache.slowGetImage($0) }
        for task in prefetches {
            note("prefetch", task)
            _ = await task.ending
        }
        transfer.finish(with: try picture.png)
        await two.cache.idle()
        #expect(ends.value == ["prefetch", "prefetch", "network"])
    }

    @Test(
        "a raised priority, and a cancellation, reach the fetch of a picture before another fetch starts",
        arguments: [true, false])
    func atOnce(isRaised: Bool) async throws {
        let hold = LoopHold()
        let test = TestImageCache {
            $0.data.fastQueue.maxConcurrent = 1
            $0.data.eventSinks = [hold]
        }
        let (_, running) = try await test.begin(url("running"))
        let (first, second) = (test.cache.getImage(a), test.cache.getImage(b))
        while test.cache.queueCounts.fastWaiting < 2 { await Task.yield() }
        let body = try picture.png
        try await hold.hold(test.cache.data) {
            if isRaised { second.priority = .high } else { first.cancel() }
            running.finish(with: body)
        }
        let next = try await test.transport.nextTransfer()
        #expect(next.request.url == b && test.transport.transfers(of: a).isEmpty)
        test.cache.cancelAll()
        _ = await first.result
    }

    @Test("a processed picture whose bytes are there is being decoded, also while it waits for a thread")
    func state() async throws {
        let test = decoder.makeTest(threads: 1) { _ in }
        let held = try await arrive(test, "held", .fast)
        try await decoder.began.wait { $0 == ["held"] }
        test.transport.script(b, [.body(Data("b".utf8))])
        let task = test.cache.getImage(ImageRequest(b).inverted)
        try await test.transport.waitForTransfers(1, of: b)
        try await test.passThrough()
        #expect(task.state == .decoding)
        decoder.releaseAll()
        for task in [held, task] { _ = try await task.value }
    }

    @Test("tens of thousands of calls for one picture are demoted and cancelled without holding others up")
    func manyCalls() async throws {
        let test = TestImageCache()
        let other = ImageRequest(a).with(\.headers, ["X-Kind": "other"])
        let tasks = (0..<workload(50_000)).map { test.cache.getImage($0.isMultiple(of: 2) ? ImageRequest(a) : other) }
        test.cache.moveTaskToSlowQueue(a)
        for task in tasks.prefix(tasks.count / 2) { task.cancel() }
        #expect(tasks.last?.queue == .slow)
        test.cache.cancel(a)
        for task in tasks { #expect(await task.error == .cancelled) }
        await test.cache.idle()
    }

    @Test("what was decoded for nobody is not handed to those who ask later before it is whole")
    func cancelledDecode() async throws {
        let test = TestImageCache(decoder: CountingDecoder(isHeld: true))
        try test.script(b, picture)
        let one = test.cache.getImage(b)
        try await test.decoder.waitForDecodes(1)
        one.cancel()
        #expect(await one.error == .cancelled)
        test.decoder.releaseAll()
        #expect(try await test.pixels(b) == picture.pixels)
    }

    // MARK: The order of decodes

    private let decoder = WatchedDecoder(CountingDecoder(making: PixelSize(width: 4, height: 3), isHeld: true))

    /// Makes a call whose bytes have arrived, and wait for the decoder, when the method returns.
    private func arrive(
        _ test: TestImageCache, _ name: String, _ queue: FetchQueue, _ priority: Priority = .normal
    ) async throws -> ImageTask {
        test.transport.script(url(name), [.body(Data(name.utf8))])
        let request = ImageRequest(url(name)).with(\.priority, priority)
        let task = queue == .fast ? test.cache.getImage(request) : test.cache.slowGetImage(request)
        try await test.transport.waitForTransfers(1, of: url(name))
        try await test.passThrough()
        return task
    }

    @Test(
        "of pictures of the same priority the first or the last one is decoded first, as the queue says",
        arguments: [(QueueConfiguration.Order.fifo, ["held", "a", "b", "c"]), (.lifo, ["held", "c", "b", "a"])],
        [FetchQueue.fast, .slow])
    func queueOrder(_ wanted: (order: QueueConfiguration.Order, names: [String]), queue: FetchQueue) async throws {
        let test = decoder.makeTest(threads: 1) { $0.data.slowQueue.order = wanted.order }
        // The order can be changed at any time.
        test.cache.data.fastQueue.order = wanted.order
        var tasks: [ImageTask] = []
        for name in ["held", "a", "b", "c"] {
            tasks.append(try await arrive(test, name, queue))
            if name == "held" { try await decoder.began.wait { $0 == ["held"] } }
        }
        decoder.releaseAll()
        for task in tasks { _ = try await task.value }
        #expect(decoder.began.value == wanted.names)
    }

    @Test("urgent pictures are decoded before prefetched ones, and by priority")
    func decodeOrder() async throws {
        let test = decoder.makeTest(threads: 1)
        var tasks = [try await arrive(test, "first", .slow)]
        try await decoder.began.wait { $0 == ["first"] }
        tasks.append(try await arrive(test, "slow", .slow))
        tasks.append(try await arrive(test, "low", .fast, .low))
        tasks.append(try await arrive(test, "high", .fast, .high))
        tasks.append(try await arrive(test, "promoted", .slow))
        tasks.append(test.cache.getImage(url("promoted")))
        try await test.passThrough()
        decoder.releaseAll()
        for task in tasks { _ = try await task.value }
        #expect(decoder.began.value == ["first", "high", "promoted", "low", "slow"])
    }

    @Test("one thread is left to urgent pictures, however many prefetched ones wait")
    func urgentThread() async throws {
        let test = decoder.makeTest(threads: 3)
        var tasks: [ImageTask] = []
        for number in 0..<4 { tasks.append(try await arrive(test, "slow\(number)", .slow, .high)) }
        try await decoder.began.wait { $0.count == 2 }
        tasks.append(try await arrive(test, "now", .fast, .low))
        try await decoder.began.wait { $0.count == 3 }
        #expect(decoder.began.value.last == "now")
        decoder.releaseAll()
        for task in tasks { _ = try await task.value }
    }

    private func arrive(_ test: TestImageCache, _ name: String, megabytes: Int) async throws -> ImageTask {
        let body = Data(name.utf8) + Data(repeating: 0x20, count: megabytes << 20)
        test.transport.script(url(name), [.body(body)])
        let task = test.cache.getImage(url(name))
        try await test.transport.waitForTransfers(1, of: url(name))
        try await task.hasLooked()
        try await test.passThrough()
        return task
    }

    private var names: [String] { decoder.began.value.map { $0.trimmingCharacters(in: .whitespaces) } }

    @Test("of pictures of the same priority small ones are decoded before huge ones, those by their size")
    func smallFirst() async throws {
        let test = decoder.makeTest(threads: 1)
        var tasks = [try await arrive(test, "held", .fast)]
        try await decoder.began.wait { $0 == ["held"] }
        for (name, size) in [("huge", 3), ("large", 1), ("huger", 4), ("small", 0), ("smaller", 0)] {
            tasks.append(try await arrive(test, name, megabytes: size))
        }
        decoder.releaseAll()
        for task in tasks { _ = try await task.value }
        #expect(names == ["held", "small", "smaller", "large", "huge", "huger"])
    }

    @Test("many pictures of one file do not hold those of another up")
    func turns() async throws {
        let test = decoder.makeTest(threads: 1)
        var tasks = [try await arrive(test, "held", .fast)]
        try await decoder.began.wait { $0 == ["held"] }
        let body = Data("many".utf8)
        tasks += (1...5).map { test.cache.getImage(ImageRequest(a).processed(by: .downsample(width: $0, height: $0))) }
        try await test.transport.nextTransfer().finish(with: body)
        for task in tasks { try await task.hasLooked() }
        try await test.passThrough()
        tasks.append(try await arrive(test, "one", .fast))
        decoder.releaseAll()
        for task in tasks { _ = try await task.value }
        #expect(decoder.began.value == ["held", "many", "one", "many", "many", "many", "many"])
    }

    @Test("the time limit of a call ends its wait for a decode, and a decode; others still get the picture")
    func timeLimit() async throws {
        let test = decoder.makeTest(threads: 1)
        let limited = ImageRequest(a).with(\.timeout, .seconds(10))
        let (first, transfer) = try await test.begin(limited)
        let patient = test.cache.getImage(a)
        test.clock.advance(by: .seconds(6))
        transfer.finish(with: Data("a".utf8))
        try await decoder.began.wait { $0 == ["a"] }
        test.transport.script(b, [.body(Data("b".utf8))])
        let second = test.cache.getImage(ImageRequest(b).with(\.timeout, .seconds(10)))
        try await second.hasLooked()
        try await test.passThrough()
        let joined = test.cache.getImage(limited)
        try await test.passThrough()
        test.clock.advance(by: .seconds(4) - .milliseconds(1))
        try await test.passThrough()
        #expect(first.state == .decoding)
        test.clock.advance(by: .milliseconds(1))
        #expect(await first.error == .timedOut)
        #expect(second.state == .decoding && joined.state == .decoding)
        test.clock.advance(by: .seconds(6))
        for task in [second, joined] { #expect(await task.error == .timedOut) }
        decoder.releaseAll()
        #expect(try await patient.value.width == 4)
        await test.cache.idle()
        #expect(decoder.began.value == ["a"], "nobody waits for the other one")
        #expect(test.cache.data.statistics.failures == 2)
    }
}
