import TestSupport
import Testing

@Suite("What servers say of freshness, validators and storing is obeyed", .timeLimit(.minutes(2)))
struct HTTPCachingTests {
    private let test = TestCache(folder: TemporaryFolder())
    private let a = url("a")

    // MARK: Fresh

    private static let now = ManualDate().now
    private static let day = 86_400.0

    @Test(
        "as long as an answer is fresh no tier below is asked, and then the server",
        arguments: [
            (nil, nil, ["Cache-Control": "max-age=100"], 100),
            (nil, nil, ["Date": now.httpText, "Expires": (now + 100).httpText], 100),
            (nil, nil, ["Cache-Control": "max-age=150", "Age": "50"], 100),
            // A silent answer is fresh for the default, or for a tenth of its age, or not at all.
            (nil, nil, [:], 7 * day), (.http(defaultFreshness: .after(.seconds(60))), nil, [:], 60),
            (
                .http(defaultFreshness: nil), nil,
                ["Date": now.httpText, "Last-Modified": (now - 1_000).httpText], 100
            ),
            (.http(defaultFreshness: nil), nil, [:], 0),
            // An expiration of the caller's own holds where the server is silent, and only there.
            (nil, .days(30), [:], 30 * day), (nil, .days(30), ["Cache-Control": "max-age=10"], 10),
            // The immutable policy takes no notice of the server.
            (.immutable(for: .after(.seconds(1_000))), nil, ["Cache-Control": "no-store"], 1_000),
            (.immutable(for: .after(.seconds(1_000))), nil, ["Cache-Control": "no-cache"], 1_000),
            (.immutable(for: .after(.seconds(1_000))), nil, ["Cache-Control": "max-age=1, must-revalidate"], 1_000),
            (.immutable(for: .after(.seconds(1_000))), nil, ["Vary": "*"], 1_000),
            (.immutable(for: .after(.seconds(1_000))), nil, ["Expires": "0"], 1_000),
        ] as [(FreshnessPolicy?, Expiration?, HTTPHeaders, TimeInterval)])
    func fresh(policy: FreshnessPolicy?, expiration: Expiration?, headers: HTTPHeaders, seconds: TimeInterval)
        async throws
    {
        let (folder, date) = (TemporaryFolder(), ManualDate())
        let targets = [a, url("b")]
        func open(_ version: Int) -> TestCache {
            let test = TestCache(folder: folder, date: date) {
                if let policy { $0.freshness = policy }
                $0.diskExpiration = expiration
            }
            for target in targets { test.transport.script(target, (version...2).map { .text("\($0)", headers) }) }
            return test
        }
        let test = open(1)
        for target in targets { #expect(try await test.ask(target) == "1 from network") }
        guard seconds > 0 else {
            #expect(try await test.ask(a) == "2 from network")
            return
        }
        date.advance(by: seconds - 1)
        #expect(try await test.ask(a) == "1 from memory")
        test.cache.clearMemory()
        #expect(try await test.ask(a) == "1 from disk")
        #expect(try await test.ask(a) == "1 from memory", "what the disk had goes to memory with its freshness")
        #expect(test.transport.transfers.count == 2)
        await test.cache.shutdown()
        let other = open(2)
        #expect(try await other.ask(a) == "1 from disk")
        date.advance(by: 1)
        // One is in memory by now, the other on disk alone.
        for target in targets { #expect(try await other.ask(target) == "2 from network") }
        #expect(other.transport.transfers.count == 2)
    }

    @Test("an answer tells its age and until when it is fresh, be it never or for ever")
    func freshUntil() async throws {
        test.transport.script(a, [.text("1", ["Cache-Control": "no-cache", "ETag": "\"1\""])])
        #expect(try await test.cache.getData(a).response.freshUntil == .distantPast)
        try test.cache.addData(Data("2".utf8), for: "added")
        #expect(test.cache.readResponse(for: "added")?.freshUntil == nil)
        test.transport.script(a, [.text("1", ["Cache-Control": "max-age=100", "Age": "40"])])
        let response = try await test.cache.getRemoteData(a).response
        #expect(response.freshUntil == test.date.now + 60)
        #expect(response.age(at: test.date.now) == .seconds(40))
        #expect(response.age(at: test.date.now + 10) == .seconds(50))
        #expect(response.age(at: response.generated - 1) == .zero)
    }

    // MARK: Validators

    @Test("a stale answer is asked about by its validators, and a 304 makes it fresh again, on disk too")
    func notModified() async throws {
        let modified = (test.date.now - 10_000).httpText
        let first: HTTPHeaders = [
            "ETag": "\"v\"", "Last-Modified": modified, "Cache-Control": "max-age=10", "X-Kept": "old", "X-New": "old",
        ]
        try await test.keep("1", first, for: a, age: 10)
        test.transport.script(a, [.status(304, ["ETag": "\"v\"", "Cache-Control": "max-age=50", "X-New": "new"])])
        let response = try await test.cache.getData(a).response
        #expect(response.told == "1 from revalidated")
        #expect(test.requests(a).map { $0["If-None-Match"] } == [nil, "\"v\""])
        #expect(test.requests(a).map { $0["If-Modified-Since"] } == [nil, modified])
        #expect(response.status == 200 && response.attempts == 1)
        #expect(response.headers["X-Kept"] == "old" && response.headers["X-New"] == "new")
        #expect(response.freshUntil == test.date.now + 50)
        test.date.advance(by: 49)
        #expect(try await test.ask(a) == "1 from memory")
        let other = await test.reopened()
        let kept = try await other.cache.getData(a).response
        #expect(kept.told == "1 from disk")
        #expect(kept.headers["X-New"] == "new" && kept.headers["ETag"] == "\"v\"")
        test.date.advance(by: 1)
        other.transport.script(a, [.status(304)])
        #expect(try await other.ask(a) == "1 from revalidated", "and again, from what was kept")
        #expect(other.requests(a)[0]["If-None-Match"] == "\"v\"")
    }

    @Test(
        "a server that has another version is believed: a 200, a 304 about that version, and a 404",
        arguments: [
            ([.text("2", ["ETag": "\"2\""])], [nil, "\"1\""]),
            // The 304 is about bytes that are not here, so the whole is asked for, once.
            ([.status(304, ["ETag": "\"2\""]), .text("2", ["ETag": "\"2\""])], [nil, "\"1\"", nil]),
            ([.status(404)], [nil, "\"1\""]),
        ] as [([ScriptedTransport.Step], [String?])])
    func replaced(steps: [ScriptedTransport.Step], conditions: [String?]) async throws {
        let first: HTTPHeaders = ["ETag": "\"1\"", "Cache-Control": "max-age=10, stale-if-error=1000"]
        try await test.keep("1", first, for: a, age: 10)
        test.transport.script(a, steps)
        if case .status(404, _) = steps[0] {
            #expect(await test.cache.getData(a).error == .status(404), "what was kept does not stand in")
        } else {
            #expect(try await test.ask(a) == "2 from network")
            #expect(try await test.ask(a) == "2 from memory")
        }
        #expect(test.requests(a).map { $0["If-None-Match"] } == conditions)
        let other = await test.reopened()
        if conditions.count == 3 { #expect(try await other.ask(a) == "2 from disk") }
    }

    @Test("getRemoteData and ignoreCache ask without conditions, and keep what comes")
    func ignoreCache() async throws {
        let headers: HTTPHeaders = ["ETag": "\"1\"", "Cache-Control": "max-age=1000"]
        test.transport.script(a, [.text("1", headers), .text("2", headers), .text("3", headers)])
        _ = try await test.ask(a)
        #expect(try await test.cache.getRemoteData(a).response.told == "2 from network")
        #expect(try await test.ask(a) == "2 from memory")
        #expect(try await test.ask(DataRequest(a).with(\.cachePolicy, .ignoreCache)) == "3 from network")
        #expect(try await test.ask(a) == "3 from memory")
        #expect(test.requests(a).allSatisfy { $0["If-None-Match"] == nil })
    }

    // MARK: Storing

    @Test(
        "what must not be stored is handed out and not kept, in no tier, nor is what was kept before",
        arguments: [
            // What the answer says, what the request says, whether an earlier answer is kept.
            ("no-store", "", false), ("max-age=99, NO-STORE", "", true), ("no-store", "", true),
            ("max-age=99", "no-store", false),
        ])
    func noStore(response: String, own: String, isKeptBefore: Bool) async throws {
        if isKeptBefore { try await test.keep("0", ["Cache-Control": "max-age=1000"], for: a) }
        let fields: HTTPHeaders = ["Cache-Control": response]
        test.transport.script(a, [.text("1", fields), .text("2", fields)])
        let request = own.isEmpty ? DataRequest(a) : DataRequest(a).with(\.headers, ["Cache-Control": own])
        // What was kept is fresh, but the server has said since that there is another answer.
        #expect(try await test.cache.getRemoteData(request).response.told == "1 from network")
        await test.cache.idle()
        #expect(!test.cache.hasData(for: a))
        #expect(try await test.ask(request) == "2 from network")
        let other = await test.reopened()
        #expect(other.cache.diskCount == 0)
        #expect(await other.cache.getData(DataRequest(a).with(\.cachePolicy, .cacheOnly)).error == .notCached)
    }

    @Test("an error that a call takes for an answer is kept if the server says so, and answers no other call")
    func anyStatus() async throws {
        test.transport.script(
            a, [.text("none", ["Cache-Control": "max-age=100"], status: 404), .status(404), .text("here")])
        test.transport.script(url("b"), [.text("none", status: 404)])
        let lenient = DataRequest(a).with(\.validation, .anyStatus)
        let first = try await test.cache.getData(lenient).response
        #expect(first.status == 404 && first.told == "none from network")
        let second = try await test.cache.getData(lenient).response
        #expect(second.status == 404 && second.told == "none from memory")
        for _ in ["memory", "disk"] {
            #expect(test.cache.readResponse(for: a)?.status == 404 && test.cache.readData(for: a) == nil)
            #expect(!test.cache.hasData(for: a) && test.cache.cachedSource(for: a) == nil)
            await test.cache.idle()
            test.cache.clearMemory()
        }
        #expect(try await test.ask(lenient) == "none from disk")
        test.cache.clearMemory()
        #expect(await test.cache.getData(DataRequest(a).with(\.cachePolicy, .cacheOnly)).error != nil)
        let plain = DataRequest(a).with(\.failureLifetime, .zero)
        #expect(await test.cache.getData(plain).error == .status(404))
        #expect(try await test.ask(plain) == "here from network")
        for _ in 0..<2 {
            let silent = DataRequest(url("b")).with(\.validation, .anyStatus)
            #expect(try await test.ask(silent) == "none from network")
        }
    }

    @Test("a change on the server makes the entry out of date, and those of its origin that the answer names")
    func invalidation() async throws {
        let foreign = URL(string: "http://elsewhere.test/x")!
        let targets = [a, url("list"), url("other"), foreign]
        for target in targets {
            test.transport.script(target, [.text("1", ["Cache-Control": "max-age=1000"]), .text("2")])
            _ = try await test.ask(target)
        }
        test.cache.invalidate(a, after: ["Location": "/list", "Content-Location": foreign.absoluteString])
        for (target, told) in zip(targets, ["2 from network", "2 from network", "1 from memory", "1 from memory"]) {
            #expect(try await test.ask(target) == told, "\(target)")
        }
    }

    // MARK: Directives of requests

    @Test(
        "what a request says of the cache holds for it (RFC 9111, section 5.2.1)", arguments: [false, true],
        [
            // The directive, the age of an answer that is fresh for 100 seconds, and what answers.
            ("", 99, nil), ("no-cache", 50, .revalidated), ("max-age=49", 50, .revalidated),
            ("min-fresh=51", 50, .revalidated), ("no-store", 50, nil), ("max-stale", 150, .stale),
            ("max-stale=49", 150, .revalidated), ("only-if-cached, max-stale", 150, .stale),
        ] as [(String, TimeInterval, ResponseSource?)])
    func directives(fromDisk: Bool, row: (control: String, age: TimeInterval, source: ResponseSource?)) async throws {
        var test = self.test
        try await test.keep("1", ["ETag": "\"1\"", "Cache-Control": "max-age=100"], for: a, age: row.age)
        if fromDisk { test = await test.reopened() }
        test.transport.script(a, [.status(304)])
        let told = try await test.ask(a, ["Cache-Control": row.control])
        #expect(told == "1 from \(row.source ?? (fromDisk ? .disk : .memory))")
    }

    @Test("only-if-cached asks no server: what is there must do as it is")
    func onlyIfCached() async throws {
        let request = DataRequest(a).with(\.headers, ["Cache-Control": "only-if-cached"])
        #expect(await test.cache.getData(request).error == .notCached)
        try await test.keep("1", ["Cache-Control": "max-age=10"], for: a)
        #expect(try await test.ask(request) == "1 from memory")
        test.date.advance(by: 10)
        #expect(await test.cache.getData(request).error == .notCached)
        #expect(test.requests(a).count == 1)
    }

    @Test("a call that wants the server's word gets it, also when others are served from disk meanwhile")
    func noCacheBesideHit() async throws {
        try await test.keep("1", ["ETag": "\"1\"", "Cache-Control": "max-age=100"], for: a)
        let next = await test.reopened()
        next.transport.script(a, [.status(304)])
        for run in 1...10 {
            next.cache.clearMemory()
            let plain = next.cache.getData(a)
            let strict = next.cache.getData(DataRequest(a).with(\.headers, ["Cache-Control": "no-cache"]))
            #expect(try await plain.response.source != .network)
            #expect(try await strict.response.source == .revalidated)
            #expect(next.requests(a).count == run)
        }
    }
}
