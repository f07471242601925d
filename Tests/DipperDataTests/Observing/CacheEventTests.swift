import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("Each piece of work is told from its begin to its end", .timeLimit(.minutes(5)))
struct CacheEventTests {
    private let a = url("a")
    private let body = Data("body".utf8)

    /// A cache and the record of its events.
    private struct Recorded {
        let record = EventRecord()
        let test: TestCache

        init(_ folder: TemporaryFolder? = nil, _ change: (inout DataCache.Configuration) -> Void = { _ in }) {
            let record = record
            test = TestCache(folder: folder) {
                $0.retryPolicy = .fixed(.zero, retries: 1)
                change(&$0)
                $0.eventSinks = [record]
            }
        }

        var cache: DataCache { test.cache }

        /// Ends the cache, so that everything has been told, and checks that all work is paired.
        func end(sourceLocation: SourceLocation = #_sourceLocation) async {
            await cache.shutdown()
            let unpaired = record.unpaired
            #expect(unpaired.isEmpty, "\(unpaired)", sourceLocation: sourceLocation)
        }
    }

    @Test("a call that misses is looked up, fetched and written, and each of these belongs to its job")
    func miss() async throws {
        let recorded = Recorded(TemporaryFolder())
        recorded.test.transport.script(a, [.body(body)])
        _ = try await recorded.cache.getData(a).value
        await recorded.end()
        #expect(recorded.record.ends(.call) == [.callAnswered(.network)])
        #expect(recorded.record.ends(.lookUp) == [.lookUpEnded(nil)])
        #expect(recorded.record.ends(.attempt) == [.attemptEnded(.answered(.network))])
        #expect(recorded.record.begins(.write).map(\.kind) == [.writeBegan(bytes: body.count)])
        #expect(recorded.record.ends(.write) == [.writeEnded(isOnDisk: true)])
        let call = try #require(recorded.record.begins(.call).first)
        let joined = recorded.record.events.filter { $0.id == call.id }.compactMap { event -> CacheEvent.ID? in
            if case .callJoined(let job) = event.kind { job } else { nil }
        }
        let job = try #require(joined.first)
        #expect(joined.count == 1 && job != call.id)
        for work in [EventRecord.Work.lookUp, .attempt, .write] {
            #expect(recorded.record.begins(work).map(\.parent) == [job], "\(work)")
        }
        let requests = recorded.record.events.filter { $0.kind == .requested }
        #expect(requests.map(\.id) == recorded.record.begins(.attempt).map(\.id))
        #expect(recorded.record.events.allSatisfy { $0.key == CacheKey(a) })
        #expect(recorded.record.events.last { $0.id == job }?.kind == .jobEnded)
    }

    @Test("a call that memory answers is told by itself")
    func memoryHit() async throws {
        let recorded = Recorded()
        try recorded.cache.addData(body, for: a)
        _ = try await recorded.cache.getData(a).value
        await recorded.end()
        #expect(recorded.record.kinds == [.callBegan(.fast), .callAnswered(.memory)])
    }

    @Test("a call that the disk answers has no attempt")
    func diskHit() async throws {
        let recorded = Recorded(TemporaryFolder())
        try await recorded.cache.addDataAndWait(body, for: CacheKey(a))
        recorded.cache.clearMemory()
        _ = try await recorded.cache.slowGetData(a).value
        await recorded.end()
        #expect(recorded.record.ends(.call) == [.callAnswered(.disk)])
        #expect(recorded.record.ends(.lookUp) == [.lookUpEnded(.disk)])
        #expect(recorded.record.ends(.attempt).allSatisfy { $0 != .attemptEnded(.answered(.network)) })
        #expect(recorded.record.begins(.write).map(\.parent) == [nil], "the program has added the entry")
    }

    @Test("calls that share a fetch join one job, which makes one attempt")
    func joined() async throws {
        let recorded = Recorded()
        let tasks = [recorded.cache.slowGetData(a), recorded.cache.getData(a), recorded.cache.getData(a)]
        try await recorded.test.transport.nextTransfer().finish(with: body)
        for task in tasks { _ = try await task.value }
        await recorded.end()
        let jobs = recorded.record.kinds.compactMap { kind -> CacheEvent.ID? in
            if case .callJoined(let job) = kind { job } else { nil }
        }
        #expect(jobs.count == 3 && Set(jobs).count == 1)
        #expect(Set(recorded.record.begins(.call).map(\.id)).count == 3)
        #expect(recorded.record.begins(.attempt).count == 1)
        #expect(recorded.record.kinds.contains(.queueChanged(.fast)))
    }

    @Test("the attempt of a cancelled call is stopped")
    func cancelled() async throws {
        let recorded = Recorded()
        let task = recorded.cache.getData(a)
        _ = try await recorded.test.transport.nextTransfer()
        task.cancel()
        #expect(await task.error == .cancelled)
        await recorded.end()
        #expect(recorded.record.ends(.call) == [.callFailed(.cancelled)])
        #expect(recorded.record.ends(.attempt) == [.attemptEnded(.stopped)])
    }

