import DipperRedis
import TestSupport
import Testing

@Suite(
    "A tier on Redis", .timeLimit(.minutes(2)),
    .enabled(if: RedisProcess.isInstalled, "redis-server is not installed (package redis-server)"))
struct RedisTierTests {
    /// The date of the server, which drops what has expired.
    private let date = ManualDate(Date())

    @Test(
        "stores records, finds them for other tiers, and removes them, by TCP and by a Unix-domain socket",
        arguments: [true, false])
    func round(isTCP: Bool) async throws {
        let port = try RedisProcess.freePort()
        let server = try await RedisProcess(["--port", isTCP ? "\(port)" : "0"])
        let url = isTCP ? "redis://localhost:\(port)" : server.url
        let (mine, other) = (try patient(url), try patient(url))
        #expect(try await mine.record(named: name(1)) == nil)
        try await mine.store(Data("first".utf8), named: name(1), until: nil)
        try await mine.store(Data("second".utf8), named: name(1), until: nil)
        #expect(try await other.record(named: name(1)) == Data("second".utf8))
        #expect(try server.keys == ["dipper:\(name(1))"])
        try await other.removeRecord(named: name(1))
        #expect(try await mine.record(named: name(1)) == nil)
        #expect(try server.keys == [])
    }

    @Test("the server drops a record when it expires, and gets none that has expired")
    func expiry() async throws {
        let server = try await RedisProcess()
        let tier = try patient(server.url)
        try await tier.store(Data("a".utf8), named: name(1), until: Date(timeIntervalSinceNow: 100))
        try await tier.store(Data("b".utf8), named: name(2), until: Date(timeIntervalSinceNow: -1))
        try await tier.store(Data("c".utf8), named: name(3), until: .distantFuture)
        try await tier.store(Data("d".utf8), named: name(4), until: nil)
        let left = try (1...4).map { try Int(server.ask("PTTL", "dipper:\(name($0))")) ?? 0 }
        #expect((90_000...100_000).contains(left[0]))
        #expect(left[1] == -2, "there is no such key")
        #expect(left[2] > 300_000_000_000)
        #expect(left[3] == -1, "it does not expire")
    }

    @Test("keys begin with the prefix of the URL, so that caches with another prefix find nothing")
    func prefix() async throws {
        let server = try await RedisProcess()
        let (a, b) = (try patient(server.url + "?prefix=a%20b"), try patient(server.url))
        try await a.store(Data("a".utf8), named: name(1), until: nil)
        #expect(try await b.record(named: name(1)) == nil)
        #expect(try server.keys == ["a b:\(name(1))"])
    }

