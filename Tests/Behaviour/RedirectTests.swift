import TestSupport
import Testing

@Suite("What redirects and modifiers lead to, and how long what comes is kept", .timeLimit(.minutes(2)))
struct RedirectTests {
    private let test = TestCache(folder: TemporaryFolder())
    private let a = url("a")
    private let b = url("b")

    // MARK: Targets

    private struct Outcome: Equatable {
        var next: String?
        var error: DipperError?
    }

    private func follow(_ headers: HTTPHeaders, status: Int = 302, mark: String = "") async throws -> Outcome {
        let (test, next) = (TestCache(), Box<String?>(nil))
        let base = try #require(URL(string: "http://example.com/b/c/d;p?q" + mark))
        test.transport.script(base, [.status(status, headers)])
        let handler = RedirectHandler { _, request in
            next.update { $0 = request.url.absoluteString }
            return nil
        }
        let request = DataRequest(base).with(\.redirectHandler, handler).with(\.validation, .anyStatus)
        let error = await test.cache.getData(request).error
        return Outcome(next: next.value, error: error)
    }

    @Test(
        "a location is resolved against the URL it comes from, and inherits its fragment",
        arguments: [
            ("https://other/x", "https://other/x"), ("HTTP://Other/x", "HTTP://Other/x"), ("//g", "http://g"),
            ("g", "http://example.com/b/c/g"), ("./g/", "http://example.com/b/c/g/"), ("/g", "http://example.com/g"),
            ("?y", "http://example.com/b/c/d;p?y"), ("g?y/../x", "http://example.com/b/c/g?y/../x"),
            ("..", "http://example.com/b/"), ("../../../g", "http://example.com/g"),
            (";x", "http://example.com/b/c/;x"), (" /g ", "http://example.com/g"),
            ("/a b", "http://example.com/a%20b"), ("/%C3%BC", "http://example.com/%C3%BC"),
            ("/ü", "http://example.com/%C3%BC"), ("http://[::1]:8080/", "http://[::1]:8080/"),
            ("/a b%20c", "http://example.com/a%20b%20c"), ("/%20é", "http://example.com/%20%C3%A9"),
            ("/100%.png", "http://example.com/100%25.png"), ("\\x\\y", "http://example.com/x/y"),
            ("/\\other/x", "http://other/x"), ("http:g", "http://example.com/b/c/g"), ("http:///x", "http://x"),
            ("https:/x", "https://x"), ("1:2 x", "http://example.com/b/c/1:2%20x"), ("///x/y", "http://x/y"),
            ("\u{10FEE9}\u{10FE80}", "http://example.com/b/c/%E9%80"),
            ("/g#end", "http://example.com/g#end"), ("#s", "http://example.com/b/c/d;p?q#s"),
        ])
    func resolution(location: String, expected: String) async throws {
        #expect(try await follow(["Location": location]).next == expected)
        let inherited = expected.contains("#") ? "" : "#top%20a"
        #expect(try await follow(["Location": location], mark: "#top%20a").next == expected + inherited)
    }

    @Test("only some statuses redirect, and only with one location that is a URL of http with a host")
    func locations() async throws {
        for status in [301, 302, 303, 307, 308] {
            #expect(try await follow(["Location": "/g"], status: status).next == "http://example.com/g")
        }
        for status in [200, 201, 300, 305, 306, 309, 404] {
            #expect(try await follow(["Location": "/g"], status: status) == Outcome(), "\(status)")
        }
        #expect(try await follow([:]) == Outcome())
        #expect(try await follow(["Location": "/a", "Location": "/a"]).next == "http://example.com/a")
        #expect(try await follow(["Location": "/a", "Location": "/b"]) == Outcome(error: .malformedResponse))
        for location in [
            "", "  ", "http://", "https:", "http://a b/x", "//", "http://\u{10FEE9}/", "http://[bad/", "http://h:abc/",
            "http://h:99999/",
        ] {
            #expect(try await follow(["Location": location]) == Outcome(error: .malformedResponse), "\(location)")
        }
        for location in ["ftp://h/x", "file:///etc/passwd", "mailto:a@b", "data:,x", "a:b"] {
            let error = try #require(try await follow(["Location": location]).error)
            #expect(error == .unsupportedScheme && error.detail == String(location.prefix { $0 != ":" }))
        }
    }

