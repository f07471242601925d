import TestSupport
import Testing

@Suite("Events tell of each piece of work from its begin to its end", .timeLimit(.minutes(2)))
struct EventTests {
    private let test = TestCache()
    private let a = url("a")
    private let body = Data("body".utf8)
    private let record = EventRecord()

    private func recorded(
        _ folder: TemporaryFolder? = nil, _ change: (inout DataCache.Configuration) -> Void = { _ in }
    ) -> TestCache {
        TestCache(folder: folder, sink: record) {
            $0.retryPolicy = .fixed(.zero, retries: 1)
            change(&$0)
        }
    }

    /// The fetches that calls have joined.
    private var fetches: [CacheEvent.ID] {
        record.kinds.compactMap { kind in if case .callJoined(let fetch) = kind { fetch } else { nil } }
    }

    /// Ends the cache, so that everything has been told, and checks that all work is paired.
    private func end(_ cache: DataCache, sourceLocation: SourceLocation = #_sourceLocation) async {
        await cache.shutdown()
        let unpaired = record.unpaired
        #expect(unpaired.isEmpty, "\(unpaired)", sourceLocation: sourceLocation)
    }

    @Test("a call that misses is looked up, fetched and written, and each of these belongs to its fetch")
    func miss() async throws {
        let test = recorded(TemporaryFolder())
        test.transport.script(a, [.body(body)])
        _ = try await test.cache.getData(a).value
        await end(test.cache)
        #expect(record.ends(.call) == [.callAnswered(.network)])
        #expect(record.ends(.lookUp) == [.lookUpEnded(nil)])
        #expect(record.ends(.attempt) == [.attemptEnded(.answered(.network))])
        #expect(record.begins(.write).map(\.kind) == [.writeBegan(bytes: body.count)])
        #expect(record.ends(.write) == [.writeEnded(isOnDisk: true)])
        let call = try #require(record.begins(.call).first)
        let fetch = try #require(fetches.first)
        #expect(fetches.count == 1 && fetch != call.id)
        let begin = try #require(record.begins(.fetch).first)
        #expect(begin.id == fetch && begin.kind == .fetchBegan(.fast) && begin.parent == nil)
        let ofFetch = record.events.filter { $0.id == fetch || $0.kind == .callJoined(fetch: fetch) }
        #expect(ofFetch.prefix(2).map(\.kind) == [.fetchBegan(.fast), .callJoined(fetch: fetch)])
        #expect(record.events.contains { $0.id == call.id && $0.kind == .callJoined(fetch: fetch) })
        for work in [EventRecord.Work.lookUp, .attempt, .write] {
            #expect(record.begins(work).map(\.parent) == [fetch], "\(work)")
        }
        #expect(record.events.filter { $0.kind == .requested }.map(\.id) == record.begins(.attempt).map(\.id))
        #expect(record.events.allSatisfy { $0.key == CacheKey(a) })
        #expect(record.events.last { $0.id == fetch }?.kind == .fetchEnded)
    }

    @Test("a call for a picture or a value that is refused is told by itself, too")
    func refusedObjects() async throws {
        let test = TestImageCache { $0.data.eventSinks.append(record) }
        let request = DataRequest(string: "no url")
        #expect(await test.cache.getImage(ImageRequest(request)).error == .invalidURL)
        #expect(await test.cache.data.getValue([Int].self, from: request).error == .invalidURL)
        #expect(record.begins(.call).map(\.kind) == [.callBegan(.fast), .callBegan(.fast)])
        #expect(record.ends(.call) == [.callFailed(.invalidURL), .callFailed(.invalidURL)])
    }

    @Test("a call that memory answers, or that is refused, is told by itself; one that the disk answers has no attempt")
    func withoutFetch() async throws {
        let test = recorded(TemporaryFolder())
        try await test.cache.addDataAndWait(body, for: CacheKey(a))
        _ = try await test.cache.getData(a).value
        #expect(await test.cache.slowGetData(DataRequest(string: "no url")).error == .invalidURL)
        let calls = record.kinds.suffix(4)
        #expect(calls == [.callBegan(.fast), .callAnswered(.memory), .callBegan(.slow), .callFailed(.invalidURL)])
        test.cache.clearMemory()
        _ = try await test.cache.slowGetData(a).value
        await end(test.cache)
        #expect(record.ends(.call).last == .callAnswered(.disk))
        #expect(record.ends(.lookUp) == [.lookUpEnded(.disk)])
        #expect(!record.ends(.attempt).contains(.attemptEnded(.answered(.network))))
        #expect(record.begins(.write).map(\.parent) == [nil], "the program has added the entry")
    }

