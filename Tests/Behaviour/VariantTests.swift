import TestSupport
import Testing

@Suite("Answers that depend on the request's fields are kept beside each other", .timeLimit(.minutes(2)))
struct VariantTests {
    private let test = TestCache(folder: TemporaryFolder())
    private let a = url("a")

    private func request(_ language: String?, control: String? = nil) -> DataRequest {
        var headers = HTTPHeaders()
        if let language { headers.append("Accept-Language", language) }
        if let control { headers.append("Cache-Control", control) }
        return DataRequest(a).with(\.headers, headers).with(\.key, "key")
    }

    private func fields(_ language: String, vary: String = "Accept-Language") -> HTTPHeaders {
        ["Vary": vary, "ETag": "\"\(language)\"", "Cache-Control": "max-age=100"]
    }

    /// Scripts the answers, and asks for each of them.
    private func keep(_ languages: [String], in test: TestCache) async throws {
        test.transport.script(a, languages.map { answer($0) })
        for language in languages {
            #expect(try await test.ask(request(language)) == "\(language) from network")
        }
    }

    private func answer(_ language: String, vary: String = "Accept-Language") -> ScriptedTransport.Step {
        .text(language, fields(language, vary: vary))
    }

    @Test("each variant is fetched once, and served to those who ask for it", arguments: [false, true])
    func beside(onDisk: Bool) async throws {
        let test = TestCache(folder: onDisk ? TemporaryFolder() : nil)
        try await keep(["de", "en", "fr"], in: test)
        for language in ["en", "de", "fr", "de"] {
            let told = try await test.ask(request(language))
            #expect(told.hasPrefix(language) && !told.hasSuffix("network"))
        }
        #expect(test.transport.transfers.count == 3)
        guard onDisk else { return }
        let other = await test.reopened()
        for language in ["fr", "de", "en"] {
            #expect(try await other.ask(request(language)).hasPrefix("\(language) "))
        }
        #expect(other.transport.transfers.isEmpty)
    }

    @Test("a field that is absent is a variant of its own, and white space and case of names do not count")
    func normalised() async throws {
        test.transport.script(a, [answer("none"), answer("de, en")])
        #expect(try await test.ask(request(nil)) == "none from network")
        #expect(try await test.ask(request("de,en")) == "de, en from network")
        #expect(try await test.ask(request("de ,  en")).hasPrefix("de, en"))
        let lower = DataRequest(a).with(\.headers, ["accept-language": "de,en"]).with(\.key, "key")
        #expect(try await test.ask(lower).hasPrefix("de, en"))
        #expect(try await test.ask(request(nil)) == "none from memory")
        for _ in ["memory", "disk"] {
            for (language, isThere) in [("fr", false), ("de,en", true)] {
                let request = request(language, control: "max-stale")
                #expect((test.cache.readData(for: request) != nil) == isThere, "\(language)")
                #expect(test.cache.hasData(for: request) == isThere, "\(language)")
            }
            await test.cache.idle()
            test.cache.clearMemory()
        }
        #expect(test.transport.transfers.count == 2)
    }

