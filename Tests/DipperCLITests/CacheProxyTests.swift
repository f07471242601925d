import FaultServer
import Foundation
import TestSupport
import Testing

@Suite("The sample proxy against a real server", .timeLimit(.minutes(5)))
struct CacheProxyTests {
    @Test("what is fresh is fetched once, has an age from then on, and keeps its date")
    func hit() async throws {
        try await withProxy { proxy, server in
            let url = server.url("/bytes/3000/a?cacheControl=max-age=600&header=X-Own:1&header=Age:30")
            let first = try await proxy.get(url)
            let second = try await proxy.get(url)
            for answer in [first, second] {
                #expect(answer.status == 200)
                #expect(answer.body == FaultServer.body(of: "/bytes/3000/a", size: 3_000))
                #expect(answer.fields["x-own"] == "1")
                #expect(answer.fields["cache-control"] == "max-age=600")
                #expect(answer.fields["via"]?.hasPrefix("1.1 dipper") == true)
                #expect(answer.fields["content-length"] == "3000")
            }
            #expect(first.fields["age"] == "30")
            #expect(first.fields["cache-status"] == "dipper; fwd=miss")
            let age = try #require(second.fields["age"].flatMap { Int($0) })
            #expect((30..<300).contains(age))
            #expect(second.fields["cache-status"] == "dipper; hit; detail=memory")
            #expect(first.fields["date"] != nil && second.fields["date"] == first.fields["date"])
            #expect(server.requests.count == 1)
        }
    }

