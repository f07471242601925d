import TestSupport
import Testing

@Suite("Tiers of the program's own", .timeLimit(.minutes(2)))
struct TierTests {
    private let a = url("a")
    private let shelf = Shelf()

    private func answer(_ text: String, _ more: HTTPHeaders = [:]) -> ScriptedTransport.Step {
        .text(text, HTTPHeaders([.init("Cache-Control", "max-age=500")] + more.fields))
    }

    private func cache(_ shelves: Shelf..., folder: TemporaryFolder? = nil) -> TestCache {
        TestCache(folder: folder) { $0.tiers = shelves }
    }

    private func fill(_ shelf: Shelf, _ request: DataRequest, _ step: ScriptedTransport.Step) async throws {
        let test = cache(shelf)
        test.transport.script(try #require(request.url), [step])
        _ = try await test.cache.getData(request).value
        await test.cache.synchronize()
    }

    @Test("what one cache has fetched answers another, which keeps it in memory and on disk")
    func fillUp() async throws {
        try await fill(shelf, DataRequest(a), answer("here"))
        let test = cache(shelf, folder: TemporaryFolder())
        let first = try await test.cache.getData(a).response
        #expect(first.source == .shared && first.data == Data("here".utf8))
        #expect(try await test.cache.getData(a).response.source == .memory)
        await test.cache.synchronize()
        test.cache.clearMemory()
        #expect(try await test.cache.getData(a).response.source == .disk)
        #expect(test.transport.transfers.isEmpty && shelf.lookUps.value == 2)
        #expect(test.cache.statistics.sharedHits == 1)
    }

    @Test("tiers are asked in their order, one after the other; names reveal no URL; both get what is fetched")
    func order() async throws {
        let asked = Box<[String]>([])
        func shelf(_ name: String) -> Shelf {
            Shelf {
                asked.update { asked in
                    guard asked.last != name else { return }
                    asked.append(name)
                }
                return .works
            }
        }
        let (near, far) = (shelf("near"), shelf("far"))
        try await fill(far, DataRequest(a), answer("far"))
        let test = cache(near, far)
        #expect(try await test.cache.getData(a).response.source == .shared)
        #expect(asked.value == ["far", "near", "far"], "the first time it was filled")
        test.transport.script(url("b"), [answer("net")])
        #expect(try await test.cache.getData(url("b")).response.source == .network)
        await test.cache.synchronize()
        #expect(near.lookUps.value == 2 && far.lookUps.value == 3)
        let isName = { (name: String) in name.count == 64 && name.allSatisfy(\.isHexDigit) }
        #expect(far.records.value.count == 2 && far.records.value.keys.allSatisfy(isName))
        #expect(near.records.value.count == 1 && Set(near.records.value.keys).isSubset(of: far.records.value.keys))
    }

    @Test("a tier that does not answer delays a call by its time limit, and then the network is asked")
    func silent() async throws {
        let test = cache(Shelf { .hangs })
        test.transport.script(a, [.body(Data("net".utf8))])
        let task = test.cache.getData(a)
        try await test.clock.waitForSleepers(1)
        #expect(test.transport.transfers.isEmpty)
        test.clock.advance(by: .milliseconds(20))
        #expect(try await task.response.source == .network)
        // The write hangs as well, and holds up no shutdown.
        try await test.clock.wake(after: .seconds(5))
        await test.cache.shutdown()
    }

    @Test("a cache makes 32 look-ups at a time; of those that wait, urgent ones come first")
    func manyLookUps() async throws {
        let tier = Turnstile()
        let test = TestCache { $0.tiers = [tier] }
        func request(_ path: String) -> DataRequest { DataRequest(url(path)).with(\.cachePolicy, .cacheOnly) }
        let slow = (0..<40).map { test.cache.slowGetData(request("\($0)")) }
        try await tier.asked.wait { $0.count == 32 }
        let urgent = test.cache.getData(request("urgent"))
        #expect(urgent.state == .waiting, "the loop has it")
        tier.first.open()
        try await tier.asked.wait { $0.count > 32 }
        #expect(tier.asked.value[32...] == [CacheKey(url("urgent")).digest])
        tier.others.open()
        for task in slow + [urgent] { #expect(await task.error == .notCached) }
        #expect(tier.asked.value.count == 41)
    }

    @Test("records of tiers are decoded on threads that may be kept busy, not on Swift's own")
    func decoding() async throws {
        let isTask = Box<[Bool]>([])
        func cache() -> TestCache {
            TestCache {
                $0.tiers = [shelf]
                $0.recordCodec = WatchedCodec(
                    onRead: { withUnsafeCurrentTask { task in isTask.update { $0.append(task != nil) } } })
            }
        }
        let writer = cache()
        writer.transport.script(a, [answer("here")])
        _ = try await writer.cache.getData(a).value
        await writer.cache.synchronize()
        let reader = cache()
        #expect(try await reader.cache.getData(a).response.source == .shared)
        #expect(isTask.value == [false])
    }

    @Test("faults of a tier reach nobody: each call gets the right bytes")
    func faults() async throws {
        let dice = Box(SeededRandom(7))
        let shelf = Shelf {
            let moods = [Shelf.Mood.works, .works, .works, .fails, .garbles]
            return moods[dice.update { $0.below(moods.count) }]
        }
        for round in 0..<3 {
            let test = cache(shelf)
            for number in 0..<100 { test.transport.script(url("\(number)"), [answer("body \(number)")]) }
            for number in 0..<100 {
                #expect(try await test.cache.getData(url("\(number)")).value == Data("body \(number)".utf8))
                // Ends a rest.
                test.clock.advance(by: .seconds(61))
            }
            #expect(round == 0 || test.cache.statistics.sharedHits > 0)
            await test.cache.shutdown()
        }
    }

    @Test("a tier that fails three times rests for a second; each failure then doubles the rest, up to a minute")
    func rest() async throws {
        let mood = Box(Shelf.Mood.fails)
        let shelf = Shelf { mood.value }
        let test = cache(shelf)
        var number = 0
        func isAsked() async throws -> Bool {
            let before = shelf.lookUps.value
            number += 1
            test.transport.script(url("\(number)"), [answer("x", ["Cache-Control": "private"])])
            _ = try await test.cache.getData(url("\(number)")).value
            return shelf.lookUps.value > before
        }
        for _ in 0..<3 { #expect(try await isAsked()) }
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            test.clock.advance(by: .seconds(seconds) - .milliseconds(1))
            #expect(try await !isAsked(), "before \(seconds) seconds are over")
            test.clock.advance(by: .milliseconds(1))
            #expect(try await isAsked(), "after \(seconds) seconds")
        }
        test.clock.advance(by: .seconds(60))
        mood.update { $0 = .works }
        for _ in 0..<3 { #expect(try await isAsked()) }
        mood.update { $0 = .fails }
        for _ in 0..<3 { #expect(try await isAsked(), "a success forgives everything") }
        #expect(try await !isAsked())
    }

    @Test(
        "a small record that would become a larger body than tiers are given counts as absent",
        arguments: [.gzip, .zstd] as [StorageCompression], [(0, .shared), (1, .network)] as [(Int, ResponseSource)])
    func inflated(compression: StorageCompression, body: (excess: Int, source: ResponseSource)) async throws {
        try await fill(shelf, DataRequest(a), answer("small"))
        let last = Box(Data())
        let writer = TestCache(folder: TemporaryFolder()) {
            $0.compression = compression
            $0.recordCodec = WatchedCodec(onWrite: { record in last.update { $0 = record } })
        }
        let fields: HTTPHeaders = ["Cache-Control": "max-age=500"]
        let large = Data(count: (8 << 20) + body.excess)
        writer.transport.script(a, [.response(TransferResponse(headers: fields, body: large))])
        _ = try await writer.cache.getData(DataRequest(a).with(\.waitsForDiskWrite, true)).value
        shelf.records.update { $0 = $0.mapValues { _ in last.value } }
        let test = cache(shelf)
        test.transport.script(a, [answer("net")])
        #expect(try await test.cache.getData(a).response.source == body.source)
    }

    @Test("a removal removes the record, and what was cleared is not used again")
    func removal() async throws {
        try await fill(shelf, DataRequest(a), answer("old"))
        let test = cache(shelf)
        test.cache.removeData(for: a, from: [.memory, .disk])
        await test.cache.synchronize()
        #expect(shelf.records.value.count == 1)
        test.cache.removeData(for: a, from: .shared)
        await test.cache.synchronize()
        #expect(shelf.records.value.isEmpty)
        try await fill(shelf, DataRequest(a), answer("old"))
        test.cache.clear()
        test.transport.script(a, [answer("new")])
        #expect(try await test.cache.getData(a).response.source == .network)
        await test.cache.synchronize()
        #expect(shelf.records.value.count == 1)
    }

    @Test("however many keys are removed, the records of others are found")
    func manyRemovals() async throws {
        try await fill(shelf, DataRequest(a), answer("here"))
        let test = cache(shelf)
        for number in 0..<16_400 { test.cache.removeData(for: url("\(number)")) }
        #expect(try await test.cache.getData(a).response.source == .shared)
    }

    @Test("an answer to who shows a certificate is for a tier only if the server says that it is for all")
    func certificate() async throws {
        let secure = try #require(URL(string: "https://host.test/a"))
        for (directives, count) in [("max-age=500", 0), ("max-age=500, public", 1)] {
            let test = TestCache {
                $0.tiers = [shelf]
                $0.answerTLSChallenge = { _ in TLSAnswer(clientCertificate: Data("certificate".utf8)) }
            }
            test.transport.script(secure, [.text("mine", ["Cache-Control": directives])])
            #expect(try await test.ask(secure) == "mine from network")
            await test.cache.synchronize()
            #expect(shelf.records.value.count == count, "\(directives)")
        }
    }

    @Test("what a redirect says about shared caches alone limits what tiers get of a private cache")
    func redirects() async throws {
        for (directives, count) in [("max-age=500, s-maxage=1", 0), ("max-age=500", 1)] {
            let test = cache(shelf)
            test.transport.script(a, [.redirect("/b", ["Cache-Control": directives])])
            test.transport.script(url("b"), [answer("here")])
            #expect(try await test.ask(a) == "here from network")
            await test.cache.synchronize()
            #expect(shelf.records.value.count == count, "\(directives)")
        }
    }

    @Test("a tier may forget an entry a week after it has become stale")
    func expiration() async throws {
        let test = cache(shelf)
        test.transport.script(a, [answer("here")])
        #expect(try await test.ask(a) == "here from network")
        await test.cache.synchronize()
        let expected = test.date.now.addingTimeInterval(500 + 7 * 86_400)
        #expect(shelf.expirations.value.values.compactMap(\.self) == [expected])
    }

    @Test("a tier gets nothing that is for one user alone, and nothing that the program adds")
    func personal() async throws {
        let request = DataRequest(a)
        let modifier = RequestModifier(identity: "me") { (request) async throws(DipperError) in request }
        let cases: [(DataRequest, HTTPHeaders)] = [
            (request.with(\.headers, ["Authorization": "Bearer x"]), [:]),
            (request.with(\.headers, ["Cookie": "id=1"]), [:]), (request, ["Set-Cookie": "id=1"]),
            (request, ["Cache-Control": "private"]), (request.with(\.modifier, modifier), [:]),
        ]
        for (request, fields) in cases {
            try await fill(shelf, request, answer("mine", fields))
            #expect(shelf.records.value.isEmpty, "\(request.headers) \(fields)")
        }
        let cache = cache(shelf).cache
        try cache.addData(Data("mine".utf8), for: request)
        await cache.synchronize()
        #expect(shelf.records.value.isEmpty)
    }

    @Test(
        "a tier gets only what a shared cache may keep, whatever the policy of the cache",
        arguments: [.http(), .immutable(), .shared()] as [FreshnessPolicy],
        [
            (["Cache-Control": "no-store"], [:]), (["Cache-Control": "private, max-age=60"], [:]),
            (["Vary": "*"], [:]), (["CDN-Cache-Control": "private"], [:]), (["Set-Cookie": "id=1"], [:]),
            ([:], ["Cache-Control": "private"]), ([:], ["Cache-Control": "no-store"]), ([:], ["Set-Cookie": "id=1"]),
        ] as [(HTTPHeaders, HTTPHeaders)])
    func policies(policy: FreshnessPolicy, fields: (answer: HTTPHeaders, redirect: HTTPHeaders)) async throws {
        let test = TestCache {
            $0.tiers = [shelf]
            $0.freshness = policy
        }
        test.transport.script(a, [.redirect("/b", fields.redirect)])
        test.transport.script(url("b"), [.text("here", fields.answer)])
        test.transport.script(url("c"), [.redirect("/d")])
        test.transport.script(url("d"), [.text("here")])
        for (target, count) in [(a, 0), (url("c"), 1)] {
            #expect(try await test.ask(target) == "here from network")
            await test.cache.synchronize()
            #expect(shelf.records.value.count == count, "\(target)")
        }
    }

    @Test("a redirect handler that sends a cookie makes the answer one for its user")
    func cookieOfHandler() async throws {
        let test = cache(shelf)
        test.transport.script(url("b"), [.redirect("/a")])
        test.transport.script(a, [answer("mine")])
        let handler = RedirectHandler.changing { $0.headers["Cookie"] = "id=1" }
        #expect(try await test.ask(DataRequest(url("b")).with(\.redirectHandler, handler)) == "mine from network")
        await test.cache.synchronize()
        #expect(shelf.records.value.isEmpty)
    }

    @Test(
        "a confirmed entry goes to a tier only if it did when it came, also after a restart", arguments: [true, false])
    func confirmed(isPersonal: Bool) async throws {
        let folder = TemporaryFolder()
        let fields: HTTPHeaders = ["ETag": "\"1\""]
        for run in 0..<2 {
            let test = cache(shelf, folder: folder)
            let first = run == 0 && isPersonal ? fields.adding("Set-Cookie", "id=1") : fields
            test.transport.script(a, run == 0 ? [answer("here", first)] : [.status(304, fields)])
            if run == 1 { test.date.advance(by: 501) }
            #expect(try await test.ask(a) == "here from \(run == 0 ? "network" : "revalidated")")
            await test.cache.synchronize()
            #expect(shelf.records.value.count == (isPersonal ? 0 : 1))
            shelf.records.update { $0 = [:] }
            await test.cache.shutdown()
        }
    }

    @Test("a record is fresh for no longer than s-maxage says, and has no field that private names")
    func sharedRules() async throws {
        let rules: HTTPHeaders = ["Cache-Control": "s-maxage=100, private=\"X-User\"", "X-User": "ada"]
        let writer = cache(shelf)
        writer.transport.script(a, [answer("here", rules)])
        #expect(try await writer.cache.getData(a).response.headers["X-User"] == "ada")
        #expect(try await writer.cache.getData(a).response.headers["X-User"] == "ada", "its own user's")
        await writer.cache.synchronize()
        for (age, source) in [(99, "shared"), (101, "network")] as [(TimeInterval, String)] {
            let test = cache(shelf)
            test.transport.script(a, [answer("here")])
            test.date.advance(by: age)
            let response = try await test.cache.getData(a).response
            #expect(response.told == "here from \(source)" && response.headers["X-User"] == nil)
            await test.cache.shutdown()
        }
    }

    @Test("records are encoded by the cache's codec; a cache without it asks the network")
    func encoded() async throws {
        func source(_ codec: AESCodec?) async throws -> ResponseSource {
            let test = TestCache {
                $0.tiers = [shelf]
                $0.recordCodec = codec
            }
            test.transport.script(a, [answer("a secret that is long enough to find")])
            let response = try await test.cache.getData(a).response
            #expect(response.data == Data("a secret that is long enough to find".utf8))
            await test.cache.synchronize()
            await test.cache.shutdown()
            return response.source
        }
        #expect(try await source(AESCodec(1)) == .network)
        let record = try #require(shelf.records.value.values.first)
        #expect(record.range(of: Data("a secret".utf8)) == nil)
        #expect(try await source(AESCodec(1)) == .shared)
        #expect(try await source(nil) == .network)
        #expect(try await source(nil) == .shared)
    }
}

/// A tier that has nothing. Of its look-ups, the first one waits for a gate of its own.
private final class Turnstile: Tier {
    let name = "turnstile"
    let asked = Box<[String]>([])
    let (first, others) = (Gate(), Gate())

    func record(named name: String) async -> Data? {
        let number = asked.update { asked in
            asked.append(name)
            return asked.count
        }
        await (number == 1 ? first : others).pass()
        return nil
    }

    func store(_ record: Data, named name: String, until expiration: Date?) {}
    func removeRecord(named name: String) {}
}
