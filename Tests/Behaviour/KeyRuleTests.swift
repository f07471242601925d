import TestSupport
import Testing

@Suite("Rules leave signatures out of keys", .timeLimit(.minutes(2)))
struct KeyRuleTests {
    private let test = TestCache(folder: TemporaryFolder()) { $0.keyRule = .signatures }
    private let first = Self.signed("1")
    private let second = Self.signed("2")

    private static func signed(_ signature: String, _ path: String = "a", more: String = "w=1") -> URL {
        url("\(path)?X-Amz-Signature=\(signature)&\(more)&X-Amz-Date=2\(signature)&X%2DAmz-Expires=60")
    }

    private func key(_ query: String, _ rule: KeyRule = .signatures) -> CacheKey {
        DataRequest(url("a?" + query)).with(\.keyRule, rule).cacheKey
    }

    @Test(
        "those of the common signers are known, and parameters of their names count in other URLs",
        arguments: [
            "X-Amz-Algorithm=A&X-Amz-Credential=C&X-Amz-Date=D&X-Amz-Expires=1&X-Amz-Signature=S",
            "AWSAccessKeyId=A&Signature=S&Expires=1", "GoogleAccessId=A&Expires=1&Signature=S",
            "X-Goog-Algorithm=A&X-Goog-Credential=C&X-Goog-Signature=S",
            "sv=2024-11-04&st=1&se=2&sr=b&sp=r&sip=1.2.3.4&spr=https&sig=S",
            "Expires=1&Signature=S&Key-Pair-Id=K", "Policy=P&Signature=S&Key-Pair-Id=K",
        ])
    func signers(query: String) {
        #expect(key(query) == CacheKey(url("a")))
        #expect(key("w=2&\(query)&h=1#top") == CacheKey(url("a?h=1&w=2")))
        #expect(key(query + "x", .leavingOut()) != key(query, .leavingOut()))
        for unsigned in ["Expires=1", "se=1&sp=2", "sig=1", "Signature=1", "Policy=1", "token=1"] {
            #expect(key(unsigned) == CacheKey(url("a?" + unsigned)))
        }
    }

    @Test("others may be named; what is kept is sorted by name, and its spelling and the order of one name stay")
    func names() {
        let rule = KeyRule.signatures.leavingOut("token", "session-*", "na me")
        for query in ["b=%2f%20&a=2&a=1&token=x", "a=2&session-id=3&b=%2f%20&a=1", "na%20me=1&a=2&a=1&b=%2f%20"] {
            #expect(key(query, rule).string == CacheKey(url("a?a=2&a=1&b=%2f%20")).string)
        }
        #expect(key("a=1&a=2&b", rule) != key("a=2&a=1&b", rule))
        #expect(key("tokens=1", rule) != key("", rule) && key("Token=1", rule) != key("", rule))
        #expect(key("token=1", rule).string == CacheKey(url("a")).string)
        #expect(DataRequest(url("a?b=1&a=2")).cacheKey != DataRequest(url("a?a=2&b=1")).cacheKey)
    }

    @Test("one entry is fetched, found, revalidated and removed by any signature; nothing kept or told names one")
    func entry() async throws {
        let sink = EventRecord()
        let test = TestCache(folder: TemporaryFolder(), sink: sink) { $0.keyRule = .signatures }
        test.transport.script(first, [.text("1", ["ETag": "\"v\"", "Cache-Control": "max-age=10"])])
        test.transport.script(second, [.status(304)])
        #expect(try await test.ask(first) == "1 from network")
        #expect(try await test.ask(second) == "1 from memory")
        #expect(test.cache.readData(for: second) == Data("1".utf8) && test.cache.hasData(for: second))
        #expect(test.cache.dataInMemory(for: second) != nil)
        await test.cache.idle()
        var kept: [CachedEntry] = []
        test.cache.forEachEntry { kept.append($0) }
        #expect(kept.map(\.url) == ["http://host.test/a?w=1"] && kept.map(\.key.string) == kept.map(\.url))
        test.date.advance(by: 20)
        #expect(try await test.ask(second) == "1 from revalidated")
        #expect(test.requests(second).first?["If-None-Match"] == "\"v\"", "the server gets the whole URL")
        let fields = DataRequest(first).with(\.headers, ["Accept": "image/png"])
        test.transport.script(first, [.text("2")])
        #expect(try await test.ask(fields) == "2 from network")
        test.cache.removeData(for: second)
        #expect(!test.cache.hasData(for: first) && !test.cache.hasData(for: fields))
        await test.cache.idle()
        #expect(!sink.events.contains { "\($0)".contains("Amz") })
    }