    @Test("a client that has the answer gets a 304, from the cache as from the server")
    func conditions() async throws {
        try await withProxy { proxy, server in
            let url = server.url("/bytes/10/a?cacheControl=max-age=6000&etag=one")
            let first = try await proxy.get(url, "-H", #"If-None-Match: "zero", W/"one""#)
            let second = try await proxy.get(url, "-H", #"If-None-Match: "one""#)
            let other = try await proxy.get(url, "-H", #"If-None-Match: "two""#, "-H", "Range: bytes=0-1")
            #expect(first.status == 304 && second.status == 304 && other.status == 200)
            #expect(second.fields["etag"] == #""one""#)
            #expect(second.fields["content-length"] == nil && second.body.isEmpty)
            #expect(other.body.count == 10)
            #expect(server.requests.count == 1)
            #expect(server.requests[0].header("If-None-Match") == nil && server.requests[0].header("Range") == nil)
        }
    }

    @Test("what is stale is asked for again with its entity tag, and says so")
    func revalidation() async throws {
        try await withProxy { proxy, server in
            let url = server.url("/bytes/10/a?cacheControl=no-cache&etag=one")
            let first = try await proxy.get(url)
            let second = try await proxy.get(url)
            #expect(first.fields["cache-status"] == "dipper; fwd=miss")
            #expect(second.fields["cache-status"] == "dipper; fwd=stale; fwd-status=304")
            #expect(second.status == 200 && second.body == first.body)
            #expect(server.requests.map(\.status) == [200, 304])
        }
    }

    @Test("other methods are passed on with their body, and what they change is fetched anew")
    func otherMethods() async throws {
        try await withProxy { proxy, server in
            let url = server.url("/bytes/10/a?cacheControl=max-age=60")
            _ = try await proxy.get(url)
            let posted = try await proxy.get(url, "--data", "abc", "-H", "Expect: 100-continue")
            #expect(posted.status == 200)
            #expect(posted.fields["cache-status"] == "dipper; fwd=method; fwd-status=200")
            let after = try await proxy.get(url)
            #expect(after.fields["cache-status"] == "dipper; fwd=miss")
            #expect(server.requests.map(\.method) == ["GET", "POST", "GET"])
            #expect(server.requests[1].header("Content-Length") == "3")
            #expect(server.requests[1].header("Content-Type") == "application/x-www-form-urlencoded")
        }
    }

    @Test("an error to another method changes nothing")
    func failedMethod() async throws {
        try await withProxy { proxy, server in
            let url = server.url("/bytes/10/a?cacheControl=max-age=60")
            _ = try await proxy.get(url)
            let refused = try await proxy.get(server.url("/bytes/10/a?status=500&errorBody=7"), "-X", "DELETE")
            #expect(refused.status == 500 && refused.body.count == 7)
            #expect(try await proxy.get(url).fields["cache-status"] == "dipper; hit; detail=memory")
            #expect(server.requests.count == 2)
        }
    }

    @Test("only-if-cached gets what is there, else a 504, and asks nobody")
    func onlyIfCached() async throws {
        try await withProxy { proxy, server in
            let url = server.url("/bytes/10/a?cacheControl=max-age=60")
            let only = "Cache-Control: only-if-cached"
            #expect(try await proxy.get(url, "-H", only).status == 504)
            #expect(server.requests.isEmpty)
            _ = try await proxy.get(url)
            #expect(try await proxy.get(url, "-H", only).status == 200)
            #expect(server.requests.count == 1)
        }
    }

    @Test("errors and redirects of the server are answers")
    func passedThrough() async throws {
        try await withProxy { proxy, server in
            #expect(try await proxy.get(server.url("/nothing")).status == 404)
            let failed = try await proxy.get(server.url("/bytes/1/a?status=503&errorBody=9&retryAfter=7"))
            #expect(failed.status == 503 && failed.body.count == 9 && failed.fields["retry-after"] == "7")
            let redirected = try await proxy.get(server.url("/bytes/1/a?redirect=/bytes/1/b"))
            #expect(redirected.status == 302 && redirected.fields["location"] == "/bytes/1/b")
            #expect(server.requests.count == 3)
        }
    }

    @Test("HEAD is answered without a body from what GET brought")
    func head() async throws {
        try await withProxy { proxy, server in
            let url = server.url("/bytes/3000/a?cacheControl=max-age=60")
            _ = try await proxy.get(url)
            let answer = try await proxy.get(url, "--head")
            #expect(answer.status == 200)
            #expect(answer.fields["content-length"] == "3000" && answer.body.isEmpty)
            #expect(answer.fields["cache-status"] == "dipper; hit; detail=memory")
            #expect(server.requests.count == 1)
        }
    }

    @Test("a target that is no URL of the web is refused in one line", arguments: ["/", "/nonsense", "/ftp://host/a"])
    func badTarget(target: String) async throws {
        try await withProxy { proxy, server in
            let answer = try await proxy.get(target: target)
            #expect(answer.status == 400)
            #expect(answer.body.last == UInt8(ascii: "\n") && answer.body.count { $0 == UInt8(ascii: "\n") } == 1)
            #expect(server.requests.isEmpty)
        }
    }

    @Test("a request that comes back is not sent round again")
    func loop() async throws {
        try await withProxy { proxy, server in
            let answer = try await proxy.get(target: "/\(proxy.address)/\(server.url("/bytes/1/a").absoluteString)")
            #expect(answer.status == 508)
            #expect(server.requests.isEmpty)
        }
    }

    @Test("a server that breaks off is a 502")
    func brokenServer() async throws {
        try await withProxy { proxy, server in
            let answer = try await proxy.get(server.url("/bytes/100/a?cut=10"))
            #expect(answer.status == 502)
            #expect(answer.fields["content-type"] == "text/plain; charset=utf-8")
        }
    }

    @Test("two clients that ask at the same time make one request")
    func sharedFetch() async throws {
        try await withProxy { proxy, server in
            // Fresh, so that a client which starts late is no failure.
            let url = server.url("/bytes/3000/a?delay=800&cacheControl=max-age=60")
            async let first = proxy.get(url)
            async let second = proxy.get(url, "-A", "another program")
            let bodies = try await [first.body, second.body]
            #expect(bodies.allSatisfy { $0 == FaultServer.body(of: "/bytes/3000/a", size: 3_000) })
            #expect(server.requests.count == 1)
        }
    }

    @Test("clients whom the server answers differently do not get each other's answer")
    func variants() async throws {
        try await withProxy { proxy, server in
            let url = server.url("/bytes/10/a?cacheControl=max-age=60&header=Vary:Accept-Language")
            for language in ["de", "en", "de"] {
                let answer = try await proxy.get(url, "-H", "Accept-Language: \(language)")
                #expect(answer.status == 200)
            }
            #expect(server.requests.map { $0.header("Accept-Language") } == ["de", "en"])
        }
    }

    @Test("what needs a password is passed on and not kept")
    func authorization() async throws {
        try await withProxy { proxy, server in
            let url = server.url("/bytes/10/a?cacheControl=max-age=60")
            let answer = try await proxy.get(url, "-H", "Authorization: Basic YTpi")
            #expect(answer.status == 200)
            #expect(answer.fields["cache-status"] == "dipper; fwd=bypass; fwd-status=200")
            #expect(try await proxy.get(url).fields["cache-status"] == "dipper; fwd=miss")
            #expect(server.requests.map { $0.header("Authorization") } == ["Basic YTpi", nil])
        }
    }

    @Test("fields of the connection pass in neither direction")
    func connectionFields() async throws {
        try await withProxy { proxy, server in
            let url = server.url("/bytes/10/a?header=Connection:X-Hop&header=X-Hop:1&header=Proxy-Authenticate:Basic")
            let answer = try await proxy.get(
                url, "-H", "Connection: X-Mine", "-H", "X-Mine: 1", "-H", "Keep-Alive: 5", "-H", "TE: gzip",
                "-H", "Proxy-Authorization: Basic YTpi", "-H", "X-Other: 1")
            #expect(answer.status == 200)
            #expect(answer.fields["x-hop"] == nil && answer.fields["proxy-authenticate"] == nil)
            let request = try #require(server.requests.first)
            for name in ["X-Mine", "Keep-Alive", "TE", "Proxy-Authorization"] { #expect(request.header(name) == nil) }
            #expect(request.header("X-Other") == "1")
            #expect(request.header("Via")?.hasPrefix("1.1 dipper") == true)
        }
    }

    @Test("without leave, loopback addresses are refused, whatever name they go by")
    func privateAddresses() async throws {
        try await withProxy([]) { proxy, server in
            for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"] {
                let answer = try await proxy.get(target: "/http://\(host):\(server.port)/bytes/1/a")
                #expect(answer.status == 403)
            }
            #expect(server.requests.isEmpty)
        }
    }

    @Test("with an origin, paths are those of that server")
    func reverse() async throws {
        let server = try await FaultServer.start()
        let proxy = try Proxy(["--origin", server.url("/").absoluteString])
        let answer = try await proxy.get(target: "/bytes/10/a?cacheControl=max-age=60")
        #expect(answer.body == FaultServer.body(of: "/bytes/10/a", size: 10))
        #expect(try await proxy.get(target: "/nothing").status == 404)
        #expect(await proxy.stop() == 0)
        await server.stop()
    }

    @Test("a client that knows of proxies is served too")
    func forward() async throws {
        try await withProxy { proxy, server in
            let answer = try await Proxy.curl(
                ["--noproxy", "", "--proxy", proxy.address, server.url("/bytes/10/a").absoluteString])
            #expect(answer.status == 200)
            #expect(server.requests.count == 1)
        }
    }

    @Test("a second run on the same folder needs no server")
    func folder() async throws {
        let server = try await FaultServer.start()
        let folder = TemporaryFolder()
        let url = server.url("/bytes/3000/a?cacheControl=max-age=60")
        var sources: [String?] = []
        for _ in 0..<2 {
            let proxy = try Proxy(["--allow-private", "--cache-dir", folder.path])
            sources.append(try await proxy.get(url).fields["cache-status"])
            #expect(await proxy.stop() == 0)
        }
        #expect(sources == ["dipper; fwd=miss", "dipper; hit; detail=disk"])
        #expect(server.requests.count == 1)
        await server.stop()
    }

    @Test("requests that are too large are refused")
    func sizes() async throws {
        try await withProxy { proxy, server in
            let url = server.url("/bytes/1/a")
            let long = String(repeating: "a", count: 9_000)
            #expect(try await proxy.get(server.url("/bytes/1/\(long)")).status == 414)
            #expect(try await proxy.get(url, "-H", "X-Long: \(long)\(long)").status == 400)
            let file = TemporaryFolder()
            let path = file.url.appendingPathComponent("large")
            try Data(count: 17 << 20).write(to: path)
            let answer = try await proxy.get(url, "--data-binary", "@\(path.path)")
            #expect(answer.status == 413)
            #expect(server.requests.isEmpty)
        }
    }
}
