import FaultServer
import TestSupport
import Testing

@testable import CacheProxy

@Suite("The sample proxy, against a real server, and its parts", .timeLimit(.minutes(2)))
struct CacheProxyTests {
    @Test(
        "what is fresh is fetched once, has an age and keeps its date; clients that have it get a 304, and HEAD no body"
    )
    func hit() async throws {
        try await withProxy { proxy, server async throws in
            let url = server.url("/bytes/3000/a?cacheControl=max-age=6000&etag=one&header=X-Own:1&header=Age:30")
            let only = "Cache-Control: only-if-cached"
            #expect(try await proxy.get(url, "-H", only).status == 504 && server.requests.isEmpty)
            let first = try await proxy.get(url, "-H", #"If-None-Match: "zero""#, "-H", "Range: bytes=0-1")
            let second = try await proxy.get(url, "-H", only)
            for answer in [first, second] {
                #expect(answer.status == 200 && answer.body == FaultServer.body(of: "/bytes/3000/a", size: 3_000))
                #expect(answer.fields["x-own"] == "1" && answer.fields["content-length"] == "3000")
                #expect(answer.fields["cache-control"] == "max-age=6000")
                #expect(answer.fields["via"]?.hasPrefix("1.1 dipper") == true)
            }
            #expect(first.fields["age"] == "30" && first.fields["cache-status"] == "dipper; fwd=miss")
            let age = try #require(second.fields["age"].flatMap { Int($0) })
            #expect((30..<300).contains(age) && second.fields["cache-status"] == "dipper; hit; detail=memory")
            #expect(first.fields["date"] != nil && second.fields["date"] == first.fields["date"])

            let known = try await proxy.get(url, "-H", #"If-None-Match: "zero", W/"one""#)
            #expect(known.status == 304 && known.fields["etag"] == #""one""#)
            #expect(known.fields["content-length"] == nil && known.body.isEmpty)
            let head = try await proxy.get(url, "--head")
            #expect(head.status == 200 && head.fields["content-length"] == "3000" && head.body.isEmpty)
            #expect(server.requests.count == 1)
            #expect(server.requests[0].header("If-None-Match") == nil && server.requests[0].header("Range") == nil)
        }
    }

    @Test(
        "answers before the final one are passed on and not kept, by a proxy that many share", arguments: [false, true])
    func interim(isPersonal: Bool) async throws {
        let early = "HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\nConnection: x\r\nX: 1\r\n\r\n"
        let origin = try await RawServer.start { _ in
            [.send(early + early + "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 2\r\n\r\nhi")]
        }
        try await withProxy(["--allow-private", "--shared-cache"]) { proxy, _ in
            let fields = isPersonal ? ["-H", "Cookie: a=1"] : []
            func get(_ more: String...) async throws -> String {
                let arguments = ["--http1.1"] + more + fields
                let url = proxy.address + "/" + origin.url("/a")
                return try await Proxy.text(arguments + [url])
            }
            let first = try await get()
            #expect(first.components(separatedBy: "HTTP/1.1 103").count == 3 && first.contains("HTTP/1.1 200"))
            #expect(first.lowercased().contains("link: </style.css>") && !first.lowercased().contains("\r\nx: 1"))
            let second = try await get("--http1.0")
            #expect(!second.contains(" 103") && second.contains(" 200") && second.hasSuffix("hi"))
        }
        await origin.stop()
    }

    @Test("what is stale is asked for again and says so; errors and redirects of the server are answers")
    func passedThrough() async throws {
        try await withProxy { proxy, server async throws in
            let stale = server.url("/bytes/10/stale?cacheControl=no-cache&etag=one")
            _ = try await proxy.get(stale)
            let again = try await proxy.get(stale)
            #expect(again.status == 200 && again.fields["cache-status"] == "dipper; fwd=stale; fwd-status=304")
            #expect(try await proxy.get(server.url("/nothing")).status == 404)
            let failed = try await proxy.get(server.url("/bytes/1/a?status=503&errorBody=9&retryAfter=7"))
            #expect(failed.status == 503 && failed.body.count == 9 && failed.fields["retry-after"] == "7")
            let redirected = try await proxy.get(server.url("/bytes/1/a?redirect=/bytes/1/b"))
            #expect(redirected.status == 302 && redirected.fields["location"] == "/bytes/1/b")
            #expect(server.requests.count == 5)
            let broken = try await proxy.get(server.url("/bytes/100/a?cut=10"))
            #expect(broken.status == 502 && broken.fields["content-type"] == "text/plain; charset=utf-8")
        }
    }

    @Test("what the server keeps from caches that many share is not given out stale when the server is gone")
    func goneServer() async throws {
        let server = try await FaultServer.start()
        try await withProxy { proxy, _ async throws in
            let (own, shared) = ("max-age=0", ["s-maxage=0", "max-age=0,proxy-revalidate"])
            let urls = ([own] + shared).map { server.url("/bytes/10/a\($0.count)?cacheControl=\($0)") }
            for url in urls { #expect(try await proxy.get(url).status == 200) }
            await server.stop()
            #expect(try await proxy.get(urls[0]).fields["cache-status"] == "dipper; hit; detail=stale")
            for url in urls.dropFirst() { #expect(try await proxy.get(url).status == 504) }
        }
    }

    @Test("other methods are passed on with their body; what they change is fetched anew, unless they fail")
    func otherMethods() async throws {
        try await withProxy { proxy, server async throws in
            let url = server.url("/bytes/10/a?cacheControl=max-age=60")
            _ = try await proxy.get(url)
            let refused = try await proxy.get(server.url("/bytes/10/a?status=500&errorBody=7"), "-X", "DELETE")
            #expect(refused.status == 500 && refused.body.count == 7)
            #expect(try await proxy.get(url).fields["cache-status"] == "dipper; hit; detail=memory")
            let condition = #"If-Match: "a""#
            let posted = try await proxy.get(url, "--data", "abc", "-H", "Expect: 100-continue", "-H", condition)
            #expect(posted.status == 200 && posted.fields["cache-status"] == "dipper; fwd=method; fwd-status=200")
            #expect(try await proxy.get(url).fields["cache-status"] == "dipper; fwd=miss")
            #expect(server.requests.map(\.method) == ["GET", "DELETE", "POST", "GET"])
            #expect(server.requests[2].header("Content-Length") == "3")
            #expect(server.requests[2].header("If-Match") == #""a""#, "conditions of a change pass")
            #expect(server.requests[2].header("Content-Type") == "application/x-www-form-urlencoded")
        }
    }

    @Test("targets that are no URL of the web, requests that come back, and those that are too large are refused")
    func refused() async throws {
        try await withProxy { proxy, server async throws in
            for target in ["/", "/nonsense", "/ftp://host/a"] {
                let answer = try await proxy.get(target: target)
                #expect(answer.status == 400 && answer.body.count { $0 == UInt8(ascii: "\n") } == 1, "\(target)")
                #expect(answer.body.last == UInt8(ascii: "\n"))
            }
            let url = server.url("/bytes/1/a")
            #expect(try await proxy.get(target: "/\(proxy.address)/\(url.absoluteString)").status == 508)
            let long = String(repeating: "a", count: 9_000)
            #expect(try await proxy.get(server.url("/bytes/1/\(long)")).status == 414)
            #expect(try await proxy.get(url, "-H", "X-Long: \(long)\(long)").status == 400)
            let folder = TemporaryFolder()
            let file = try folder.place(Data(count: 17 << 20), at: "large")
            #expect(try await proxy.get(url, "--data-binary", "@\(file.path)").status == 413)
            #expect(server.requests.isEmpty)
        }
    }

    @Test("fields of the connection pass in neither direction, nor cookies")
    func fields() async throws {
        try await withProxy { proxy, server async throws in
            let hop = "header=Connection:X-Hop&header=X-Hop:1&header=Proxy-Authenticate:Basic&header=Set-Cookie:id=1"
            let url = server.url("/bytes/10/a?cacheControl=max-age=60&\(hop)")
            let fields = [
                "Connection: X-Mine", "X-Mine: 1", "Keep-Alive: 5", "TE: gzip", "Proxy-Authorization: Basic YTpi",
                "Cookie: id=0", "X-Other: 1",
            ].flatMap { ["-H", $0] }
            for more in [[], ["--data", "a"]] {
                let answer = try await Proxy.curl(fields + more + ["\(proxy.address)/\(url.absoluteString)"])
                #expect(answer.status == 200)
                for name in ["x-hop", "proxy-authenticate", "set-cookie"] { #expect(answer.fields[name] == nil) }
            }
            for request in server.requests {
                for name in ["X-Mine", "Keep-Alive", "TE", "Proxy-Authorization", "Cookie"] {
                    #expect(request.header(name) == nil, "\(name)")
                }
                #expect(request.header("X-Other") == "1" && request.header("Via")?.hasPrefix("1.1 dipper") == true)
            }
        }
    }

    @Test("with --cookies they pass, and what is asked for with one, or sets one, is not kept")
    func passedCookies() async throws {
        try await withProxy(["--allow-private", "--cookies"]) { proxy, server async throws in
            let url = server.url("/bytes/10/a?cacheControl=max-age=60")
            let answer = try await proxy.get(url, "-H", "Cookie: id=0")
            #expect(answer.fields["cache-status"] == "dipper; fwd=bypass; fwd-status=200")
            #expect(try await proxy.get(url).fields["cache-status"] == "dipper; fwd=miss")
            #expect(server.requests.map { $0.header("Cookie") } == ["id=0", nil])
            let setting = server.url("/bytes/10/b?cacheControl=max-age=60&header=Set-Cookie:id=1")
            for _ in 0..<2 {
                let answer = try await proxy.get(setting)
                #expect(answer.fields["set-cookie"] == "id=1")
                #expect(answer.fields["cache-status"] == "dipper; fwd=bypass; fwd-status=200")
            }
            #expect(server.requests(to: "/bytes/10/b").count == 2)
        }
    }

    @Test(
        "answers for one client are fetched for each, also when several ask at once; a credential leaves nothing behind"
    )
    func personal() async throws {
        try await withProxy { proxy, server async throws in
            for (number, options) in [
                "cacheControl=private,max-age=60", "cacheControl=no-store",
                "cacheControl=max-age=60&header=Set-Cookie:a=b",
            ].enumerated() {
                let url = server.url("/bytes/10/p\(number)?delay=200&\(options)")
                async let first = proxy.get(url)
                async let second = proxy.get(url)
                for answer in try await [first, second, proxy.get(url)] {
                    #expect(answer.status == 200 && answer.fields["set-cookie"] == nil)
                    #expect(answer.fields["cache-status"] == "dipper; fwd=bypass; fwd-status=200")
                }
                #expect(server.requests(to: "/bytes/10/p\(number)").count == 3, "one for each")
            }
            for (number, field) in [
                "Authorization: Basic YTpi", "X-Api-Key: abc", "X-Auth-Token: abc", "X-Amz-Security-Token: abc",
            ].enumerated() {
                let url = server.url("/bytes/10/c\(number)?cacheControl=max-age=60")
                _ = try await proxy.get(url, "-H", field)
                #expect(try await proxy.get(url).fields["cache-status"] == "dipper; fwd=miss")
                #expect(server.requests(to: "/bytes/10/c\(number)").count == 2)
            }
        }
    }

    private static let shared = ["--allow-private", "--shared-cache"]

    @Test("with --shared-cache, s-maxage and CDN-Cache-Control say how long an answer is kept and whether it is")
    func sharedFreshness() async throws {
        try await withProxy(Self.shared) { proxy, server async throws in
            for (number, (options, isKept)) in [
                ("cacheControl=s-maxage=600", true), ("cacheControl=max-age=600,s-maxage=0", false),
                ("cacheControl=no-store&header=CDN-Cache-Control:max-age=600", true),
                ("cacheControl=max-age=600&header=CDN-Cache-Control:private", false),
                ("cacheControl=max-age=600&header=CDN-Cache-Control:max-age=0,", true),
            ].enumerated() {
                let url = server.url("/bytes/10/s\(number)?\(options)")
                #expect(try await proxy.get(url).status == 200)
                let status = try await proxy.get(url).fields["cache-status"]
                #expect(status == (isKept ? "dipper; hit; detail=memory" : "dipper; fwd=miss"), "\(options)")
            }
        }
    }

    @Test(
        "with --shared-cache, an answer for one client is fetched once for each, also when several ask at once"
    )
    func sharedPersonal() async throws {
        try await withProxy(Self.shared + ["--cookies"]) { proxy, server async throws in
            for (number, options) in [
                "cacheControl=private,max-age=60", "cacheControl=no-store",
                "cacheControl=max-age=60&header=Set-Cookie:a=b",
            ].enumerated() {
                let url = server.url("/bytes/10/p\(number)?delay=200&\(options)")
                async let first = proxy.get(url)
                async let second = proxy.get(url)
                for answer in try await [first, second, proxy.get(url)] {
                    #expect(answer.status == 200 && answer.fields["set-cookie"] == (number == 2 ? "a=b" : nil))
                    #expect(answer.fields["cache-status"] == "dipper; fwd=miss")
                }
                #expect(server.requests(to: "/bytes/10/p\(number)").count == 3, "one for each")
            }
        }
    }

    @Test(
        "with --shared-cache, the answer to Authorization is kept if the server permits it, and other credentials pass by"
    )
    func sharedCredentials() async throws {
        try await withProxy(Self.shared) { proxy, server async throws in
            for (number, (field, directives, isKept)) in [
                ("Authorization: Basic YTpi", "max-age=60", false),
                ("Authorization: Basic YTpi", "public,max-age=60", true),
                ("Authorization: Basic YTpi", "s-maxage=60", true), ("X-Api-Key: abc", "public,max-age=60", false),
            ].enumerated() {
                let url = server.url("/bytes/10/c\(number)?cacheControl=\(directives)")
                #expect(try await proxy.get(url, "-H", field).status == 200)
                let name = String(field.prefix { $0 != ":" })
                #expect(server.requests(to: "/bytes/10/c\(number)").first?.header(name) != nil)
                let status = try await proxy.get(url).fields["cache-status"]
                #expect(
                    status == (isKept ? "dipper; hit; detail=memory" : "dipper; fwd=miss"), "\(field) \(directives)")
            }
        }
    }

    @Test("with --shared-cache, no stale answer is given out that a shared cache must not use")
    func sharedGoneServer() async throws {
        let server = try await FaultServer.start()
        try await withProxy(Self.shared) { proxy, _ async throws in
            let (own, shared) = (
                "max-age=0", ["s-maxage=0", "max-age=0,proxy-revalidate", "max-age=0,must-revalidate"]
            )
            let urls = ([own] + shared).map { server.url("/bytes/10/a\($0.count)?cacheControl=\($0)") }
            for url in urls { #expect(try await proxy.get(url).status == 200) }
            await server.stop()
            #expect(try await proxy.get(urls[0]).fields["cache-status"] == "dipper; hit; detail=stale")
            for url in urls.dropFirst() { #expect(try await proxy.get(url).status == 502) }
        }
    }

    @Test(
        "a name that is not this machine's is not answered unless others are served, nor loopback addresses without leave"
    )
    func names() async throws {
        try await withProxy { proxy, server async throws in
            let url = server.url("/bytes/10/a")
            #expect(try await proxy.get(url, "-H", "Host: rebound.example").status == 421)
            #expect(try await proxy.get(url, "-H", "Host: LOCALHOST:8080").status == 200)
            // A client that knows of proxies.
            let known = ["--noproxy", "", "--proxy", proxy.address, server.url("/bytes/10/b").absoluteString]
            #expect(try await Proxy.curl(known).status == 200)
            #expect(server.requests.count == 2)
        }
        try await withProxy(["--allow-private", "--allow-remote"]) { proxy, server async throws in
            #expect(try await proxy.get(server.url("/bytes/10/a"), "-H", "Host: proxy.example").status == 200)
        }
        try await withProxy([]) { proxy, server async throws in
            for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"] {
                #expect(try await proxy.get(target: "/http://\(host):\(server.port)/bytes/1/a").status == 403)
            }
            #expect(server.requests.isEmpty)
        }
    }

    @Test("with an origin, paths are those of that server; a second run on the same folder needs no server")
    func reverse() async throws {
        let server = try await FaultServer.start()
        let folder = TemporaryFolder()
        var sources: [String?] = []
        for _ in 0..<2 {
            let proxy = try await Proxy(["--origin", server.url("/").absoluteString, "--cache-dir", folder.path])
            let answer = try await proxy.get(target: "/bytes/10/a?cacheControl=max-age=60")
            #expect(answer.body == FaultServer.body(of: "/bytes/10/a", size: 10))
            sources.append(answer.fields["cache-status"])
            #expect(await proxy.stop() == 0)
        }
        #expect(sources == ["dipper; fwd=miss", "dipper; hit; detail=disk"] && server.requests.count == 1)
    }

    @Test(
        "an address that others reach is refused without --allow-remote",
        arguments: [
            ("0.0.0.0", false), ("::", false), ("192.168.1.2", false), ("example.org", false), ("", false),
            ("127.0.0.1", true), ("127.9.9.9", true), ("::1", true), ("localhost", true),
        ])
    func hosts(host: String, isLoopback: Bool) {
        #expect(((try? Options.parse(["--host", host])) != nil) == isLoopback)
        #expect((try? Options.parse(["--host", host, "--allow-remote"])) != nil)
        #expect(LoopbackName.matches(host) == isLoopback)
    }

    @Test(
        "hosts are told from their ports",
        arguments: [
            ("127.0.0.1:80", true), ("[::1]:80", true), ("[::1]", true), ("localhost:80", true), ("[::]:80", false),
            ("localhost.example:80", false), ("127.0.0.1.example", false),
        ])
    func authorities(authority: String, isLoopback: Bool) {
        #expect(LoopbackName.matches(authority) == isLoopback)
    }

    // MARK: Parts

    @Test(
        "the URL follows the slash, or is the target, in the form that all spellings share",
        arguments: [
            ("/http://example.com/a?b=c", "http://example.com/a?b=c"),
            ("http://example.com/a", "http://example.com/a"),
            ("/HTTPS://Example.COM:443", "https://example.com/"),
            ("/http://example.com:80/a%20b", "http://example.com/a%20b"),
            ("/http://example.com:8080/?q=http://other", "http://example.com:8080/?q=http://other"),
            ("/http://[::1]:8080/", "http://[::1]:8080/"),
        ])
    func target(target: String, url: String) throws {
        #expect(try Target.url(of: target, origin: nil).absoluteString == url)
    }

    @Test(
        "what is no http or https URL with a host is refused",
        arguments: [
            "", "/", "*", "/a", "/http:", "/http://", "/http:///a", "/ftp://host/", "/file:///etc/passwd", "//host/a",
            "/http://user@host/", "/http://user:word@host/", "/http://host:0/", "/http://host:65536/",
            "/http://host/#a",
        ])
    func badTarget(target: String) {
        #expect(throws: Refusal.self) { try Target.url(of: target, origin: nil) }
    }

    @Test(
        "with an origin no target leaves it",
        arguments: [
            ("/a?b", "http://origin:8000/a?b"), ("http://other/a?b", "http://origin:8000/a?b"),
            ("//other/a", "http://origin:8000//other/a"), ("/@other/", "http://origin:8000/@other/"),
        ])
    func origin(target: String, url: String) throws {
        let origin = try #require(URL(string: "http://origin:8000/"))
        #expect(try Target.url(of: target, origin: origin).absoluteString == url)
        #expect(throws: Refusal.self) { try Target.url(of: "@other/", origin: origin) }
    }

    @Test("fields that the connection names do not pass, nor those that no one would take")
    func endToEnd() {
        let fields: Fields = [
            "Connection": "close, X-One", "connection": " x-Two ", "X-One": "1", "X-Two": "2", "Proxy-Anything": "3",
            "X-Three": "3", "Bad Name": "4", "X-Bad": "a\u{1}b", "X-Three": "three",
        ]
        let passed: Fields = ["X-Three": "3", "X-Three": "three"]
        #expect(ForwardedFields.endToEnd(fields) == passed)
    }

    @Test(
        "an entity tag is found in a list, weak or strong",
        arguments: [
            (#""a""#, true), (#"W/"a""#, true), (#""b", "a""#, true), (#"W/"b" ,W/"a","c""#, true), ("*", true),
            (#""a,b""#, false), (#""b""#, false), ("a", false), ("", false), (#""a"#, false), (#""b, "a""#, false),
        ])
    func entityTags(list: String, isNamed: Bool) {
        #expect(Conditions.names(list, #""a""#) == isNamed)
        #expect(Conditions.names(list, #"W/"a""#) == isNamed)
    }

    @Test(
        "If-Modified-Since holds up to the date of the last change, in each form of date",
        arguments: [
            ("Sun, 06 Nov 1994 08:49:37 GMT", true), ("Sunday, 06-Nov-94 08:49:37 GMT", true),
            ("Sun Nov  6 08:49:37 1994", true), ("Sun, 06 Nov 1994 08:49:38 GMT", true),
            ("Sun, 06 Nov 1994 08:49:36 GMT", false), ("yesterday", false),
        ])
    func modifiedSince(date: String, isMet: Bool) {
        let conditions = Conditions(["If-Modified-Since": date])
        let fields: Fields = ["Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT"]
        #expect(conditions.areMet(byStatus: 200, fields) == isMet)
        #expect(!conditions.areMet(byStatus: 404, fields))
        #expect(!conditions.areMet(byStatus: 200, [:]))
    }

    @Test("entity tags outweigh dates, and an answer without one is named by * alone")
    func precedence() {
        let conditions = Conditions(["If-None-Match": #""b""#, "If-Modified-Since": "Sun, 06 Nov 1994 08:49:37 GMT"])
        let fields: Fields = ["ETag": #""a""#, "Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT"]
        #expect(!conditions.areMet(byStatus: 200, fields))
        #expect(Conditions.names("*", nil) && !Conditions.names(#""a""#, nil))
    }
}
