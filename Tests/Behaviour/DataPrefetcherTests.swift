import Dispatch
import TestSupport
import Testing

@Suite("A prefetcher", .timeLimit(.minutes(2)))
struct DataPrefetcherTests {
    private let test = TestCache()
    private let bytes = Data("here".utf8)

    private func urls(_ count: Int) -> [URL] { (0..<count).map { url("\($0)") } }

    private func answering(_ count: Int, _ change: (inout DataCache.Configuration) -> Void = { _ in }) -> TestCache {
        let test = TestCache(change)
        for url in urls(count) { test.transport.script(url, [.body(bytes)]) }
        return test
    }

    @Test("few calls are under way, in order, with at least one place; progress ends with all", arguments: [-1, 2])
    func window(places: Int) async throws {
        let test = TestCache { $0.slowQueue.maxConcurrent = 10 }
        let told = Box<[PrefetchProgress]>([])
        let prefetcher = DataPrefetcher(test.cache, urls: urls(6), maxOutstanding: places)
            .onProgress { progress in told.update { $0.append(progress) } }
            .start()
        for number in 0..<6 {
            let transfer = try await test.transport.nextTransfer()
            #expect(transfer.request.url == url("\(number)") && transfer.request.queue == .slow)
            #expect(test.transport.transfers.count <= number + max(1, places))
            transfer.finish(with: bytes)
            try await told.wait { $0.last?.completed == number + 1 }
        }
        #expect(await prefetcher.value.completed.map(\.url) == urls(6))
        await test.cache.idle()
        #expect(told.value.first?.finished == 0 && told.value.first?.total == 6)
        #expect(told.value.map(\.finished) == told.value.map(\.finished).sorted())
        #expect(told.value.last?.completed == 6 && told.value.last?.fraction == 1)
    }

    @Test("the result has what was fetched, what failed and what the cache had; entries out of date are asked for")
    func result() async throws {
        let test = TestCache(folder: TemporaryFolder()) { $0.retryPolicy = .never }
        let answer = TransferResponse(headers: ["Cache-Control": "max-age=10", "ETag": "\"1\""], body: bytes)
        test.transport.script(url("0"), [.response(answer)])
        test.transport.script(url("1"), [.status(404)])
        try test.cache.addData(bytes, for: url("2"))
        let ends = Box(0)
        let prefetcher = DataPrefetcher(test.cache, urls: urls(3)).onEnd { _ in ends.update { $0 += 1 } }
        let result = await prefetcher.value
        #expect(result.completed.map(\.url) == [url("0")] && result.skipped.map(\.url) == [url("2")])
        #expect(result.failed.map(\.request.url) == [url("1")] && result.failed.map(\.error) == [.status(404)])
        #expect(result.remaining.isEmpty)
        prefetcher.start()
        prefetcher.stop()
        await test.cache.idle()
        try await ends.wait { $0 == 1 }
        await test.cache.synchronize()
        #expect(await DataPrefetcher(test.cache, urls: urls(1)).value.skipped.count == 1)
        test.date.advance(by: 11)
        #expect(await DataPrefetcher(test.cache, urls: urls(1)).value.completed.count == 1)
        #expect(test.transport.transfers(of: url("0")).count == 2)
    }

    @Test("a stop cancels the calls under way, and tells once what was done and what was not")
    func stop() async throws {
        let results = Box<[PrefetchResult<DataRequest>]>([])
        let prefetcher = DataPrefetcher(test.cache, urls: urls(5), maxOutstanding: 2)
            .onEnd { result in results.update { $0.append(result) } }
            .start()
        try await test.transport.nextTransfer().finish(with: bytes)
        let second = try await test.transport.nextTransfer()
        for _ in 0..<2 { prefetcher.stop() }
        #expect(await prefetcher.value.remaining.count == 4)
        try await second.wait { $0.isCancelled }
        try await results.wait { !$0.isEmpty }
        await test.cache.idle()
        #expect(results.value.count == 1)
        #expect(results.value.first?.completed.map(\.url) == [url("0")])
        #expect(results.value.first?.remaining.map(\.url) == Array(urls(5)[1...]))
        let late = Box(0)
        prefetcher.onEnd { _ in late.update { $0 += 1 } }
        #expect(late.value == 1, "a closure that is added late is called, too")
    }

