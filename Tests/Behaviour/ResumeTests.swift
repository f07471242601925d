import TestSupport
import Testing

@Suite("Bodies that were broken off are continued, and never wrongly", .timeLimit(.minutes(2)))
struct ResumeTests {
    private let test = TestCache { $0.retryPolicy = .fixed(.zero, retries: 5) }
    private let whole = Parts.whole
    private let other = Data((0..<100).map { UInt8(200 - $0) })
    private let a = url("a")
    private let b = url("b")

    private func open(_ hasFolder: Bool, _ policy: DataRequest.CachePolicy = .useCache) -> TestCache {
        TestCache(folder: hasFolder ? TemporaryFolder() : nil) {
            $0.cachePolicy = policy
            $0.retryPolicy = .fixed(.zero, retries: 5)
        }
    }

    // MARK: From attempt to attempt

    @Test(
        "the next attempt asks for what is missing, on the condition that it is the same, uncoded",
        arguments: [
            ["ETag": "\"v\""],
            // A date does where there is no tag, if the answer was made a minute later.
            ["Last-Modified": (ManualDate().now - 60).httpText, "Date": ManualDate().now.httpText],
        ] as [HTTPHeaders])
    func continues(validators: HTTPHeaders) async throws {
        let beginning = Parts.beginning(40, validators.adding("Content-Length", "100"))
        let rest = Parts.part(40..<100, tag: nil, more: validators)
        test.transport.script(a, [.interrupted(beginning, .connectionLost), .response(rest)])
        let response = try await test.cache.getData(a).response
        #expect(response.data == whole && response.status == 200 && response.source == .network)
        #expect(response.headers["Content-Range"] == nil && response.headers["Content-Length"] == "100")
        let requests = test.transport.transfers.map(\.request)
        #expect(requests.map { $0.headers["Range"] } == [nil, "bytes=40-"] && requests.map(\.offset) == [0, 40])
        #expect(requests[1].headers["If-Range"] == validators["ETag"] ?? validators["Last-Modified"])
        #expect(requests[1].headers["Accept-Encoding"] == "identity")
        #expect(test.cache.readData(for: a) == whole)
    }

    @Test(
        "what cannot be continued for sure is begun anew",
        arguments: [
            // ValidatorsTests has the validators that do not do.
            ["Content-Length": "100"], ["ETag": "\"v\"", "Content-Encoding": "gzip"],
            ["ETag": "\"v\"", "Accept-Ranges": "none"], ["ETag": "\"v\"", "Content-Length": "40"],
        ] as [HTTPHeaders])
    func startsOver(headers: HTTPHeaders) async throws {
        test.transport.script(a, [.interrupted(Parts.beginning(40, headers), .connectionLost), .body(whole)])
        #expect(try await test.cache.getData(a).value == whole)
        #expect(test.requests(a).map { $0["Range"] ?? $0["If-Range"] } == [nil, nil])
    }

    @Test(
        "a part that does not fit is thrown away with what was there, and the whole asked for",
        arguments: [
            // ValidatorsTests has all that does not fit by its fields.
            Parts.part(41..<100), Parts.part(40..<100, "bytes 40-99/101"), Parts.part(40..<100, tag: "\"w\""),
            Parts.part(40..<100, "bytes 40-98/100"), Parts.part(40..<40, "bytes 40-99/100"),
            TransferResponse(status: 416, headers: ["Content-Range": "bytes */100"], body: Data()),
        ])
    func unfit(answer: TransferResponse) async throws {
        test.transport.script(
            a,
            [
                .interrupted(Parts.beginning(40), .connectionLost), .response(answer), .response(Parts.beginning(100)),
            ])
        let task = test.cache.getData(a)
        let failures = task.failures()
        #expect(try await task.value == whole)
        #expect(test.requests(a).map { $0["Range"] } == [nil, "bytes=40-", nil])
        await test.cache.idle()
        #expect(failures.value == ["connection lost"], "the misfit is no failure of its own")
    }

    @Test(
        "a whole answer to a request for a part counts as it is, and if it is broken off, as the new beginning",
        arguments: [true, false])
    func wholeInstead(isBrokenOff: Bool) async throws {
        let new: HTTPHeaders = ["ETag": "\"w\"", "Content-Length": "100"]
        let part: HTTPHeaders = ["ETag": "\"w\"", "Content-Range": "bytes 20-99/100"]
        let short = Data("short".utf8)
        var steps: [ScriptedTransport.Step] = [.interrupted(Parts.beginning(40), .connectionLost)]
        if isBrokenOff {
            steps.append(.interrupted(TransferResponse(headers: new, body: other.prefix(20)), .connectionLost))
            steps.append(.response(TransferResponse(status: 206, headers: part, body: other[20...])))
        } else {
            steps.append(.response(TransferResponse(headers: ["ETag": "\"w\""], body: short)))
        }
        test.transport.script(a, steps)
        #expect(try await test.cache.getData(a).value == (isBrokenOff ? other : short))
        let conditions = test.requests(a).map { $0["If-Range"] }
        #expect(conditions == (isBrokenOff ? [nil, "\"v\"", "\"w\""] : [nil, "\"v\""]))
    }