    @Test("https does not become http by a redirect; a handler can allow it, and what comes is not kept")
    func downgrade() async throws {
        let secure = URL(string: "https://host.test/a")!
        test.transport.script(secure, [.redirect("http://host.test/b", ["Cache-Control": "max-age=1000"])])
        test.transport.script(b, [.text("1", ["Cache-Control": "max-age=1000"])])
        let refused = DataRequest(secure).with(\.retryPolicy, .fixed(.zero))
        #expect(await test.cache.getData(refused).error == .insecureRedirect)
        #expect(!DipperError.insecureRedirect.mayPass)
        #expect(test.transport.transfers.map(\.request.url) == [secure])
        let request = DataRequest(secure).with(\.redirectHandler, RedirectHandler { $1 })
        #expect(try await test.ask(request) == "1 from network")
        #expect(!test.cache.hasData(for: secure))
    }

    // MARK: Keeping

    @Test(
        "what a redirect that must not be kept leads to is not kept, nor what was kept before",
        arguments: [["Cache-Control": "no-store"], ["Vary": "*"]] as [HTTPHeaders])
    func noStore(fields: HTTPHeaders) async throws {
        try await test.keep("0", ["Cache-Control": "max-age=9"], for: a, age: 10)
        test.transport.script(a, [.redirect("/b", fields)])
        test.transport.script(b, [.text("1", ["Cache-Control": "max-age=1000"]), .text("2")])
        #expect(try await test.ask(a) == "1 from network")
        await test.cache.idle()
        #expect(!test.cache.hasData(for: a))
        #expect(try await test.ask(a) == "2 from network")
    }

    @Test(
        "the least fresh of a chain of redirects and its end says how long that is fresh",
        arguments: [
            // The default freshness, the status and `Cache-Control` of the last redirect, the seconds.
            (.after(.seconds(500)), 302, "max-age=10", 10), (.after(.seconds(500)), 302, nil, 500),
            (.after(.seconds(500)), 302, "no-cache", 0),
            (nil, 302, nil, 0), (nil, 302, "max-age=7", 7), (nil, 301, nil, 900),
            (.after(.seconds(500)), 308, "max-age=2000", 900),
        ] as [(Expiration?, Int, String?, TimeInterval)])
    func leastFresh(normal: Expiration?, status: Int, control: String?, seconds: TimeInterval) async throws {
        let test = TestCache { $0.freshness = .http(defaultFreshness: normal) }
        let fields: HTTPHeaders = control.map { ["Cache-Control": $0] } ?? [:]
        test.transport.script(a, [.redirect("/b", ["Cache-Control": "max-age=900"])])
        test.transport.script(b, [.redirect("/c", fields, status: status)])
        test.transport.script(url("c"), [.text("1", ["Cache-Control": "max-age=10000"]), .text("2")])
        #expect(try await test.ask(a) == "1 from network")
        if seconds > 0 {
            test.date.advance(by: seconds - 1)
            #expect(try await test.ask(a) == "1 from memory")
            test.date.advance(by: 1)
        }
        #expect(try await test.ask(a) == "2 from network")
    }

    @Test("an answer behind a redirect varies by the fields that chose the redirect as well")
    func vary() async throws {
        test.transport.script(a, ["/b", "/c"].map { .redirect($0, ["Vary": "Accept-Language"]) })
        for target in [b, url("c")] { test.transport.script(target, [.text(target.path, ["Vary": "Accept"])]) }
        for (language, told) in [("de", "/b from network"), ("en", "/c from network"), ("de", "/b from memory")] {
            let request = DataRequest(a).with(\.key, "key")
            #expect(try await test.ask(request, ["Accept-Language": language, "Accept": "text/plain"]) == told)
        }
    }

