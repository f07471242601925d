import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("What redirects lead to, and what goes along", .timeLimit(.minutes(5)))
struct RedirectRuleTests {
    private let a = url("a")
    private let b = url("b")
    private let elsewhere = URL(string: "http://elsewhere.test/x")!

    private func redirect(_ target: String, _ fields: HTTPHeaders = [:], status: Int = 302) -> ScriptedTransport.Step {
        .status(status, HTTPHeaders(fields.fields + [.init("Location", target)]))
    }

    private func text(_ text: String, _ fields: HTTPHeaders = [:]) -> ScriptedTransport.Step {
        .response(TransferResponse(headers: fields, body: Data(text.utf8)))
    }

    // MARK: Keeping

    @Test(
        "what a redirect that must not be kept leads to is not kept, nor what was kept before",
        arguments: [["Cache-Control": "no-store"], ["Vary": "*"]] as [HTTPHeaders])
    func noStore(fields: HTTPHeaders) async throws {
        let test = TestCache(folder: TemporaryFolder())
        test.transport.script(a, [text("0", ["Cache-Control": "max-age=9"]), redirect("/b", fields)])
        test.transport.script(b, [text("1", ["Cache-Control": "max-age=1000"]), text("2")])
        #expect(try await test.ask(a) == Told("0", .network))
        test.date.advance(by: 10)
        #expect(try await test.ask(a) == Told("1", .network))
        await test.cache.synchronize()
        #expect(!test.cache.hasData(for: a))
        #expect(try await test.ask(a) == Told("2", .network))
        await test.cache.shutdown()
    }

    @Test("the least fresh of a chain of redirects says how long its end is fresh")
    func leastFresh() async throws {
        let test = TestCache()
        test.transport.script(a, [redirect("/b", ["Cache-Control": "max-age=1000"])])
        test.transport.script(b, [redirect("/c", ["Cache-Control": "max-age=10"])])
        test.transport.script(url("c"), [text("1", ["Cache-Control": "max-age=1000"]), text("2")])
        #expect(try await test.ask(a) == Told("1", .network))
        test.date.advance(by: 9)
        #expect(try await test.ask(a) == Told("1", .memory))
        test.date.advance(by: 2)
        #expect(try await test.ask(a) == Told("2", .network))
        await test.cache.shutdown()
    }

    @Test("a redirect that says nothing is as fresh as a success that says nothing; no-cache asks each time")
    func silent() {
        let own = Freshness(generated: 100, until: 1_000_000)
        func chain(_ status: Int, _ headers: HTTPHeaders) -> RedirectChain {
            var chain = RedirectChain()
            chain.append(.init(status: status, headers: headers, requested: 100, received: 100), from: a, to: b)
            return chain
        }
        #expect(chain(302, [:]).freshness(own, defaultLifetime: 500).until == 600)
        #expect(chain(302, [:]).freshness(own, defaultLifetime: nil).until == 100)
        #expect(chain(301, [:]).freshness(own, defaultLifetime: nil).until == 1_000_000)
        #expect(chain(302, ["Cache-Control": "max-age=7"]).freshness(own, defaultLifetime: 500).until == 107)
        #expect(chain(302, ["Cache-Control": "no-cache"]).freshness(own, defaultLifetime: 500).until == -.infinity)
        #expect(chain(302, ["Vary": "Accept"]).vary(with: ["Vary": "Origin"]).list("Vary") == ["Accept", "Origin"])
    }

    // MARK: https

    @Test("https does not become http by a redirect; a handler can allow it, and what comes is not kept")
    func downgrade() async throws {
        let test = TestCache { $0.retryPolicy = .fixed(.zero) }
        let secure = URL(string: "https://host.test/a")!
        test.transport.script(secure, [redirect("http://host.test/b", ["Cache-Control": "max-age=1000"])])
        test.transport.script(b, [text("1", ["Cache-Control": "max-age=1000"])])
        let task = test.cache.getData(secure)
        #expect(await task.error == .insecureRedirect)
        #expect(!DipperError.insecureRedirect.mayPass)
        #expect(test.transport.transfers.map(\.request.url) == [secure])
        let request = DataRequest(secure).with(\.redirectHandler, RedirectHandler { $1 })
        #expect(try await Told(test.cache.getData(request).response) == Told("1", .network))
        #expect(!test.cache.hasData(for: secure))
        await test.cache.shutdown()
    }

    // MARK: Fields

    @Test("at another origin only what says which answer is wanted goes along, by redirect and by alternative")
    func fields() async throws {
        let test = TestCache { $0.retryPolicy = .never }
        let headers: HTTPHeaders = [
            "X-Api-Key": "secret", "Token": "secret", "Authorization": "secret", "Accept": "image/*",
            "Accept-Language": "de", "User-Agent": "me",
        ]
        test.transport.script(a, [redirect(elsewhere.absoluteString), .status(404)])
        test.transport.script(elsewhere, [text("1", ["Cache-Control": "no-store"])])
        #expect(try await test.ask(a, headers) == Told("1", .network))
        let request = DataRequest(a).with(\.headers, headers).with(\.alternatives, [.url(elsewhere)])
        #expect(try await Told(test.cache.getData(request).response) == Told("1", .network))
        #expect(test.requests(elsewhere).count == 2)
        for sent in test.requests(elsewhere) {
            #expect(!sent.fields.contains { $0.value == "secret" })
            #expect(sent["Accept"] == "image/*" && sent["Accept-Language"] == "de" && sent["User-Agent"] == "me")
        }
        #expect(test.requests(a).allSatisfy { $0["X-Api-Key"] == "secret" && $0["Token"] == "secret" })
        await test.cache.shutdown()
    }

    @Test("the client shows who it is to the origin that was asked, or to those that are named")
    func identity() async throws {
        let test = TestCache { $0.retryPolicy = .never }
        test.transport.script(a, [redirect("/b"), .status(404)])
        test.transport.script(b, [redirect(elsewhere.absoluteString)])
        test.transport.script(elsewhere, [redirect(url("c").absoluteString, ["Cache-Control": "no-store"])])
        test.transport.script(url("c"), [text("1")])
        _ = try await test.ask(a)
        let request = DataRequest(a).with(\.alternatives, [.url(elsewhere)])
        _ = try await test.cache.getData(request).value
        let told = test.transport.transfers.map { "\($0.request.url.lastPathComponent) \($0.request.isForOwnOrigin)" }
        #expect(told == ["a true", "b true", "x false", "c false", "a true", "x false", "c false"])

        var configuration = CurlConfiguration()
        var sent = TransferRequest(url: elsewhere)
        #expect(configuration.offersIdentity(to: sent))
        sent.isForOwnOrigin = false
        #expect(!configuration.offersIdentity(to: sent))
        configuration.clientCertificateOrigins = [URL(string: "http://elsewhere.test:80/any")!]
        #expect(configuration.offersIdentity(to: sent))
        #expect(!configuration.offersIdentity(to: TransferRequest(url: a)))
        await test.cache.shutdown()
    }
}
