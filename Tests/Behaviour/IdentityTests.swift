import TestSupport
import Testing

@Suite("Two identities never share bytes, and keys hold no secrets", .timeLimit(.minutes(2)))
struct IdentityTests {
    private let test = TestCache(folder: TemporaryFolder())
    private let a = url("a")

    enum Hook: String, CaseIterable { case credentials, modifier, ownKey, fixedCredentials, headers }

    private func request(_ hook: Hook, _ identity: String) -> DataRequest {
        let token = "token of \(identity)"
        let byCredentials = DataRequest(a).with(\.credentials, .provider(identity: identity) { _ in token })
        return switch hook {
        case .credentials: byCredentials
        case .ownKey: byCredentials.with(\.key, "mine")
        case .headers: DataRequest(a).with(\.headers, ["Authorization": token])
        case .fixedCredentials: DataRequest(a).with(\.credentials, .bearer(identity))
        case .modifier:
            DataRequest(a).with(\.modifier, .changing(identity: identity) { $0.headers["Authorization"] = token })
        }
    }

    @Test("two identities share no fetch, and what was kept for one is found by it alone", arguments: Hook.allCases)
    func apart(hook: Hook) async throws {
        let tasks = ["one", "one", "other"].map { test.cache.getData(request(hook, $0)) }
        for _ in 0..<2 {
            let transfer = try await test.transport.nextTransfer()
            transfer.finish(with: Data((transfer.request.headers["Authorization"] ?? "").utf8))
        }
        for (task, identity) in zip(tasks, ["one", "one", "other"]) {
            #expect(try await String(decoding: task.value, as: UTF8.self).hasSuffix(identity))
        }
        #expect(test.transport.transfers.count == 2)
        test.cache.removeData(for: request(hook, "other"))
        let next = await test.reopened()
        #expect(next.cache.cachedSource(for: request(hook, "one")) == .disk)
        #expect(next.cache.readData(for: a) == nil && next.cache.readData(for: "mine") == nil)
        next.transport.script(a, [.text("anew")])
        #expect(try await next.ask(request(hook, "other")) == "anew from network")
        #expect(try await next.ask(request(hook, "one")).hasSuffix("one from disk"))
    }

    @Test(
        "a hook without an identity shares with its copies alone, and leaves nothing on disk", arguments: [true, false])
    func undeclared(isModifier: Bool) async throws {
        test.transport.script(a, [.text("1"), .text("2"), .text("3")])
        func make() -> DataRequest {
            isModifier
                ? DataRequest(a).with(\.modifier, RequestModifier { $0 })
                : DataRequest(a).with(\.credentials, .provider { _ in "x" })
        }
        let first = make()
        #expect(try await test.ask(first.with(\.waitsForDiskWrite, true)) == "1 from network")
        #expect(try await test.ask(first.with(\.priority, .high)) == "1 from memory")
        #expect(try await test.ask(make()) == "2 from network")
        _ = try await test.cache.getRemoteData(make().with(\.waitsForDiskWrite, true)).value
        await test.cache.idle()
        #expect(test.cache.diskCount == 0)
    }

    // MARK: Keys

    @Test("a key that has the identity already is the key; directives of a request are no part of it")
    func keys() {
        let request = request(.credentials, "one")
        let key = request.cacheKey
        #expect(request.with(\.key, key).cacheKey == key)
        #expect(self.request(.credentials, "other").with(\.key, key).cacheKey != key)
        #expect(DataRequest(string: "").with(\.credentials, .bearer("x")).cacheKey.isEmpty)
        let plain = DataRequest(a)
        let accept = plain.with(\.headers, ["Accept": "x"])
        #expect(plain.with(\.headers, ["Cache-Control": "no-cache", "PRAGMA": "no-cache"]).cacheKey == plain.cacheKey)
        #expect(accept.cacheKey != plain.cacheKey)
        #expect(plain.with(\.headers, ["Accept": "x", "cache-control": "max-age=0"]).cacheKey == accept.cacheKey)
    }

