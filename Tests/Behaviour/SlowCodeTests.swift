import TestSupport
import Testing

@Suite("Slow code of the program's own holds up no other call", .timeLimit(.minutes(2)))
struct SlowCodeTests {
    private let test = TestCache()
    private let a = url("a")
    private let b = url("b")

    private func expectAnswer(_ test: TestCache, whileHeldAt door: Door) async throws {
        try await door.waitForArrivals(1)
        try await test.keep("b", for: b)
        door.stayOpen()
    }

    @Test("a validation of an answer")
    func validation() async throws {
        let door = Door()
        test.transport.script(a, [.text("a")])
        let slow = ResponseValidation { _ in
            door.pass()
            return nil
        }
        let task = test.cache.getData(DataRequest(a).with(\.validation, slow))
        try await expectAnswer(test, whileHeldAt: door)
        #expect(try await task.value == Data("a".utf8))
    }

    @Test("a call that joins while the validation of another is asked is asked itself")
    func joining() async throws {
        let (door, asked) = (Door(), Box<[String]>([]))
        test.transport.script(a, [.text("broken", ["Cache-Control": "max-age=500"])])
        func request(_ name: String) -> DataRequest {
            let validation = ResponseValidation { _ in
                asked.update { $0.append(name) }
                if name == "first" { door.pass() }
                return .rejected
            }
            return DataRequest(a).with(\.validation, validation).with(\.retryPolicy, .never)
        }
        let first = test.cache.getData(request("first"))
        try await asked.wait { $0 == ["first"] }
        let second = test.cache.getData(request("second"))
        #expect(test.cache.queueCounts.fastRunning == 1)
        door.stayOpen()
        door.open()
        for task in [first, second] { #expect(await task.error == .rejected) }
        #expect(asked.value.contains("second"))
        #expect(test.cache.readData(for: a) == nil)
    }

    @Test("the validation of a call that joins holds up no call whose own has accepted the answer; each is asked once")
    func acceptedInTurn() async throws {
        let doors = [Door(), Door()]
        let asked = Box<[Int]>([])
        func request(_ number: Int) -> DataRequest {
            let validation = ResponseValidation { _ in
                asked.update { $0.append(number) }
                doors[number].pass()
                return nil
            }
            return DataRequest(a).with(\.validation, validation)
        }
        test.transport.script(a, [.text("a", ["Cache-Control": "no-store"])])
        let first = test.cache.getData(request(0))
        try await asked.wait { $0 == [0] }
        let second = test.cache.getData(request(1))
        #expect(test.cache.queueCounts.fastRunning == 1)
        doors[0].stayOpen()
        try await asked.wait { $0 == [0, 1] }
        #expect(try await first.value == Data("a".utf8))
        #expect(second.state != .finished)
        doors[1].stayOpen()
        #expect(try await second.value == Data("a".utf8))
        #expect(asked.value == [0, 1] && test.requests(a).count == 1)
    }

    @Test("a modifier that does not return: neither cancelling nor a shutdown waits for it", arguments: [false, true])
    func endlessModifier(isShutDown: Bool) async throws {
        let gate = Gate()
        let test = TestCache { $0.fastQueue.maxConcurrent = 1 }
        let task = test.cache.getData(DataRequest(a).with(\.modifier, .changing { _ in await gate.pass() }))
        try await gate.waitForArrival()
        test.transport.script(b, [.text("b")])
        let next = test.cache.getData(b)
        if isShutDown { await test.cache.shutdown() } else { task.cancel() }
        #expect(await task.error == .cancelled)
        #expect(await next.error == (isShutDown ? .cancelled : nil), "its place in the queue is free")
        gate.open()
        await test.cache.shutdown()
        #expect(test.requests(a).isEmpty)
    }

    @Test("a codec of what is kept in a tier of the program's own")
    func codec() async throws {
        let (codec, shelf) = (StalledCodec(), Shelf())
        let test = TestCache {
            $0.tiers = [shelf]
            $0.recordCodec = codec
        }
        try await test.keep("a", ["Cache-Control": "max-age=500"], for: a)
        try await expectAnswer(test, whileHeldAt: codec.door)
        await test.cache.idle()
        #expect(shelf.records.value.count == 2)
    }

    @Test("a hook that runs in place")
    func hook() async throws {
        let door = Door()
        // A hook that is added after the end runs where it is added, which would hold up the test itself.
        let (task, transfer) = try await test.begin(a)
        task.onEnd { _ in door.pass() }
        transfer.finish(with: Data("a".utf8))
        try await expectAnswer(test, whileHeldAt: door)
        await test.cache.idle()
    }

    // MARK: Busy threads

    @Test("a program that blocks all of Swift's threads gets its answers all the same: retries, disk, decoding")
    func blocked() async {
        await #expect(processExitsWith: .success) {
            let test = TestCache(folder: TemporaryFolder()) {
                $0.clock = ContinuousClock()
                $0.retryPolicy = .fixed(.milliseconds(20))
            }
            test.transport.script(url("a"), [.status(503), .body(Data("[1]".utf8))])
            let values = Box<[Int]>([])
            // The threads are let go when the value is there, or far too late.
            let tooLate = ContinuousClock.now + .seconds(60)
            await withTaskGroup { group in
                for _ in 0..<(4 * ProcessInfo.processInfo.activeProcessorCount) {
                    group.addTask {
                        while values.value.isEmpty, ContinuousClock.now < tooLate { usleep(1_000) }
                    }
                }
                test.cache.getValue([Int].self, from: url("a")).then { value in values.update { $0 = value } }
            }
            #expect(values.value == [1] && ContinuousClock.now < tooLate)
            await test.cache.shutdown()
        }
    }
}
