import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("Two identities never share bytes", .timeLimit(.minutes(5)))
struct IdentityTests {
    private let a = url("a")

    enum Hook: String, CaseIterable { case credentials, modifier, ownKey, fixedCredentials }

    private func request(_ hook: Hook, _ identity: String) -> DataRequest {
        let token = "token of \(identity)"
        let credentials = Credentials.provider(identity: identity) { _ in token }
        switch hook {
        case .credentials: return DataRequest(a).with(\.credentials, credentials)
        case .ownKey: return DataRequest(a).with(\.key, "mine").with(\.credentials, credentials)
        case .fixedCredentials: return DataRequest(a).with(\.credentials, .bearer(identity))
        case .modifier:
            let modifier = RequestModifier(identity: identity) { request in
                var request = request
                request.headers["Authorization"] = token
                return request
            }
            return DataRequest(a).with(\.modifier, modifier)
        }
    }

    @Test("calls of two identities are not joined, and each is sent its own", arguments: Hook.allCases)
    func inFlight(hook: Hook) async throws {
        let test = TestCache()
        let one = test.cache.getData(request(hook, "one"))
        let again = test.cache.getData(request(hook, "one"))
        let other = test.cache.getData(request(hook, "other"))
        for _ in 0..<2 {
            let transfer = try await test.transport.nextTransfer()
            transfer.finish(with: Data((transfer.request.headers["Authorization"] ?? "").utf8))
        }
        let texts = try await [one, again, other].asyncMap { String(decoding: try await $0.value, as: UTF8.self) }
        #expect(texts[0] == texts[1] && texts[0].hasSuffix("one") && texts[2].hasSuffix("other"))
        #expect(test.transport.transfers.count == 2)
        await test.cache.shutdown()
    }

    @Test(
        "what was kept for one identity is found by it alone, in memory and in the next run", arguments: Hook.allCases)
    func kept(hook: Hook) async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        test.transport.script(a, [.text("of one")])
        _ = try await test.cache.getData(request(hook, "one").with(\.waitsForDiskWrite, true)).value
        #expect(test.cache.data(for: request(hook, "one")) == Data("of one".utf8))
        #expect(test.cache.data(for: request(hook, "other")) == nil)
        #expect(test.cache.data(for: a) == nil && test.cache.data(for: "mine") == nil)
        await test.cache.shutdown()
        let next = TestCache(folder: folder)
        next.transport.script(a, [.text("of other")])
        #expect(next.cache.cachedSource(for: request(hook, "one")) == .disk)
        #expect(try await Told(next.cache.getData(request(hook, "other")).response) == Told("of other", .network))
        #expect(try await Told(next.cache.getData(request(hook, "one")).response) == Told("of one", .disk))
        await next.cache.shutdown()
    }

    @Test(
        "a hook without an identity shares with its copies alone, and leaves nothing on disk", arguments: [true, false])
    func undeclared(isModifier: Bool) async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        test.transport.script(a, [.text("1"), .text("2")])
        func make() -> DataRequest {
            isModifier
                ? DataRequest(a).with(\.modifier, RequestModifier { $0 })
                : DataRequest(a).with(\.credentials, .provider { _ in "x" })
        }
        let first = make()
        #expect(
            try await Told(test.cache.getData(first.with(\.waitsForDiskWrite, true)).response) == Told("1", .network))
        #expect(try await Told(test.cache.getData(first.with(\.priority, .high)).response) == Told("1", .memory))
        #expect(try await Told(test.cache.getData(make()).response) == Told("2", .network))
        test.transport.script(a, [.text("3")])
        _ = try await test.cache.getRemoteData(make().with(\.waitsForDiskWrite, true)).value
        await test.cache.synchronize()
        #expect(test.cache.diskCount == 0)
        await test.cache.shutdown()
    }

    @Test("a key that has the identity already is the key: what is made of an entry and what renews it stay its own")
    func marked() {
        let request = request(.credentials, "one")
        let key = request.cacheKey
        #expect(request.with(\.key, key).cacheKey == key)
        let made = CacheKey(verbatim: key.string + "\n#4:made")
        #expect(request.with(\.key, made).cacheKey == made && made.isDerived(of: key))
        #expect(self.request(.credentials, "other").with(\.key, key).cacheKey != key)
        #expect(DataRequest(string: "").with(\.credentials, .bearer("x")).cacheKey.isEmpty)
    }

    // MARK: Vary

    @Test("an answer that varies by a field of the hook's is for requests that are sent the same")
    func varyBySent() async throws {
        let test = TestCache()
        let language = Box("de")
        let modifier = RequestModifier(identity: "me") { request in
            var request = request
            request.headers["Accept-Language"] = language.value
            return request
        }
        let request = DataRequest(a).with(\.modifier, modifier)
        let fields: HTTPHeaders = ["Vary": "Accept-Language", "Cache-Control": "max-age=100"]
        test.transport.script(a, [.text("ja", fields), .text("yes", fields)])
        #expect(try await Told(test.cache.getData(request).response) == Told("ja", .network))
        // What is sent is known once the modifier has been asked.
        #expect(try await Told(test.cache.getData(request).response) == Told("ja", .memory))
        language.update { $0 = "en" }
        #expect(try await Told(test.cache.getData(request).response) == Told("yes", .network))
        #expect(try await Told(test.cache.getData(request).response) == Told("yes", .memory))
        language.update { $0 = "de" }
        #expect(try await Told(test.cache.getData(request).response) == Told("ja", .memory))
        #expect(test.transport.transfers.count == 2)
        await test.cache.shutdown()
    }

    @Test("an answer that varies by the credentials is asked about if it was sent the same, and fetched anew if not")
    func varyByCredentials() async throws {
        let test = TestCache()
        let token = Box("Bearer 1")
        let credentials = Credentials.provider(identity: "me") { _ in token.value }
        let request = DataRequest(a).with(\.credentials, credentials)
        let fields: HTTPHeaders = ["Vary": "Authorization", "Cache-Control": "max-age=10", "ETag": "\"1\""]
        test.transport.script(a, [.text("1", fields), .status(304, fields), .text("2", fields)])
        _ = try await test.cache.getData(request).value
        test.date.advance(by: 20)
        #expect(try await Told(test.cache.getData(request).response) == Told("1", .revalidated))
        test.date.advance(by: 20)
        token.update { $0 = "Bearer 2" }
        #expect(try await Told(test.cache.getData(request).response) == Told("2", .network))
        #expect(test.requests(a).map { $0["If-None-Match"] } == [nil, "\"1\"", nil])
        await test.cache.shutdown()
    }
}