    @Test("no choice of fields, and no user of a URL, can be mistaken for another")
    func choices() {
        let choices: [HTTPHeaders] = [
            ["A": "1", "B": "2"], ["A": "1,B=2"], ["A,B": "12"], ["A": "11:b1:2"], ["A": "1"], ["A": "1", "B": ""], [:],
            ["A": "2", "B": "1"], ["#A": "1"],
        ]
        #expect(Set(choices.map { CacheKey(a, headers: $0) }).count == choices.count)
        #expect(CacheKey(a, headers: ["b": "2", "A": "1"]) == CacheKey(a, headers: ["a": "1", "B": "2"]))
        func key(_ text: String) -> CacheKey { CacheKey(URL(string: text)!) }
        let users = ["http://h/a", "http://u@h/a", "http://u:1@h/a", "http://u:2@h/a", "http://h/@a", "http://h?@a"]
        #expect(Set(users.map(key)).count == users.count)
        #expect(key("http://u@h/a#x") == key("http://u@h/a") && key("http://h/@a#x").string == "http://h/@a")
    }

    @Test("values of fields, identities and the user of a URL are not in keys, nor do they reach the disk")
    func nothingInClear() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        let secret = URL(string: "http://name:pass@host.test/a?size=2#top")!
        let large = Data(repeating: 7, count: 100_000)
        let secrets = ["pass", "s3cret", "identity-of-mine", "c00kie"]
        let request = DataRequest(secret).with(\.headers, ["Authorization": "s3cret", "Accept": "text/c00kie"])
            .with(\.credentials, .provider(identity: "identity-of-mine") { _ in nil })
        let key = request.cacheKey
        #expect(key.string.hasPrefix("http://host.test/a?size=2\n") && key.string.contains("accept,authorization"))
        for secret in secrets { #expect(!key.string.contains(secret)) }
        let fields: HTTPHeaders = ["Vary": "Authorization, Accept", "ETag": "\"1\""]
        test.transport.script(
            secret, [.response(TransferResponse(headers: fields, body: large)), .text("small", fields)])
        _ = try await test.ask(request)
        _ = try await test.ask(request, ["Authorization": "s3cret"])
        try await test.cache.addDataAndWait(large, for: request.with(\.key, "mine"))
        #expect(test.cache.diskCount >= 3)
        await test.cache.shutdown()
        #expect(try folder.finding(secrets) == [])
    }

    // MARK: Keys of the caller's own

    private static let origin = "http://host.test/a.jpg"
    /// Keys like those that a cache could use itself for what it makes of an entry.
    private static let tricky = [
        "\n#", "\n\\#", "\n\\\\#", "\\\n#", "\n\n#", "\n\\\n#", "\n#\n#", "\n\\#\n#", "\n#\n\\#", "\n", "#", "\n\\",
        "\n #", "\r\n#", "\n#é", "\n\\é#", "\n1:a1:b", "",
    ].map { origin + $0 }

    @Test("a key is its text, unless that has a line break before a number sign, and no two texts are one key")
    func text() {
        for text in ["a", "a#b", "a\nb#", "a #", "a\n\\b#", "", "\n", "é\n"] { #expect(CacheKey(text).string == text) }
        let literal: CacheKey = "a\n#b"
        #expect(literal == CacheKey("a\n#b"))
        #expect(Set(Self.tricky.map { CacheKey($0) }).count == Self.tricky.count)
        #expect(Set(Self.tricky.map { CacheKey($0).digest }).count == Self.tricky.count)
    }

    @Test("an entry with any text as its key is listed, found in the next run, and does not go with another entry")
    func entries() async throws {
        let keys = Self.tricky.map { CacheKey($0) }
        for key in keys { try test.cache.addData(Data(key.string.utf8), for: key) }
        test.cache.removeData(for: CacheKey(Self.origin))
        let next = await test.reopened()
        let others = keys.filter { $0 != CacheKey(Self.origin) }
        for key in others { #expect(next.cache.readData(for: key) == Data(key.string.utf8), "\(key)") }
        #expect(next.cache.listedKeys == Set(others.map(\.string)))
    }
}