    @Test("a call is cancelled and moved by any signature")
    func calls() async throws {
        let (task, transfer) = try await test.begin(first)
        test.cache.moveTaskToSlowQueue(second)
        try await transfer.wait { $0.queue == .slow }
        test.cache.cancel(second)
        #expect(await task.error == .cancelled)
    }

    @Test("the next attempt has the URL of the latest call, and no failure ends a call before that is tried")
    func latest() async throws {
        let (older, expired) = try await test.begin(first)
        let newer = test.cache.getData(second)
        let failures = older.failures()
        _ = test.cache.queueCounts
        expired.finish(with: Data(), status: 403)
        let busy = try await test.transport.nextTransfer()
        #expect(busy.request.url == second)
        let third = Self.signed("3")
        let newest = test.cache.getData(third)
        _ = test.cache.queueCounts
        busy.finish(with: Data(), status: 503)
        let last = try await test.whileClockRuns { try await test.transport.nextTransfer() }
        #expect(last.request.url == third)
        last.finish(with: Data("1".utf8))
        for task in [older, newer, newest] { #expect(try await task.value == Data("1".utf8)) }
        try await test.cache.waitForHooks()
        #expect(failures.value == ["status 403", "status 503"])
        let (alone, refused) = try await test.begin(Self.signed("1", "b"))
        let same = test.cache.getData(Self.signed("1", "b"))
        _ = test.cache.queueCounts
        refused.finish(with: Data(), status: 403)
        for task in [alone, same] { #expect(await task.error?.status == 403) }
        #expect(test.transport.transfers.count == 4)
    }

    @Test("the failure of one signature is not remembered for another")
    func failures() async throws {
        let test = TestCache(folder: TemporaryFolder()) { $0.keyRule = .signatures }
        test.transport.script(first, [.status(404)])
        test.transport.script(second, [.text("1")])
        #expect(await test.cache.getData(first).error?.status == 404)
        #expect(try await test.ask(second) == "1 from network")
        let plain = url("b?w=1")
        test.transport.script(plain, [.status(404)])
        #expect(await test.cache.getData(plain).error?.status == 404)
        #expect(await test.cache.getData(plain).error?.isRemembered == true)
    }

    @Test("an interrupted body is continued with another signature")
    func partial() async throws {
        try await test.leave(Parts.beginning(50), of: first)
        #expect(try await test.nextFields(of: second)["Range"] == "bytes=50-")
    }

    @Test("where a redirect leads is as it is: a signature there counts")
    func redirect() async throws {
        test.transport.script(url("b"), [.redirect(first.absoluteString)])
        test.transport.script(first, [.text("1", ["ETag": "\"v\"", "Cache-Control": "max-age=10"])])
        #expect(try await test.ask(url("b")) == "1 from network")
        test.date.advance(by: 20)
        test.transport.script(url("b"), [.redirect(second.absoluteString)])
        test.transport.script(second, [.text("2")])
        #expect(try await test.ask(url("b")) == "2 from network")
        #expect(test.requests(second).first?["If-None-Match"] == nil)
    }

    @Test("pictures, values and prefetchers have one entry for all signatures")
    func others() async throws {
        let test = TestImageCache(folder: TemporaryFolder()) { $0.data.keyRule = .signatures }
        try test.script(first, .sample())
        _ = try await test.cache.getImage(first).value
        #expect(try await test.source(second) == .memory && test.cache.hasImage(for: second))
        let prefetcher = ImagePrefetcher(test.cache, urls: [second])
        #expect(await prefetcher.value.skipped.count == 1)
        test.cache.removeImage(for: second)
        #expect(!test.cache.hasImage(for: first))
        let feed = Self.signed("1", "feed")
        test.transport.script(feed, [.body(Feed.sample.bytes)])
        #expect(try await test.cache.data.getValue(Feed.self, from: feed).value == .sample)
        let again = try await test.cache.data.getValue(Feed.self, from: Self.signed("2", "feed")).response
        #expect(again.source == .memory && again.value == .sample)
    }
}