    @Test(
        "a thousand look-ups at once go over one connection, and each gets the bytes of its own name, whatever their size"
    )
    func pipelining() async throws {
        let server = try await RedisProcess()
        let tier = try patient(server.url)
        // About the size from which a value is read in another way, and the largest.
        let sizes = [1, 100, 20_000, 65_535, 65_536, 65_537, 200_000, 3_000_000, 8 << 20]
        let records = sizes.enumerated().map { bytes($1, $0) }
        for (number, record) in records.enumerated() {
            try await tier.store(record, named: name(number), until: nil)
        }
        let wrong = try await withThrowingTaskGroup(of: Bool.self) { group in
            for number in 0..<1_000 {
                // The largest now and then, and names that are not there.
                let place = number % 50 == 0 ? number / 50 % records.count : number % 7
                let expected = place == 6 ? nil : records[place]
                group.addTask { try await tier.record(named: name(place == 6 ? -1 - number : place)) != expected }
            }
            return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(wrong == 0)
        let clients = try server.ask("CLIENT", "LIST").split(separator: "\n").filter { $0.contains("name=dipper ") }
        #expect(clients.count == 1)
    }

    @Test("a record of more than 8 MB is not stored, and a larger value is refused without being read")
    func tooLarge() async throws {
        let server = try await RedisProcess()
        let tier = try patient(server.url)
        try await tier.store(Data(count: 8 << 20 + 1), named: name(1), until: nil)
        #expect(try server.keys == [])
        try server.ask("SETRANGE", "dipper:\(name(1))", "50000000", "x")
        #expect(await tier.error(of: name(1)) == .tooLarge)
        await tier.reconnected()
        #expect(try await tier.record(named: name(2)) == nil)
    }

    @Test("long records that are read over and over take no more memory")
    func manyLongHits() async throws {
        let server = try await RedisProcess()
        let tier = try patient(server.url)
        try await tier.store(bytes(80_000), named: name(1), until: nil)
        let before = residentBytes()
        for _ in 0..<6_000 { _ = try await tier.record(named: name(1)) }
        // Each would have left 64 KB.
        #expect(residentBytes() - before < 200 << 20)
    }

    private func residentBytes() -> Int {
        let pages = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8))?.split(separator: " ")
        return (pages.flatMap { Int($0[1]) } ?? 0) * 4_096
    }

    @Test("a value of another kind, and one that is no record, are misses of a cache")
    func strangers() async throws {
        let server = try await RedisProcess()
        let tier = try patient(server.url)
        let test = TestCache { $0.tiers = [tier] }
        for (path, words) in [("a", ["LPUSH", "1"]), ("b", ["SET", "garbage"]), ("c", ["SET", ""])] {
            try server.ask(words[0], "dipper:\(CacheKey(url(path).absoluteString).digest)", words[1])
            test.transport.script(url(path), [.body(Data("net".utf8))])
            let response = try await test.cache.getData(url(path)).response
            #expect(response.source == .network && response.data == Data("net".utf8), "\(words)")
        }
    }

    @Test("what one cache has fetched answers a cache on another machine")
    func caches() async throws {
        let server = try await RedisProcess()
        let (first, second) = (try patient(server.url), try patient(server.url))
        let a = TestCache(date: date) { $0.tiers = [first] }
        a.transport.script(url("a"), [.body(Data("here".utf8))])
        _ = try await a.cache.getData(url("a")).value
        await a.cache.synchronize()
        let b = TestCache(date: date) { ($0.tiers, $0.tierTimeLimit) = ([second], .seconds(20)) }
        let response = try await b.cache.getData(url("a")).response
        #expect(response.source == .shared && response.data == Data("here".utf8))
        #expect(b.transport.transfers.isEmpty)
    }

    @Test("a thumbnail that one machine has made answers another, which fetches and decodes no original")
    func pictures() async throws {
        let server = try await RedisProcess()
        func machine() throws -> TestImageCache {
            let tier = try patient(server.url)
            return TestImageCache(folder: TemporaryFolder(), date: date) { $0.data.tiers = [tier] }
        }
        let (first, second) = (try machine(), try machine())
        let thumbnail = ImageRequest(url("a.png")).processed(by: .resize(width: 40))
        let photograph = try Image.sample(400, 200).encoded(as: .png)
        first.transport.script(url("a.png"), [.body(photograph)])
        let made = try await first.cache.getImage(thumbnail).value
        await first.cache.synchronize()
        #expect(try server.keys.count == 2, "the original and the thumbnail")
        let found = try await second.cache.getImage(thumbnail).response
        #expect(found.source == .shared && found.image.pixels == made.pixels)
        #expect(second.transport.transfers.isEmpty)
    }

    @Test(
        "the names of servers are those of their URLs, without passwords; what is no URL of a server is refused unquoted"
    )
    func addresses() throws {
        let names = [
            "redis://host": "host:6379", "redis://HOST:1/pictures": "host:1",
            "rediss://u:battery%40staple@[::1]:7": "[::1]:7", "redis://:battery@staple@host/": "host:6379",
            "unix:///run/redis.sock?prefix=x": "/run/redis.sock", "unix://u:battery@/run/redis.sock": "/run/redis.sock",
        ]
        for (url, name) in names {
            let tier = try RedisTier(url)
            #expect(tier.name == "redis \(name)")
            var text = ""
            dump(tier, to: &text)
            #expect(text.contains(name) && !text.contains("battery") && !text.contains("staple"))
        }
        let wrong = [
            "host", "http://secret", "redis://", "redis://u@secret", "redis://secret:0", "redis://secret:99999",
            "redis://secret::1", "unix://secret/x", "unix:///", "redis://secret?db=1",
            "unix:///secret" + String(repeating: "x", count: 108), "redis://%zz:secret@host",
        ]
        for url in wrong {
            let error = #expect(throws: DipperError.self) { try RedisTier(url) }
            #expect(error == .invalidURL || error == .unsupportedScheme, "\(url)")
            #expect(!"\(error as Any)".contains("secret"))
        }
        #expect(throws: DipperError.invalidURL) { try RedisTier([]) }
    }
}