    @Test("a prefetcher that nobody keeps goes on to its end")
    func released() async throws {
        let completed = Box(0)
        DataPrefetcher(test.cache, urls: urls(3), maxOutstanding: 1)
            .onEnd { result in completed.update { $0 = result.completed.count } }
            .start()
        for _ in 0..<3 { try await test.transport.nextTransfer().finish(with: bytes) }
        try await completed.wait { $0 == 3 }
    }

    @Test("what is taken out is not fetched, or cancelled unless others want it; the end does not wait for it")
    func removal() async throws {
        let prefetcher = DataPrefetcher(test.cache, urls: urls(4), maxOutstanding: 2).start()
        let first = try await test.transport.nextTransfer()
        let (others, second) = try await test.begin(url("1"))
        #expect(second.request.url == url("1"))
        prefetcher.remove([DataRequest(url("0")), DataRequest(url("1")), DataRequest(url("2")), DataRequest(url("9"))])
        try await first.wait { $0.isCancelled }
        #expect(prefetcher.progress.total == 1)
        second.finish(with: bytes)
        #expect(try await others.value == bytes)
        let last = try await test.transport.nextTransfer()
        #expect(last.request.url == url("3"))
        last.finish(with: bytes)
        let result = await prefetcher.value
        #expect(result.completed.map(\.url) == [url("3")] && result.remaining.isEmpty && result.failed.isEmpty)
    }

    @Test("a priority holds for the calls that are made and for those under way")
    func priority() async throws {
        test.cache.slowQueue.isSuspended = true
        let other = test.cache.slowGetData(url("other"))
        let prefetcher = DataPrefetcher(test.cache, urls: urls(3), maxOutstanding: 2)
        prefetcher.priority = .high
        prefetcher.start()
        while test.cache.queueCounts.slowWaiting < 3 { await Task.yield() }
        test.cache.slowQueue.isSuspended = false
        var order: [String] = []
        for _ in 0..<4 {
            let transfer = try await test.transport.nextTransfer()
            order.append(transfer.request.url.lastPathComponent)
            if order.count == 1 { prefetcher.priority = .low }
            transfer.finish(with: bytes)
        }
        #expect(order.first == "0" && order[1] == "other")
        #expect(try await other.value == bytes)
    }

    @Test("a stop does not end what others wait for")
    func shared() async throws {
        let prefetcher = DataPrefetcher(test.cache, urls: urls(1)).start()
        let transfer = try await test.transport.nextTransfer()
        let task = test.cache.getData(url("0"))
        try await transfer.wait { $0.queue == .fast }
        prefetcher.stop()
        transfer.finish(with: bytes)
        #expect(try await task.value == bytes)
        #expect(!transfer.isCancelled && test.transport.transfers.count == 1)
    }

    @Test("while it pauses no call begins; what runs goes on to its end; what is added comes last")
    func pause() async throws {
        let completed = Box(0)
        let prefetcher = DataPrefetcher(test.cache, urls: urls(3), maxOutstanding: 1)
            .onProgress { progress in completed.update { $0 = progress.completed } }
            .start()
        let first = try await test.transport.nextTransfer()
        prefetcher.pause()
        #expect(prefetcher.isPaused)
        first.finish(with: bytes)
        try await completed.wait { $0 == 1 }
        await test.cache.idle()
        // Had a call begun, its transfer would come first.
        test.cache.slowGetData(url("other"))
        let other = try await test.transport.nextTransfer()
        #expect(other.request.url == url("other") && !first.isCancelled)
        other.finish(with: bytes)
        prefetcher.add([DataRequest(url("more"))])
        prefetcher.resume()
        for _ in 0..<3 { try await test.transport.nextTransfer().finish(with: bytes) }
        #expect(await prefetcher.value.completed.map(\.url) == urls(3) + [url("more")])
        #expect(!prefetcher.isPaused && test.transport.transfers.count == 5)
    }