    @Test("a server that hands out single bytes is given up after a while")
    func singleBytes() async throws {
        let size = 1_000
        let beginning = Parts.beginning(1, ["ETag": "\"v\"", "Content-Length": "\(size)"])
        let pieces: [ScriptedTransport.Step] = (1..<size).map { place in
            let headers: HTTPHeaders = ["ETag": "\"v\"", "Content-Range": "bytes \(place)-\(place)/\(size)"]
            return .response(TransferResponse(status: 206, headers: headers, body: Data([7])))
        }
        test.transport.script(a, [.interrupted(beginning, .connectionLost)] + pieces)
        let request = DataRequest(a).with(\.retryPolicy, .fixed(.zero, retries: 1))
        #expect(await test.cache.getData(request).error == .truncated)
        #expect(test.transport.transfers.count < 250)
    }

    @Test("a 206 that nobody asked for is no answer; who asks for a range gets it")
    func unasked() async throws {
        for target in [a, b] { test.transport.script(target, [.response(Parts.part(40..<100))]) }
        #expect(await test.cache.getData(a).error != nil)
        #expect(!test.cache.hasData(for: a))
        let ranged = DataRequest(b).with(\.headers, ["Range": "bytes=40-"])
        #expect(try await test.cache.getData(ranged).response.status == 206)
    }

    @Test("a redirect that leads elsewhere than before, and a variant for others, are not continued")
    func elsewhere() async throws {
        test.transport.script(a, [.redirect("/x"), .redirect("/y")])
        test.transport.script(url("x"), [.interrupted(Parts.beginning(40), .connectionLost)])
        test.transport.script(url("y"), [.body(other)])
        #expect(try await test.cache.getData(a).value == other)
        #expect(test.requests(url("y")).map { $0["Range"] } == [nil])

        // Both variants were modified at the same date.
        let headers: HTTPHeaders = [
            "Last-Modified": (test.date.now - 1_000).httpText, "Date": test.date.now.httpText,
            "Content-Length": "100", "Vary": "Accept-Language",
        ]
        let request = DataRequest(b).with(\.key, "k")
        let german = test.cache.getData(
            request.with(\.headers, ["Accept-Language": "de"]).with(\.retryPolicy, .never))
        let english = test.cache.getData(request.with(\.headers, ["Accept-Language": "en"]))
        try await test.transport.nextTransfer().interrupt(with: Parts.beginning(40, headers))
        #expect(await german.error == .connectionLost)
        var transfer = try await test.transport.nextTransfer()
        if transfer.request.headers["Accept-Language"] == "de" {
            transfer.finish(with: whole, headers: headers)
            transfer = try await test.transport.nextTransfer()
        }
        #expect(transfer.request.headers["Range"] == nil)
        transfer.finish(with: other, headers: headers)
        #expect(try await english.value == other)
    }

    @Test("progress goes on from where it was")
    func progress() async throws {
        let heard = Box<[TaskProgress]>([])
        let (task, first) = try await test.begin(DataRequest(a).with(\.progressInterval, .zero))
        task.onProgress { progress in heard.update { $0.append(progress) } }
        first.send(progress: 40, of: 100)
        try await heard.wait { $0.count == 1 }
        first.interrupt(with: Parts.beginning(40))
        let second = try await test.transport.nextTransfer()
        second.send(progress: 70, of: 100)
        second.finish(with: whole[40...], status: 206, headers: Parts.part(40..<100).headers)
        _ = try await task.value
        await test.cache.idle()
        #expect(heard.value == [40, 70].map { TaskProgress(received: $0, expected: 100) })
    }

    // MARK: Prefetches that were held back

