import TestSupport
import Testing

@Suite("Credentials and secret fields never leave the origin that was asked", .timeLimit(.minutes(2)))
struct CredentialTests {
    private let test = TestCache()
    private let a = url("a")
    private let elsewhere = URL(string: "http://elsewhere.test/x")!
    private let harmless: HTTPHeaders = ["Accept": "image/*", "Accept-Language": "de", "User-Agent": "me"]

    private var request: DataRequest {
        var headers = harmless
        for name in ["Cookie", "Cookie2", "X-Api-Key", "Token", "Proxy-Authorization", "WWW-Authenticate"] {
            headers.append(name, "secret")
        }
        return DataRequest(a).with(\.headers, headers).with(\.credentials, .bearer("secret"))
    }

    private func hasSecret(_ headers: HTTPHeaders) -> Bool { headers.fields.contains { $0.value.contains("secret") } }

    @Test("a redirect within the origin takes them along; one that leaves it does not, nor one that leads back")
    func redirect() async throws {
        let chain = [a, url("b"), elsewhere, url("c")]
        for (from, to) in zip(chain, chain.dropFirst()) {
            test.transport.script(from, [.redirect(to.absoluteString)])
        }
        test.transport.script(url("c"), [.text("1")])
        #expect(try await test.ask(request.with(\.sensitiveHeaders, ["USER-agent"])) == "1 from network")
        let sent = test.transport.transfers.map(\.request)
        #expect(sent.map(\.url) == chain)
        for request in sent.prefix(2) {
            #expect(request.headers["Authorization"] == "Bearer secret" && request.headers["X-Api-Key"] == "secret")
            #expect(request.headers["User-Agent"] == "me" && request.isForOwnOrigin)
        }
        for request in sent.suffix(2) {
            #expect(!hasSecret(request.headers), "\(request.url)")
            #expect(request.headers["Accept"] == "image/*" && request.headers["Accept-Language"] == "de")
            #expect(request.headers["User-Agent"] == nil && !request.isForOwnOrigin)
        }
    }

    @Test("the account in a URL is kept by a redirect within its origin, and dropped by one that leaves it")
    func accountInURL() async throws {
        let first = URL(string: "http://al%20ice:p%40ss@host.test/x")!
        let within = URL(string: "http://al%20ice:p%40ss@host.test/y")!
        test.transport.script(first, [.redirect("http://HOST.test:80/y")])
        test.transport.script(URL(string: "http://al%20ice:p%40ss@HOST.test:80/y")!, [.redirect("//host.test/y")])
        test.transport.script(within, [.redirect("http://elsewhere.test/x")])
        test.transport.script(elsewhere, [.redirect("http://host.test/z")])
        test.transport.script(url("z"), [.redirect("http://bob@host.test/z")])
        test.transport.script(URL(string: "http://bob@host.test/z")!, [.text("1")])
        #expect(try await test.ask(first) == "1 from network")
        #expect(test.transport.transfers.map(\.request.url.user) == ["al ice", "al ice", "al ice", nil, nil, "bob"])
    }

    @Test("what belongs to the origin does not go where a modifier leads")
    func modifierElsewhere() async throws {
        test.transport.script(elsewhere, [.text("1")])
        let modifier = RequestModifier.changing { [elsewhere] in $0.url = elsewhere }
        #expect(try await test.ask(request.with(\.modifier, modifier).with(\.headers, [:])) == "1 from network")
        let sent = try #require(test.transport.transfers.first?.request)
        #expect(!sent.isForOwnOrigin && sent.headers["Authorization"] == nil)
        // What the modifier has set itself is its own matter.
        let own = RequestModifier.changing { [elsewhere] in
            ($0.url, $0.headers["Authorization"]) = (elsewhere, "mine")
        }
        #expect(try await test.ask(request.with(\.modifier, own).with(\.headers, [:])) == "1 from network")
        #expect(test.transport.transfers.last?.request.headers["Authorization"] == "mine")
    }

    @Test("all challenges of an answer are told, of the server and of a proxy")
    func challenges() async throws {
        let demands = Box<[String?]>([])
        let credentials = Credentials.provider { challenge in
            demands.update { $0.append(challenge.demand) }
            return challenge.demand == nil ? "old" : "new"
        }
        let fields: HTTPHeaders = [
            "WWW-Authenticate": "Negotiate", "WWW-Authenticate": "Basic realm=\"a, b\", Digest realm=\"c\"",
        ]
        test.transport.script(a, [.status(401, fields), .text("1")])
        #expect(try await test.ask(DataRequest(a).with(\.credentials, credentials)) == "1 from network")
        #expect(demands.value == [nil, "Negotiate, Basic realm=\"a, b\", Digest realm=\"c\""])
    }

    @Test(
        "an origin is scheme, host and port",
        arguments: [
            ("http://a/x", "http://a/y?z", true), ("http://A:80/", "HTTP://a/", true),
            ("https://a/", "https://a:443/", true), ("http://a/", "http://u:p@a/", true),
            ("http://a/", "https://a/", false), ("https://a/", "http://a/", false),
            ("http://a/", "http://a:8080/", false),
            ("http://a:443/", "https://a/", false), ("http://a/", "http://b.a/", false),
            ("http://b.a/", "http://a/", false), ("https://host.test/", "https://host.test./b", false),
            ("https://host.test/", "https://host.test.other.test/", false),
            ("https://host.test/", "https://host.test:443@other.test/", false),
        ])
    func origin(from: String, target: String, isSame: Bool) async throws {
        let start = try #require(URL(string: from))
        test.transport.script(start, [.redirect(target)])
        let request = DataRequest(start).with(\.headers, request.headers).with(\.credentials, .bearer("secret"))
            .with(\.redirectHandler, RedirectHandler { $1 })
        let (task, transfer) = try await test.begin(request)
        #expect(transfer.request.url.absoluteString == target)
        #expect(hasSecret(transfer.request.headers) == isSame && transfer.request.isForOwnOrigin == isSame)
        transfer.finish(with: Data())
        #expect(await task.error == nil)
    }

    @Test("a redirect handler that leads to another origin takes along only what it has put there itself")
    func handler() async throws {
        test.transport.script(a, [.redirect("/b")])
        test.transport.script(elsewhere, [.text("1")])
        let target = elsewhere
        let handler = RedirectHandler.changing { request in
            request.url = target
            request.headers["X-Own"] = "mine"
        }
        _ = try await test.ask(request.with(\.redirectHandler, handler))
        let sent = try #require(test.requests(elsewhere).first)
        #expect(!hasSecret(sent) && sent["X-Own"] == "mine")
    }

    @Test(
        "alternatives and low data sources of another origin get neither; those of the same origin do",
        arguments: [URL(string: "http://elsewhere.test/x")!, url("b")])
    func otherSources(target: URL) async throws {
        test.transport.script(a, [.status(404)])
        test.transport.script(target, [.text("1", ["Cache-Control": "no-store"])])
        _ = try await test.ask(request.with(\.alternatives, [target]))
        test.network.setConditions(NetworkConditions(isConstrained: true))
        _ = try await test.ask(request.with(\.lowDataURL, target))
        let sent = test.requests(target)
        #expect(sent.count == 2)
        for headers in sent {
            #expect(hasSecret(headers) == (target != elsewhere))
            for field in harmless.fields { #expect(headers[field.name] == field.value) }
        }
        #expect(test.requests(a).allSatisfy(hasSecret))
    }
}
