import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("Answers that depend on the request's fields are kept beside each other", .timeLimit(.minutes(5)))
struct HTTPVariantTests {
    private let a = url("a")

    private func request(_ language: String?, control: String? = nil) -> DataRequest {
        var headers = HTTPHeaders()
        if let language { headers.append("Accept-Language", language) }
        if let control { headers.append("Cache-Control", control) }
        return DataRequest(a).with(\.headers, headers).with(\.key, "key")
    }

    private func answer(_ language: String, vary: String = "Accept-Language", control: String = "max-age=100")
        -> ScriptedTransport.Step
    {
        .text(
            language, ["Vary": vary, "ETag": "\"\(language)\"", "Content-Language": language, "Cache-Control": control])
    }

    private func ask(_ test: TestCache, _ language: String?, control: String? = nil) async throws -> Told {
        try await Told(test.cache.getData(request(language, control: control)).response)
    }

    @Test("each variant is fetched once, and served to those who ask for it", arguments: [false, true])
    func beside(onDisk: Bool) async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: onDisk ? folder : nil)
        test.transport.script(a, [answer("de"), answer("en"), answer("fr")])
        for language in ["de", "en", "fr"] { #expect(try await ask(test, language) == Told(language, .network)) }
        for language in ["en", "de", "fr", "de"] {
            let told = try await ask(test, language)
            #expect(told.text == language && told.source != .network)
        }
        #expect(test.transport.transfers.count == 3)
        if onDisk {
            let other = await test.reopened(folder)
            for language in ["fr", "de", "en"] { #expect(try await ask(other, language).text == language) }
            #expect(other.transport.transfers.isEmpty)
            await other.cache.shutdown()
        }
        await test.cache.shutdown()
    }

    @Test("a field that is absent is a variant of its own, and white space and case of names do not count")
    func normalised() async throws {
        let test = TestCache(folder: TemporaryFolder())
        test.transport.script(a, [answer("none"), answer("de, en")])
        #expect(try await ask(test, nil) == Told("none", .network))
        #expect(try await ask(test, "de,en") == Told("de, en", .network))
        #expect(try await ask(test, "de ,  en").text == "de, en")
        #expect(try await ask(test, nil) == Told("none", .memory))
        #expect(test.transport.transfers.count == 2)
        await test.cache.shutdown()
    }

    @Test("revalidating one variant leaves the other, whichever came first", arguments: ["de", "en"], [false, true])
    func revalidated(language: String, replaces: Bool) async throws {
        let folder = TemporaryFolder()
        var test = TestCache(folder: folder)
        test.transport.script(a, [answer("de"), answer("en")])
        _ = try await ask(test, "de")
        _ = try await ask(test, "en")
        test = await test.reopened(folder)
        test.transport.script(a, [replaces ? answer(language) : .status(304, ["ETag": "\"\(language)\""])])
        #expect(
            try await ask(test, language, control: "no-cache") == Told(language, replaces ? .network : .revalidated))
        #expect(test.requests(a)[0]["If-None-Match"] == "\"\(language)\"")
        for language in ["de", "en"] { #expect(try await ask(test, language).text == language) }
        test = await test.reopened(folder)
        for language in ["de", "en"] { #expect(try await ask(test, language) == Told(language, .disk)) }
        #expect(test.transport.transfers.isEmpty)
        await test.cache.shutdown()
    }

    @Test("removing the entry removes all its variants")
    func removal() async throws {
        let folder = TemporaryFolder()
        var test = TestCache(folder: folder)
        test.transport.script(a, [answer("de"), answer("en"), answer("new")])
        _ = try await ask(test, "de")
        _ = try await ask(test, "en")
        test.cache.removeData(for: "key")
        test = await test.reopened(folder)
        test.transport.script(a, [answer("de"), answer("en")])
        #expect(try await ask(test, "de") == Told("de", .network), "and a new family does not find old members")
        #expect(try await ask(test, "en") == Told("en", .network))
        await test.cache.shutdown()
    }

    @Test("who joins a fetch with other fields gets a fetch of their own, and never the other variant")
    func joiner() async throws {
        let test = TestCache(folder: TemporaryFolder())
        let german = test.cache.getData(request("de"))
        let first = try await test.transport.nextTransfer()
        #expect(first.request.headers["Accept-Language"] == "de")
        let english = test.cache.slowGetData(request("en"))
        let french = test.cache.getData(request("fr"))
        let second = test.cache.getData(request("de"))
        #expect(test.transport.transfers.count == 1)
        finish(first, "de")
        #expect(try await german.value == Data("de".utf8))
        #expect(try await second.value == Data("de".utf8))
        for _ in 0..<2 {
            let next = try await test.transport.nextTransfer()
            finish(next, next.request.headers["Accept-Language"] ?? "")
        }
        #expect(try await english.value == Data("en".utf8))
        #expect(try await french.value == Data("fr".utf8))
        #expect(test.transport.transfers.count == 3)
        for language in ["de", "en", "fr"] { #expect(try await ask(test, language).source != .network) }
        #expect(test.cache.queueCounts == QueueCounts())
        await test.cache.shutdown()
    }

    private func finish(_ transfer: ScriptedTransfer, _ language: String) {
        transfer.finish(
            with: Data(language.utf8), headers: ["Vary": "Accept-Language", "Cache-Control": "max-age=100"])
    }

    @Test("an answer that varies with everything is for those alone who waited with the same fields")
    func star() async throws {
        let test = TestCache()
        test.transport.script(a, [answer("1", vary: "*"), answer("2", vary: "*")])
        #expect(try await ask(test, "de") == Told("1", .network))
        #expect(try await ask(test, "de") == Told("2", .network))
        #expect(!test.cache.hasData(for: "key"))
        await test.cache.shutdown()
    }

    @Test("a resource that varies by other fields than before begins anew")
    func otherNames() async throws {
        let test = TestCache(folder: TemporaryFolder())
        test.transport.script(a, [answer("de"), answer("en"), answer("x", vary: "User-Agent")])
        _ = try await ask(test, "de")
        _ = try await ask(test, "en")
        #expect(try await ask(test, "fr") == Told("x", .network))
        #expect(try await ask(test, "de").text == "x", "it does not depend on the language any more")
        #expect(test.transport.transfers.count == 3)
        await test.cache.shutdown()
    }

    @Test("variants at random from many tasks are never mixed up")
    func storm() async throws {
        let test = TestCache(folder: TemporaryFolder())
        let languages = (0..<6).map { "l\($0)" }
        let server = Task {
            var transfer: ScriptedTransfer
            repeat {
                transfer = try await test.transport.nextTransfer()
                finish(transfer, transfer.request.headers["Accept-Language"] ?? "")
            } while transfer.request.url != url("last")
        }
        await withTaskGroup(of: Void.self) { group in
            for worker in 0..<6 {
                group.addTask {
                    for step in 0..<300 {
                        let language = languages[(worker * 7 + step * step) % languages.count]
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
        #expect(await settle { test.cache.queueCounts == QueueCounts() })
        let last = test.cache.getData(url("last"))
        _ = try await last.value
        try await server.value
        await test.cache.shutdown()
    }
}