    @Test("a prefetch that was held back until its server hung up goes on in silence, but not for ever")
    func lostPatience() async throws {
        let test = TestCache { $0.retryPolicy = .never }
        let told = Box<[String]>([])
        /// Holds a prefetch back by an urgent call until its transfer has broken off.
        func breakOff(_ transfer: ScriptedTransfer, _ response: TransferResponse) async throws {
            let (urgent, urgentTransfer) = try await test.begin(DataRequest(url("urgent")).with(\.cachePolicy, .bypass))
            try await transfer.wait { $0.isThrottled }
            transfer.interrupt(with: response)
            urgentTransfer.finish(with: Data())
            _ = try await urgent.value
        }
        let (slow, first) = try await test.begin(a, in: .slow)
        slow.onFail { error, _ in told.update { $0.append("fail \(error)") } }
            .onRetry { told.update { $0.append("retry") } }
        try await breakOff(first, Parts.beginning(60))
        let second = try await test.transport.nextTransfer()
        #expect(second.request.headers["Range"] == "bytes=60-")
        second.finish(with: whole[60...], status: 206, headers: Parts.part(60..<100).headers)
        #expect(try await slow.value == whole)
        await test.cache.idle()
        #expect(told.value.isEmpty)

        let hopeless = test.cache.slowGetData(b)
        for attempt in 0..<17 {
            let response = attempt == 0 ? Parts.beginning(1) : Parts.part(attempt..<attempt + 1)
            try await breakOff(test.transport.nextTransfer(), response)
        }
        #expect(await hopeless.error == .connectionLost, "a server that sends a byte each time has failed in the end")
        #expect(test.requests(b).count == 17)
    }

    // MARK: From call to call

    @Test(
        "a call after a cancel, a shutdown, or both goes on from the bytes that are here",
        arguments: [(true, true, false), (true, true, true), (true, false, true), (false, true, false)])
    func afterCancel(hasFolder: Bool, cancels: Bool, reopens: Bool) async throws {
        var test = open(hasFolder)
        let (first, transfer) = try await test.begin(a)
        transfer.hold(Parts.beginning(30))
        if cancels {
            first.cancel()
            await test.cache.idle()
        }
        if reopens { test = await test.reopened() }
        #expect(await first.error == .cancelled)
        test.transport.script(a, [.response(Parts.part(30..<100))])
        #expect(try await test.call(a, in: reopens ? .slow : .fast).value == whole)
        #expect(test.requests(a).last?["Range"] == "bytes=30-")
        if hasFolder { test = await test.reopened() }
        #expect(try await test.cache.getData(a).response.source == (hasFolder ? .disk : .memory))
        // A trim takes entries alone.
        if hasFolder { test.cache.removeData(for: a) } else { test.cache.trimMemory(to: 0) }
        test.transport.script(a, [])
        #expect(try await test.nextFields(of: a)["Range"] == nil, "what is complete leaves no beginning behind")
    }

    @Test("a later call continues by the validators of the answer that was broken off", arguments: [true, false])
    func validators(hasFolder: Bool) async throws {
        let test = open(hasFolder)
        let modified = (test.date.now - 60).httpText
        for (name, validators, condition) in [
            ("tag", ["ETag": "\"v\""], "\"v\""),
            ("date", ["Last-Modified": modified, "Date": test.date.now.httpText], modified),
            ("weak", ["ETag": "W/\"v\""], nil), ("coded", ["ETag": "\"v\"", "Content-Encoding": "gzip"], nil),
        ] as [(String, HTTPHeaders, String?)] {
            try await test.leave(Parts.beginning(30, validators.adding("Content-Length", "100")), of: url(name))
            let headers = try await test.nextFields(of: url(name))
            #expect(headers["If-Range"] == condition && headers["Range"] == condition.map { _ in "bytes=30-" })
        }
    }

    @Test(
        "a later call takes no beginning of another version, whether the server sends the whole or a part of it",
        arguments: [true, false], [true, false])
    func changed(hasFolder: Bool, sendsPart: Bool) async throws {
        let test = open(hasFolder)
        try await test.leave(Parts.beginning(30), of: a)
        let headers: HTTPHeaders = ["ETag": "\"w\"", "Content-Length": "100"]
        let new = ScriptedTransport.Step.response(TransferResponse(headers: headers, body: other))
        test.transport.script(a, sendsPart ? [.response(Parts.part(30..<100, tag: "\"w\"")), new] : [new])
        #expect(try await test.cache.getData(a).value == other)
        let conditions = test.requests(a).map { $0["If-Range"] }
        #expect(conditions == (sendsPart ? [nil, "\"v\"", nil] : [nil, "\"v\""]))
    }

    @Test(
        "beginnings go with their entry, and nothing is kept where nothing may be",
        arguments: [
            // The change, and whether the beginning is left in memory and on disk.
            ("remove", false, false), ("clear", false, false), ("flush", false, false), ("from memory", false, true),
            ("clear memory", false, true), ("memory only", true, false), ("no-store", false, false),
        ], [true, false])
    func removal(row: (change: String, isInMemory: Bool, isOnDisk: Bool), hasFolder: Bool) async throws {
        var test = open(hasFolder, row.change == "memory only" ? .memoryOnly : .useCache)
        let fields = row.change == "no-store" ? Parts.fields.adding("Cache-Control", "no-store") : Parts.fields
        try await test.leave(Parts.beginning(30, fields), of: a)
        test.date.advance(by: 10)
        switch row.change {
        case "remove": test.cache.removeData(for: a)
        case "clear": test.cache.clear()
        case "flush": test.cache.flush(olderThan: .seconds(5))
        case "from memory": test.cache.removeData(for: a, from: .memory)
        case "clear memory": test.cache.clearMemory()
        default: break
        }
        if hasFolder { test = await test.reopened() }
        let isLeft = hasFolder ? row.isOnDisk : row.isInMemory
        #expect(try await test.nextFields(of: a)["Range"] == (isLeft ? "bytes=30-" : nil))
    }