@Suite("Keys hold no secrets", .timeLimit(.minutes(5)))
struct KeySecrecyTests {
    private let a = URL(string: "http://name:pass@host.test/a?size=2#top")!

    @Test("names of fields stay readable; values, and the user in a URL, do not, nor do they reach the disk")
    func nothingInClear() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        let large = Data(repeating: 7, count: 100_000)
        let secrets = ["pass", "s3cret", "identity-of-mine", "c00kie"]
        let request = DataRequest(a).with(\.headers, ["Authorization": "s3cret", "Accept": "text/c00kie"])
            .with(\.credentials, .provider(identity: "identity-of-mine") { _ in nil })
            .with(\.waitsForDiskWrite, true)
        let key = request.cacheKey
        #expect(key.string.hasPrefix("http://host.test/a?size=2\n") && key.string.contains("2:accept,authorization="))
        for secret in secrets { #expect(!key.string.contains(secret)) }
        let fields: HTTPHeaders = ["Vary": "Authorization, Accept", "ETag": "\"1\""]
        test.transport.script(a, [.response(TransferResponse(headers: fields, body: large))])
        _ = try await test.cache.getData(request).value
        test.transport.script(a, [.text("small", fields)])
        _ = try await test.cache.getData(request.with(\.headers, ["Authorization": "s3cret"])).value
        try await test.cache.addDataAndWait(large, for: request.with(\.key, "mine"))
        await test.cache.shutdown()
        var files = 0
        let paths = FileManager.default.enumerator(at: folder.url, includingPropertiesForKeys: nil)
        while let file = paths?.nextObject() as? URL {
            guard let bytes = try? Data(contentsOf: file), !bytes.isEmpty else { continue }
            files += 1
            for secret in secrets { #expect(bytes.range(of: Data(secret.utf8)) == nil, "\(secret) in \(file)") }
        }
        #expect(files >= 2)
    }

    @Test("the user of a URL tells entries apart; an at sign elsewhere is no user")
    func users() {
        func key(_ text: String) -> CacheKey { CacheKey(URL(string: text)!) }
        let keys = ["http://h/a", "http://u@h/a", "http://u:1@h/a", "http://u:2@h/a", "http://h/@a", "http://h?@a"]
        #expect(Set(keys.map(key)).count == keys.count)
        #expect(key("http://u@h/a#x") == key("http://u@h/a") && key("http://h/@a#x").string == "http://h/@a")
        #expect(key("http://u:1@h/a").string.hasPrefix("http://h/a\n:user="))
    }

    @Test("no choice of fields can be mistaken for another")
    func fields() {
        let u = url("a")
        let choices: [HTTPHeaders] = [
            ["A": "1", "B": "2"], ["A": "1,B=2"], ["A,B": "12"], ["A": "11:b1:2"], ["A": "1"], ["A": "1", "B": ""], [:],
            ["A": "2", "B": "1"], ["#A": "1"],
        ]
        #expect(Set(choices.map { CacheKey(u, headers: $0) }).count == choices.count)
        #expect(CacheKey(u, headers: ["b": "2", "A": "1"]) == CacheKey(u, headers: ["a": "1", "B": "2"]))
        #expect(!CacheKey(u, headers: ["#A": "1"]).isDerived)
    }
}

extension Sequence {
    fileprivate func asyncMap<Result>(_ body: (Element) async throws -> Result) async rethrows -> [Result] {
        var results: [Result] = []
        for element in self { results.append(try await body(element)) }
        return results
    }
}