    @Test("calls that share a fetch join one fetch, which makes one attempt and changes its queue")
    func joined() async throws {
        let test = recorded()
        let tasks = [test.cache.slowGetData(a), test.cache.getData(a), test.cache.getData(a)]
        try await test.transport.nextTransfer().finish(with: body)
        for task in tasks { _ = try await task.value }
        await end(test.cache)
        #expect(fetches.count == 3 && Set(fetches).count == 1)
        #expect(Set(record.begins(.call).map(\.id)).count == 3)
        #expect(record.begins(.attempt).count == 1)
        #expect(record.kinds.contains(.queueChanged(.fast)))
    }

    @Test("a prefetch is told to be paused for urgent work, and to go on")
    func paused() async throws {
        let test = recorded()
        let (slow, transfer) = try await test.begin(a, in: .slow)
        let (fast, urgent) = try await test.begin(url("b"))
        urgent.finish(with: body)
        _ = try await fast.value
        try await transfer.wait { !$0.isThrottled }
        transfer.finish(with: body)
        _ = try await slow.value
        await end(test.cache)
        let moves = record.events.filter { [.paused, .resumed].contains($0.kind) }
        #expect(moves.map(\.kind) == [.paused, .resumed] && moves.allSatisfy { $0.key == CacheKey(a) })
    }

    @Test("each attempt is told with its end: failed for good or not, answered, confirmed by the server, or stopped")
    func attempts() async throws {
        let test = recorded()
        let answer = TransferResponse(headers: ["ETag": "\"1\"", "Cache-Control": "max-age=10"], body: body)
        test.transport.script(a, [.status(400), .status(503), .response(answer), .status(304)])
        for _ in 0..<3 {
            _ = await test.cache.getData(a).result
            test.date.advance(by: 10)
        }
        try await test.begin(url("b")).0.cancel()
        await end(test.cache)
        let calls: [CacheEvent.Kind] = [
            .callFailed(.status(400)), .callAnswered(.network), .callAnswered(.revalidated), .callFailed(.cancelled),
        ]
        #expect(record.ends(.call) == calls)
        let ends: [CacheEvent.AttemptEnd] = [
            .failed(.status(400), willRetry: false), .failed(.status(503), willRetry: true), .answered(.network),
            .answered(.revalidated), .stopped,
        ]
        #expect(record.ends(.attempt) == ends.map { .attemptEnded($0) })
        #expect(Set(record.begins(.attempt).map(\.id)).count == 5)
        #expect(record.kinds.filter { $0 == .parked }.count == 1)
    }

    @Test("the decoding of a value belongs to the call that has brought its bytes", arguments: [true, false])
    func decoded(isWhole: Bool) async throws {
        let test = recorded()
        test.transport.script(a, [.body(Data((isWhole ? "[1, 2]" : "[1, ").utf8))])
        let error = await test.cache.getValue([Int].self, from: a).error
        #expect(error == (isWhole ? nil : DipperError.undecodable))
        await end(test.cache)
        #expect(record.begins(.decode).map(\.parent) == record.begins(.call).map(\.id))
        #expect(record.ends(.decode) == [.decodeEnded(error)])
    }

    @Test("a write that its entry's removal overtakes ends without the disk, and each ends once")
    func overtaken() async throws {
        let codec = DoorCodec()
        let test = recorded(TemporaryFolder()) { $0.recordCodec = codec }
        codec.shut()
        try test.cache.addData(body, for: a)
        try await codec.waitForWrite()
        test.cache.removeData(for: a)
        codec.open()
        for number in 0..<50 {
            try test.cache.addData(Data(count: number), for: a)
            test.cache.removeData(for: a)
        }
        await end(test.cache)
        #expect(record.ends(.write).first == .writeEnded(isOnDisk: false))
        #expect(record.begins(.write).count == 51 && record.ends(.write).count == 51)
    }

    @Test("changes of the network and of the memory pressure, and removals by a tier, are told")
    func conditions() async throws {
        let pressure = ManualMemoryPressure()
        let test = recorded { $0.memoryPressure = pressure }
        try test.cache.addData(body, for: a)
        pressure.level = .severe
        test.network.setReachable(false, host: "host.test")
        await end(test.cache)
        #expect(Set(record.kinds).isSuperset(of: [.memoryPressure(.severe), .networkChanged]))
        let cleanings = record.events.cleanings
        #expect(cleanings.map(\.reason) == [.memoryPressure] && cleanings.map(\.entries) == [1])
    }