    // MARK: How much is kept

    private let fields: HTTPHeaders = ["ETag": "\"v\"", "Content-Length": "100000000"]

    private func begin(_ names: [String], _ bytes: Int, _ test: TestCache) async throws {
        for name in names {
            try await test.leave(TransferResponse(headers: fields, body: Data(count: bytes)), of: url(name))
        }
    }

    /// Returns the URLs whose next call goes on where the one before stopped.
    private func continued(_ names: [String], _ test: TestCache) async throws -> [String] {
        var found: [String] = []
        for name in names {
            if try await test.nextFields(of: url(name))["Range"] != nil { found.append(name) }
        }
        return found
    }

    @Test(
        "the oldest go when there are more than the limit allows; a larger one than the limit is not kept",
        arguments: [(10_000, ["c", "d"]), (0, [])] as [(Int, [String])], [true, false])
    func size(limit: (bytes: Int, kept: [String]), hasFolder: Bool) async throws {
        let names = ["a", "b", "c", "d"]
        var test = TestCache(folder: hasFolder ? TemporaryFolder() : nil) { $0.partialLimit = limit.bytes }
        try await begin(names, 4_000, test)
        try await begin(["large"], 12_000, test)
        if hasFolder { test = await test.reopened() }
        #expect(try await continued(names + ["large"], test) == limit.kept)
    }

    @Test("those older than a week go with the expired entries", arguments: [true, false])
    func age(hasFolder: Bool) async throws {
        var test = TestCache(folder: hasFolder ? TemporaryFolder() : nil)
        try await begin(["old"], 4_000, test)
        test.date.advance(by: 6 * 86_400)
        try await begin(["new"], 4_000, test)
        test.cache.removeExpired()
        await test.cache.synchronize()
        test.date.advance(by: 2 * 86_400)
        test.cache.removeExpired()
        if hasFolder { test = await test.reopened() }
        #expect(try await continued(["old", "new"], test) == ["new"])
    }

    // MARK: Without a folder

    @Test(
        "memory holds 32 MiB of them, and no more than a quarter of what bodies may hold",
        arguments: [(1 << 30, 12 << 20), (40_000, 4_000)])
    func inMemory(budget: Int, size: Int) async throws {
        let test = TestCache { $0.inFlightLimit = budget }
        try await begin(["a", "b", "c"], size, test)
        #expect(try await continued(["a", "b", "c"], test) == ["b", "c"])
    }

    @Test("the one that was kept last stays; looking at one does not count")
    func order() async throws {
        let test = TestCache { $0.partialLimit = 10_000 }
        try await begin(["a", "b", "a"], 4_000, test)
        #expect(try await continued(["b"], test) == ["b"])
        try await begin(["c"], 4_000, test)
        #expect(try await continued(["a", "b", "c"], test) == ["a", "c"])
    }

    @Test(
        "all go when memory gets short, and none is kept until it no longer is",
        arguments: [MemoryPressure.moderate, .severe])
    func pressure(level: MemoryPressure) async throws {
        let pressure = ManualMemoryPressure()
        let test = TestCache { $0.memoryPressure = pressure }
        try await begin(["a"], 4_000, test)
        pressure.level = level
        try await begin(["b"], 4_000, test)
        pressure.level = .normal
        try await begin(["c"], 4_000, test)
        #expect(try await continued(["a", "b", "c"], test) == ["c"])
    }

    @Test("one that a waiting call has no room for is there for its next attempt")
    func waiting() async throws {
        let test = TestCache { $0.inFlightLimit = 40_000 }
        let part = TransferResponse(headers: fields, body: Data(count: 6_000))
        for name in ["a", "b"] {
            let waits = DataRequest(url(name)).with(\.retryPolicy, .fixed(.seconds(3_600)))
            let (task, transfer) = try await test.begin(waits)
            transfer.interrupt(with: part)
            try await task.waitForFailures()
        }
        for name in ["a", "b"] {
            // An urgent call ends the wait.
            let (_, transfer) = try await test.begin(url(name))
            #expect(transfer.request.headers["Range"] == "bytes=6000-")
            transfer.fail(with: .rejected)
        }
        await test.cache.idle()
    }
}
