import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("A prefetcher", .timeLimit(.minutes(1)))
struct DataPrefetcherTests {
    private func urls(_ count: Int) -> [URL] { (0..<count).map { url("\($0)") } }

    @Test("only a few calls are under way, in order; progress ends with all")
    func window() async throws {
        let test = TestCache { $0.slowQueue.maxConcurrent = 10 }
        let told = Box<[PrefetchProgress]>([])
        let prefetcher = DataPrefetcher(test.cache, urls: urls(6), maxOutstanding: 2)
            .onProgress { progress in told.update { $0.append(progress) } }
            .start()
        for number in 0..<6 {
            let transfer = try await test.transport.nextTransfer()
            #expect(transfer.request.url == url("\(number)"))
            #expect(test.transport.transfers.count <= number + 2)
            transfer.finish(with: Data("\(number)".utf8))
            // Ends that come close together may be heard of in any order.
            try #require(await settle { prefetcher.progress.completed == number + 1 })
        }
        let result = await prefetcher.value
        #expect(result.completed.map(\.url) == urls(6))
        #expect(told.value.map(\.finished) == told.value.map(\.finished).sorted())
        #expect(told.value.last?.completed == 6 && told.value.last?.fraction == 1)
        await test.cache.shutdown()
    }

    @Test("a stop cancels the calls under way, and tells what was done and what was not, once")
    func stop() async throws {
        let test = TestCache()
        let results = Box<[PrefetchResult<DataRequest>]>([])
        let prefetcher = DataPrefetcher(test.cache, urls: urls(5), maxOutstanding: 2)
            .onEnd { result in results.update { $0.append(result) } }
            .start()
        try await test.transport.nextTransfer().finish(with: Data("a".utf8))
        let second = try await test.transport.nextTransfer()
        try #require(await settle { prefetcher.progress.completed >= 1 })
        prefetcher.stop()
        prefetcher.stop()
        #expect(await settle { second.isCancelled })
        #expect(await settle { results.value.count == 1 })
        #expect(results.value.first?.completed.map(\.url) == [url("0")])
        #expect(results.value.first?.remaining.map(\.url) == Array(urls(5)[1...]))
        #expect(await prefetcher.value.remaining.count == 4)
        let late = Box(0)
        prefetcher.onEnd { _ in late.update { $0 += 1 } }
        #expect(late.value == 1, "who asks late hears of it too")
        await test.cache.shutdown()
    }

    @Test("a stop does not end what others wait for")
    func shared() async throws {
        let test = TestCache()
        let prefetcher = DataPrefetcher(test.cache, urls: urls(1)).start()
        let transfer = try await test.transport.nextTransfer()
        let task = test.cache.getData(url("0"))
        prefetcher.stop()
        #expect(!transfer.isCancelled)
        transfer.finish(with: Data("a".utf8))
        #expect(try await task.value == Data("a".utf8))
        await test.cache.shutdown()
    }

    @Test("while it pauses nothing starts; what runs goes on to its end")
    func pause() async throws {
        let test = TestCache()
        let prefetcher = DataPrefetcher(test.cache, urls: urls(3), maxOutstanding: 1).start()
        let first = try await test.transport.nextTransfer()
        prefetcher.pause()
        #expect(prefetcher.isPaused && !first.isCancelled)
        first.finish(with: Data("a".utf8))
        try #require(await settle { prefetcher.progress.completed >= 1 })
        // What would have begun has had its turn by then.
        for _ in 0..<50 {
            await withCheckedContinuation { done in test.cache.runOnReader { done.resume() } }
        }
        #expect(prefetcher.progress.completed == 1 && test.transport.transfers.count == 1)
        prefetcher.resume()
        try await test.transport.nextTransfer().finish(with: Data("b".utf8))
        #expect(prefetcher.add([DataRequest(url("more"))]))
        try await test.transport.nextTransfer().finish(with: Data("c".utf8))
        try await test.transport.nextTransfer().finish(with: Data("d".utf8))
        #expect(await prefetcher.value.completed.map(\.url) == urls(3) + [url("more")])
        await test.cache.shutdown()
    }