    @Test("a call that fails for good has one attempt, which failed")
    func failed() async throws {
        let recorded = Recorded()
        recorded.test.transport.script(a, [.status(404)])
        #expect(await recorded.cache.getData(a).error == .status(404))
        await recorded.end()
        #expect(recorded.record.ends(.call) == [.callFailed(.status(404))])
        #expect(recorded.record.ends(.attempt) == [.attemptEnded(.failed(.status(404), willRetry: false))])
    }

    @Test("each attempt of a call that is tried again is told, and where the job waits between")
    func retried() async throws {
        let recorded = Recorded()
        recorded.test.transport.script(a, [.status(503), .body(body)])
        _ = try await recorded.cache.getData(a).value
        await recorded.end()
        #expect(recorded.record.begins(.call).count == 1)
        let attempts = recorded.record.ends(.attempt)
        #expect(attempts.count == 2 && attempts.last == .attemptEnded(.answered(.network)))
        guard case .attemptEnded(.failed(let error, willRetry: true))? = attempts.first else {
            Issue.record("\(attempts)")
            return
        }
        #expect(error == .status(503))
        #expect(recorded.record.kinds.contains(.parked))
        #expect(Set(recorded.record.begins(.attempt).map(\.id)).count == 2)
    }

    @Test("an answer that the server confirms ends its attempt as revalidated")
    func revalidated() async throws {
        let recorded = Recorded()
        let headers: HTTPHeaders = ["ETag": "\"1\"", "Cache-Control": "max-age=10"]
        recorded.test.transport.script(a, [.text("1", headers), .status(304)])
        _ = try await recorded.cache.getData(a).value
        recorded.test.date.advance(by: 10)
        _ = try await recorded.cache.getData(a).value
        await recorded.end()
        #expect(recorded.record.ends(.call) == [.callAnswered(.network), .callAnswered(.revalidated)])
        #expect(
            recorded.record.ends(.attempt) == [
                .attemptEnded(.answered(.network)), .attemptEnded(.answered(.revalidated)),
            ])
    }

    @Test("a call that is refused has no job")
    func refused() async throws {
        let recorded = Recorded()
        #expect(await recorded.cache.getData(DataRequest(a).with(\.cachePolicy, .cacheOnly)).error == .notCached)
        await recorded.end()
        #expect(recorded.record.kinds == [.callBegan(.fast), .callFailed(.notCached)])
    }

    @Test("the decoding of a value belongs to the call that has brought its bytes", arguments: [true, false])
    func decoded(isWhole: Bool) async throws {
        let recorded = Recorded()
        recorded.test.transport.script(a, [.body(Data((isWhole ? "[1, 2]" : "[1, ").utf8))])
        let error = await recorded.cache.getValue([Int].self, from: a).error
        #expect(error == (isWhole ? nil : DipperError.undecodable))
        await recorded.end()
        let decodes = recorded.record.begins(.decode)
        #expect(decodes.count == 1)
        #expect(decodes.map(\.parent) == recorded.record.begins(.call).map(\.id))
        guard case .decodeEnded(let end)? = recorded.record.ends(.decode).first else {
            Issue.record("the decode has not ended")
            return
        }
        #expect(end == error)
    }

    @Test("a write that its entry's removal overtakes ends without the disk, and each ends once")
    func overtaken() async throws {
        let recorded = Recorded(TemporaryFolder())
        for number in 0..<50 {
            try recorded.cache.addData(Data(count: number), for: a)
            recorded.cache.removeData(for: a)
        }
        await recorded.end()
        #expect(recorded.record.begins(.write).count == 50 && recorded.record.ends(.write).count == 50)
    }

    @Test("changes of the network and of the memory pressure are told")
    func conditions() async throws {
        let pressure = ManualMemoryPressure()
        let recorded = Recorded { $0.memoryPressure = pressure }
        pressure.level = .severe
        recorded.test.network.setReachable(false, host: "host.test")
        await recorded.end()
        #expect(recorded.record.kinds.contains(.memoryPressure(.severe)))
        #expect(recorded.record.kinds.contains(.networkChanged))
    }

    @Test("a sink receives the events of its topics alone")
    func topics() async throws {
        let heard = Box<[CacheEvent.Kind]>([])
        let test = TestCache {
            $0.retryPolicy = .never
            $0.eventSinks = [Observer(.failures) { event in heard.update { $0.append(event.kind) } }]
        }
        test.transport.script(a, [.status(404)])
        _ = await test.cache.getData(a).error
        await test.cache.shutdown()
        #expect(heard.value == [.attemptEnded(.failed(.status(404), willRetry: false))])
    }
}