    // MARK: Pictures

    private func recordedImages() -> TestImageCache { TestImageCache { $0.data.eventSinks = [record] } }

    private func end(_ cache: ImageCache, sourceLocation: SourceLocation = #_sourceLocation) async {
        await cache.shutdown()
        await end(cache.data, sourceLocation: sourceLocation)
    }

    @Test("a processed picture is decoded once, and each of its steps is told with its identifier")
    func processed() async throws {
        let test = recordedImages()
        try test.script(a, .sample(40, 30))
        let request = ImageRequest(a).processed(by: Inverting("one") |> Inverting("two"))
        _ = try await test.cache.getImage(request).value
        await end(test.cache)
        #expect(record.ends(.decode) == [.decodeEnded(nil)])
        #expect(record.begins(.step).map(\.kind) == [.stepBegan("test.one"), .stepBegan("test.two")])
        #expect(record.ends(.step) == [.stepEnded(nil), .stepEnded(nil)])
        let call = record.begins(.call).first?.id
        #expect(call != nil && record.begins(.decode).map(\.parent) == [call])
        #expect(record.begins(.step).map(\.parent) == [call, call])
    }

    @Test("a decode that fails ends with its error")
    func undecodable() async throws {
        let test = recordedImages()
        test.transport.script(a, [.body(Data("no picture".utf8))])
        let error = await test.error(a)
        await end(test.cache)
        #expect(error != nil && record.ends(.decode) == [.decodeEnded(error)])
    }

    @Test("bytes at hand that are no picture, and those that are fetched in their place, are two calls that end")
    func fetchedAgain() async throws {
        let test = recordedImages()
        test.transport.script(a, [.body(Data("no picture".utf8)), try .image(.sample())])
        _ = try await test.cache.data.getData(a).value
        _ = try await test.cache.getImage(a).value
        await end(test.cache)
        #expect(record.ends(.call) == [.callAnswered(.network), .callAnswered(.memory), .callAnswered(.network)])
    }

    @Test("a picture in memory is told as one call; adding one is no call")
    func memoryHit() async throws {
        let test = recordedImages()
        try test.cache.addImage(.sample(), for: a)
        #expect(record.begins(.call).isEmpty)
        _ = try await test.cache.getImage(a).value
        await end(test.cache)
        #expect(record.begins(.call).map(\.kind) == [.callBegan(.fast)])
        #expect(record.ends(.call) == [.callAnswered(.memory)])
    }

    // MARK: Who hears of them

    @Test("a sink receives the events of its topics alone")
    func topics() async throws {
        let (heard, calls) = (Box<[CacheEvent.Kind]>([]), Box<[CacheEvent.Kind]>([]))
        let test = TestCache {
            $0.eventSinks = [
                Observer(.failures) { event in heard.update { $0.append(event.kind) } },
                Observer(.calls) { event in calls.update { $0.append(event.kind) } },
            ]
        }
        test.transport.script(a, [.status(404)])
        _ = await test.cache.getData(a).error
        await test.cache.shutdown()
        let failure = CacheEvent.Kind.attemptEnded(.failed(.status(404), willRetry: false))
        #expect(heard.value == [failure])
        #expect(!calls.value.isEmpty && !calls.value.contains(failure))
    }

    @Test("each listener receives everything from the moment it began to listen, until the cache has shut down")
    func listeners() async throws {
        try test.cache.addData(body, for: a)
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
    func slowListener() async throws {
        try test.cache.addData(body, for: a)
        var listener = test.cache.events(about: .calls, limit: 3).makeAsyncIterator()
        for _ in 0..<5 { _ = try await test.cache.getData(a).value }
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

    @Test("a listener that begins while a fetch is under way hears how it goes on; one that is cancelled ends")
    func lateListener() async throws {
        let (task, transfer) = try await test.begin(a)
        let events = test.cache.events(about: [.calls, .fetches])
        let listening = Task { [events = test.cache.events] in for await _ in events {} }
        listening.cancel()
        await listening.value
        task.moveToSlowQueue()
        transfer.finish(with: body)
        _ = try await task.value
        await test.cache.shutdown()
        var kinds: [CacheEvent.Kind] = []
        for await event in events { kinds.append(event.kind) }
        #expect(kinds.contains(.queueChanged(.slow)) && kinds.contains(.callAnswered(.network)))
    }
}