    @Test("calls that wait for their next attempt hold no place, and end like others")
    func parked() async throws {
        let requests = urls(2).map { DataRequest($0).with(\.retryPolicy, .fixed(.seconds(5))) }
        let prefetcher = DataPrefetcher(test.cache, requests, maxOutstanding: 1).start()
        try await test.transport.nextTransfer().fail(with: .connectionLost)
        let second = try await test.transport.nextTransfer()
        #expect(second.request.url == url("1"))
        second.finish(with: bytes)
        try await test.nextTransfer(after: .seconds(5)).finish(with: bytes)
        #expect(await prefetcher.value.completed.map(\.url) == [url("1"), url("0")])
    }

    @Test("awaiting the end does not wait for the closures, which then get the latest progress, and the end last")
    func closures() async throws {
        let queue = DispatchQueue(label: "test")
        queue.suspend()
        let test = answering(50) { $0.callbackQueue = .dispatch(queue) }
        let told = Box<[String]>([])
        let prefetcher = DataPrefetcher(test.cache, urls: urls(50))
            .onProgress { progress in told.update { $0.append("\(progress.finished) of \(progress.total)") } }
            .onEnd { result in told.update { $0.append("end \(result.completed.count)") } }
        #expect(await prefetcher.value.completed.count == 50)
        #expect(told.value.isEmpty)
        queue.resume()
        try await told.wait { $0.last == "end 50" }
        #expect(told.value.contains("50 of 50") && told.value.count < 20, "\(told.value)")
    }

    @Test("awaiting the end gives its result, also if a closure adds the next requests at once", arguments: [0, 1])
    func nextBatch(count: Int) async throws {
        let test = answering(2) { $0.callbackQueue = .inPlace }
        let ends = Box(0)
        let prefetcher = DataPrefetcher(test.cache, urls: Array(urls(count)))
        prefetcher.onEnd { [weak prefetcher] _ in
            ends.increment()
            if ends.value == 1 { prefetcher?.add(urls: [url("1")]) }
        }
        #expect(await prefetcher.value.completed.map(\.url) == urls(count))
        try await ends.wait { $0 == 2 }
        #expect(await prefetcher.value.completed.map(\.url) == [url("1")])
    }

    @Test("nothing to do ends at once, and so does a cache that is shut down")
    func nothing() async throws {
        let prefetcher = DataPrefetcher(test.cache, urls: [])
        #expect(await prefetcher.value.completed.isEmpty && prefetcher.progress.fraction == 1)
        await test.cache.shutdown()
        let result = await DataPrefetcher(test.cache, urls: urls(3)).value
        #expect(result.failed.map(\.error) == [.shutDown, .shutDown, .shutDown])
    }

    @Test("it lives as long as its screen: requests come and go after the others have ended, and each end is told")
    func screen() async throws {
        let test = answering(9)
        let ends = Box<[[URL?]]>([])
        let told = Box<[String]>([])
        let prefetcher = DataPrefetcher(test.cache, urls: [])
            .onProgress { progress in told.update { $0.append("\(progress.finished) of \(progress.total)") } }
            .onEnd { result in ends.update { $0.append(result.completed.map(\.url)) } }
            .start()
        try await ends.wait { $0 == [[]] }
        for rows in [urls(9)[0..<2], urls(9)[2..<5]] {
            prefetcher.add(urls: Array(rows))
            #expect(await prefetcher.value.completed.map(\.url) == Array(rows))
            try await ends.wait { $0.last == Array(rows) }
            #expect(told.value.last == "\(rows.count) of \(rows.count)")
        }
        prefetcher.pause()
        prefetcher.add(urls: Array(urls(9)[5..<7]))
        prefetcher.remove(urls: [url("5")])
        prefetcher.resume()
        try await ends.wait { $0.last == [url("6")] }
        #expect(ends.value.count == 4 && prefetcher.progress.total == 1)
        #expect(test.transport.transfers.count == 6)
    }

    @Test("after a stop, what is added is fetched; a start fetches what the stop has left, but for what was taken out")
    func restart() async throws {
        let prefetcher = DataPrefetcher(test.cache, urls: urls(3), maxOutstanding: 1).start()
        let first = try await test.transport.nextTransfer()
        prefetcher.stop()
        try await first.wait { $0.isCancelled }
        #expect(await prefetcher.value.remaining.map(\.url) == urls(3))
        prefetcher.remove(urls: [url("1")])
        prefetcher.start()
        for name in ["0", "2"] {
            let transfer = try await test.transport.nextTransfer()
            #expect(transfer.request.url == url(name))
            transfer.finish(with: bytes)
        }
        #expect(await prefetcher.value.completed.count == 2)
        let second = DataPrefetcher(test.cache, urls: urls(3))
        second.stop()
        second.add(urls: [url("new")])
        let transfer = try await test.transport.nextTransfer()
        #expect(transfer.request.url == url("new"))
        transfer.finish(with: bytes)
        #expect(await second.value.completed.map(\.url) == [url("new")])
    }