    @Test("calls that wait for their time hold no place, and end like others")
    func parked() async throws {
        let test = TestCache()
        let policy = RetryPolicy.fixed(.seconds(5))
        let requests = urls(2).map { DataRequest($0).with(\.retryPolicy, policy) }
        let prefetcher = DataPrefetcher(test.cache, requests, maxOutstanding: 1).start()
        try await test.transport.nextTransfer().fail(with: .connectionLost)
        let second = try await test.transport.nextTransfer()
        #expect(second.request.url == url("1"))
        second.finish(with: Data("b".utf8))
        try await test.clock.waitForSleepers(1)
        test.clock.advance(by: .seconds(5))
        try await test.transport.nextTransfer().finish(with: Data("a".utf8))
        #expect(await prefetcher.value.completed.map(\.url) == [url("1"), url("0")])
        await test.cache.shutdown()
    }

    @Test("letting go of it stops it")
    func letGo() async throws {
        let test = TestCache()
        let remaining = Box(0)
        var prefetcher: DataPrefetcher? = DataPrefetcher(test.cache, urls: urls(3))
            .onEnd { result in remaining.update { $0 = result.remaining.count } }
        prefetcher?.start()
        let transfer = try await test.transport.nextTransfer()
        prefetcher = nil
        #expect(await settle { transfer.isCancelled && remaining.value == 3 })
        await test.cache.shutdown()
    }

    @Test("what is out of date is not skipped: the server is asked")
    func stale() async throws {
        let test = TestCache(folder: TemporaryFolder())
        test.transport.script(
            url("0"),
            [.response(.init(headers: ["Cache-Control": "max-age=10", "ETag": "\"1\""], body: Data("a".utf8)))])
        #expect(await DataPrefetcher(test.cache, urls: urls(1)).value.completed.count == 1)
        await test.cache.synchronize()
        #expect(await DataPrefetcher(test.cache, urls: urls(1)).value.skipped.count == 1)
        test.date.advance(by: 11)
        #expect(await DataPrefetcher(test.cache, urls: urls(1)).value.completed.count == 1)
        #expect(test.transport.transfers.count == 2)
        await test.cache.shutdown()
    }

    @Test("nothing to do ends at once, and so does a cache that is shut down")
    func nothing() async throws {
        let test = TestCache()
        #expect(await DataPrefetcher(test.cache, urls: []).value.completed.isEmpty)
        await test.cache.shutdown()
        let result = await DataPrefetcher(test.cache, urls: urls(3)).value
        #expect(result.failed.map(\.error) == [.shutDown, .shutDown, .shutDown])
    }

    @Test("of 100,000 URLs, of which every tenth is missing, each ends once, with few calls at a time")
    func many() async throws {
        let test = TestCache {
            $0.transport = InstantTransport()
            $0.memoryLimit = 1 << 28
        }
        let count = workload(100_000)
        for number in 0..<count where number % 10 != 0 { try test.cache.addData(Data([1]), for: url("\(number)")) }
        let ends = Box(0)
        let result = await DataPrefetcher(test.cache, urls: urls(count)).onEnd { _ in ends.update { $0 += 1 } }.value
        #expect(result.completed.count == count / 10 && result.skipped.count == count - count / 10)
        #expect(Set((result.skipped + result.completed).compactMap(\.url)).count == count)
        #expect(await settle { ends.value == 1 })
        await test.cache.shutdown()
        #expect(ends.value == 1)
    }

    @Test("stops, pauses and additions from many threads: every request is told of once")
    func concurrency() async throws {
        for round in 0..<workload(20) {
            let test = TestCache { $0.transport = InstantTransport() }
            let ends = Box<[PrefetchResult<DataRequest>]>([])
            let prefetcher = DataPrefetcher(test.cache, urls: urls(300), maxOutstanding: 1 + round % 5)
                .onEnd { result in ends.update { $0.append(result) } }
            let added = Box(0)
            await withTaskGroup(of: Void.self) { group in
                for number in 0..<4 {
                    group.addTask {
                        prefetcher.start()
                        for step in 0..<20 {
                            prefetcher.pause()
                            if prefetcher.add([DataRequest(url("\(number) \(step)"))]) { added.update { $0 += 1 } }
                            prefetcher.resume()
                        }
                        if number == 3, round % 2 == 0 { prefetcher.stop() }
                    }
                }
            }
            let result = await prefetcher.value
            let told = result.completed.count + result.failed.count + result.skipped.count + result.remaining.count
            #expect(told == 300 + added.value)
            // Who awaits the end may be earlier than the hooks.
            #expect(await settle { ends.value.count == 1 })
            await test.cache.shutdown()
            #expect(ends.value.count == 1)
        }
    }
}