    @Test("the server behind a redirect is asked about its own answer, and one elsewhere not about what it never sent")
    func notModified() async throws {
        let headers: HTTPHeaders = ["ETag": "\"1\"", "Cache-Control": "max-age=10"]
        test.transport.script(a, ["/b", "/b", "/c"].map { .redirect($0) })
        test.transport.script(b, [.text("b", headers), .status(304)])
        test.transport.script(url("c"), [.text("c", headers)])
        for told in ["b from network", "b from revalidated", "c from network"] {
            #expect(try await test.ask(a) == told)
            test.date.advance(by: 10)
        }
        #expect(test.requests(b)[1]["If-None-Match"] == "\"1\"")
        #expect((test.requests(url("c")) + test.requests(a)).allSatisfy { $0["If-None-Match"] == nil })
    }

    // MARK: Modifiers

    /// A request whose URL is signed with a new signature for each transfer.
    private var signed: DataRequest {
        let count = Box(0)
        let modifier = RequestModifier.changing(identity: "signer") { request in
            request.url = URL(string: request.url.absoluteString + "?signed=\(count.increment())")!
        }
        return DataRequest(a).with(\.modifier, modifier)
    }

    private func sent(_ test: TestCache) -> [String] {
        test.transport.transfers.map { String($0.request.url.absoluteString.dropFirst(17)) }
    }

    @Test("what a modified URL has brought is asked about by its validators, and what it has begun is continued")
    func modified() async throws {
        let request = signed.with(\.retryPolicy, .fixed(.zero))
        let (first, beginning) = try await test.begin(request)
        beginning.interrupt(with: Parts.beginning(40, Parts.fields.adding("Cache-Control", "max-age=1")))
        let rest = try await test.transport.nextTransfer()
        #expect(rest.request.headers["Range"] == "bytes=40-" && rest.request.offset == 40)
        rest.finish(
            with: Parts.whole[40...], status: 206,
            headers: Parts.part(40..<100).headers.adding("Cache-Control", "max-age=1"))
        #expect(try await first.value == Parts.whole)
        test.date.advance(by: 5)
        let (second, transfer) = try await test.begin(request)
        #expect(transfer.request.headers["If-None-Match"] == "\"v\"")
        transfer.finish(with: Data(), status: 304, headers: ["ETag": "\"v\""])
        let response = try await second.response
        #expect(response.data == Parts.whole && response.source == .revalidated)
        #expect(sent(test) == ["a?signed=1", "a?signed=2", "a?signed=3"])
    }

    @Test("each request that is sent is changed once, after a refusal and a redirect too")
    func once() async throws {
        let credentials = Credentials.provider { $0.demand == nil ? "old" : "new" }
        let (task, first) = try await test.begin(signed.with(\.credentials, credentials))
        first.finish(with: Data(), status: 401, headers: ["WWW-Authenticate": "X"])
        let second = try await test.transport.nextTransfer()
        #expect(second.request.headers["Authorization"] == "new")
        second.finish(with: Data(), status: 302, headers: ["Location": "b"])
        try await test.transport.nextTransfer().finish(with: Data("1".utf8))
        #expect(try await task.value == Data("1".utf8))
        #expect(sent(test) == ["a?signed=1", "a?signed=2", "b?signed=3"])
    }

    @Test("a method that would break out of its line is not sent", arguments: ["GET / HTTP/1.1\r\nX: y", "", "A B"])
    func method(method: String) async throws {
        let modifier = RequestModifier.changing { $0.method = method }
        #expect(await test.cache.getData(DataRequest(a).with(\.modifier, modifier)).error == .invalidHeader)
        #expect(test.transport.transfers.isEmpty)
        // Nor by the transport itself.
        let transport = CurlTransport()
        let ended = Box<DipperError?>(nil)
        var request = TransferRequest(url: a)
        request.method = method
        _ = transport.start(request) { event in
            if case .finished(.failure(let error)) = event { ended.update { $0 = error } }
        }
        await transport.shutdown()
        #expect(ended.value == .invalidHeader)
    }
}