    @Test("revalidating one variant leaves the other, whichever came first", arguments: ["de", "en"], [false, true])
    func revalidated(language: String, replaces: Bool) async throws {
        try await keep(["de", "en"], in: test)
        let next = await test.reopened()
        next.transport.script(a, [replaces ? answer(language) : .status(304, ["ETag": "\"\(language)\""])])
        let told = try await next.ask(request(language, control: "no-cache"))
        #expect(told == "\(language) from \(replaces ? "network" : "revalidated")")
        #expect(next.requests(a)[0]["If-None-Match"] == "\"\(language)\"")
        for language in ["de", "en"] { #expect(try await next.ask(request(language)).hasPrefix(language)) }
        let last = await next.reopened()
        for language in ["de", "en"] { #expect(try await last.ask(request(language)) == "\(language) from disk") }
        #expect(last.transport.transfers.isEmpty)
    }

    @Test("removing the entry removes all its variants, and a new one does not find the old")
    func removal() async throws {
        try await keep(["de", "en"], in: test)
        test.cache.removeData(for: "key")
        try await keep(["de", "en"], in: test.reopened())
    }

    @Test("who joins a fetch with other fields gets a fetch of their own, and never the other variant")
    func joiner() async throws {
        let (german, first) = try await test.begin(request("de"))
        #expect(first.request.headers["Accept-Language"] == "de")
        let english = test.cache.slowGetData(request("en"))
        let french = test.cache.getData(request("fr"))
        let second = test.cache.getData(request("de"))
        #expect(test.transport.transfers.count == 1)
        first.finish(with: Data("de".utf8), headers: fields("de"))
        for task in [german, second] { #expect(try await task.value == Data("de".utf8)) }
        await test.whileServing {
            answer($0.headers["Accept-Language"] ?? "")
        } _: {
            await test.cache.idle()
        }
        #expect(try await english.value == Data("en".utf8))
        #expect(try await french.value == Data("fr".utf8))
        for language in ["de", "en", "fr"] { #expect(try await test.ask(request(language)).hasPrefix(language)) }
        #expect(test.transport.transfers.count == 3)
    }

    @Test("an answer that varies with everything is kept for nobody; other names than before begin anew")
    func names() async throws {
        test.transport.script(a, [answer("1", vary: "*"), answer("2", vary: "*")])
        for number in 1...2 { #expect(try await test.ask(request("de")) == "\(number) from network") }
        #expect(!test.cache.hasData(for: "key"))
        try await keep(["de", "en"], in: test)
        test.transport.script(a, [answer("x", vary: "User-Agent")])
        #expect(try await test.ask(request("fr")) == "x from network")
        #expect(try await test.ask(request("de")).hasPrefix("x"), "it does not depend on the language any more")
        #expect(test.transport.transfers.count == 5)
    }

    @Test("variants from many tasks are never mixed up, whatever is removed or out of date meanwhile")
    func storm() async throws {
        await test.whileServing {
            answer($0.headers["Accept-Language"] ?? "")
        } _: {
            await withTaskGroup(of: Void.self) { group in
                for worker in 0..<4 {
                    group.addTask {
                        for step in 0..<60 {
                            let language = "l\((worker * 7 + step * step) % 6)"
                            let request = request(language)
                            let task = step % 3 == 0 ? test.cache.slowGetData(request) : test.cache.getData(request)
                            if step % 11 == 0 { test.cache.removeData(for: "key") }
                            if step % 17 == 0 { test.cache.clearMemory() }
                            if step % 5 == 0 { test.date.advance(by: 40) }
                            let data = try? await task.value
                            #expect(data == Data(language.utf8))
                        }
                    }
                }
            }
            await test.cache.idle()
        }
    }

    // MARK: What credentials and modifiers send

    @Test("an answer that varies by a field of the modifier's is for requests that are sent the same")
    func varyBySent() async throws {
        let language = Box("de")
        let modifier = RequestModifier.changing(identity: "me") { $0.headers["Accept-Language"] = language.value }
        let request = DataRequest(a).with(\.modifier, modifier)
        test.transport.script(a, [answer("de"), answer("en")])
        for told in ["de from network", "de from memory", "en from network", "en from memory", "de from memory"] {
            language.update { $0 = String(told.prefix(2)) }
            #expect(try await test.ask(request) == told)
        }
    }

    @Test("an answer that varies by the credentials is asked about if it was sent the same, and fetched anew if not")
    func varyByCredentials() async throws {
        let token = Box("Bearer 1")
        let request = DataRequest(a).with(\.credentials, .provider(identity: "me") { _ in token.value })
        let fields: HTTPHeaders = ["Vary": "Authorization", "Cache-Control": "max-age=10", "ETag": "\"1\""]
        test.transport.script(a, [.text("1", fields), .status(304, fields), .text("2", fields)])
        for told in ["1 from network", "1 from revalidated", "2 from network"] {
            if told.hasPrefix("2") { token.update { $0 = "Bearer 2" } }
            #expect(try await test.ask(request) == told)
            test.date.advance(by: 20)
        }
        #expect(test.requests(a).map { $0["If-None-Match"] } == [nil, "\"1\"", nil])
    }
}