    @Test(
        "a start fetches what a stop has left, whether its end was told before others were added",
        arguments: [true, false])
    func restartAfterAddition(isTold: Bool) async throws {
        let queue = DispatchQueue(label: "test")
        queue.suspend()
        defer { queue.resume() }
        let test = answering(4) { $0.callbackQueue = isTold ? .inPlace : .dispatch(queue) }
        let left = Box<[Int]>([])
        let prefetcher = DataPrefetcher(test.cache, urls: urls(3), maxOutstanding: 1)
            .onEnd { result in left.update { $0.append(result.remaining.count) } }
        prefetcher.pause()
        prefetcher.stop()
        #expect(left.value == (isTold ? [3] : []))
        prefetcher.add(urls: [url("3")])
        prefetcher.remove(urls: [url("1")])
        prefetcher.start()
        #expect(prefetcher.progress.total == 3)
        prefetcher.resume()
        let result = await prefetcher.value
        #expect(result.completed.map(\.url) == ["3", "0", "2"].map { url($0) } && result.remaining.isEmpty)
        prefetcher.start()
        #expect(prefetcher.progress.finished == 3, "nothing is left")
    }

    @Test("a start fetches what the last stop has left, however often others were added and stopped before")
    func stops() async throws {
        let prefetcher = DataPrefetcher(answering(1).cache, urls: []).start()
        prefetcher.pause()
        for number in 0..<100 {
            prefetcher.add(urls: [url("\(number)")])
            prefetcher.stop()
            #expect(await prefetcher.value.remaining.map(\.url) == [url("\(number)")])
        }
        prefetcher.start()
        #expect(prefetcher.progress.total == 1)
    }

    @Test("the log says once that slowQueue fetches less at a time than a prefetcher was told to call for")
    func outstanding() async throws {
        let lines = Box<[String]>([])
        let test = TestCache {
            $0.logger = .recording(lines: { line in lines.update { $0.append(line) } })
            $0.logger.logLevel = .warning
            $0.slowQueue.maxConcurrent = 2
        }
        for count in [nil, 2, 8, 9] { _ = DataPrefetcher(test.cache, urls: [], maxOutstanding: count) }
        try await lines.wait { !$0.isEmpty }
        await test.cache.shutdown()
        let told = lines.value.map { $0.contains("8") || $0.contains("9") }
        #expect(told == [true], "\(lines.value)")
    }

    @Test("starts, pauses, additions and a stop from many threads: every request is told of once", arguments: 0..<4)
    func concurrency(round: Int) async throws {
        let test = answering(100) { $0.retryPolicy = .never }
        let results = Box<[PrefetchResult<DataRequest>]>([])
        let prefetcher = DataPrefetcher(test.cache, urls: urls(100), maxOutstanding: 1 + round)
            .onEnd { result in results.update { $0.append(result) } }
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<4 {
                for step in 0..<10 { test.transport.script(url("\(number)-\(step)"), [.status(404)]) }
                group.addTask {
                    prefetcher.start()
                    for step in 0..<10 {
                        prefetcher.pause()
                        prefetcher.add(urls: [url("\(number)-\(step)")])
                        prefetcher.resume()
                    }
                    if number == 3, round % 2 == 0 { prefetcher.stop() }
                }
            }
        }
        _ = await prefetcher.value
        // What a stop has left.
        _ = await prefetcher.start().value
        await test.cache.idle()
        var done: [URL?] = []
        for result in results.value {
            for requests in [result.completed, result.failed.map(\.request), result.skipped] {
                done += requests.map(\.url)
            }
        }
        #expect(done.count == Set(done).count)
        let remaining = results.value.flatMap(\.remaining).map(\.url)
        #expect(Set(done + remaining).count == 140 && results.value.last?.remaining.isEmpty == true)
    }
}
