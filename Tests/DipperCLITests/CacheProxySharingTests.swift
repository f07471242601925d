import DipperData
import FaultServer
import Foundation
import TestSupport
import Testing

@testable import CacheProxy

@Suite("Clients of the sample proxy get nothing that is another client's", .timeLimit(.minutes(5)))
struct CacheProxySharingTests {
    @Test("cookies pass in neither direction unless they are asked for")
    func cookies() async throws {
        try await withProxy { proxy, server in
            let url = server.url("/bytes/10/a?cacheControl=max-age=60&header=Set-Cookie:id=1")
            let answer = try await proxy.get(url, "-H", "Cookie: id=0")
            let posted = try await proxy.get(url, "-H", "Cookie: id=0", "--data", "a")
            #expect(answer.status == 200 && posted.status == 200)
            #expect(answer.fields["set-cookie"] == nil && posted.fields["set-cookie"] == nil)
            #expect(server.requests.allSatisfy { $0.header("Cookie") == nil })
        }
    }

    @Test("with --cookies they pass, and what is asked for with one, or sets one, is not kept")
    func passedCookies() async throws {
        try await withProxy(["--allow-private", "--cookies"]) { proxy, server in
            let url = server.url("/bytes/10/a?cacheControl=max-age=60")
            let answer = try await proxy.get(url, "-H", "Cookie: id=0")
            #expect(answer.fields["cache-status"] == "dipper; fwd=bypass; fwd-status=200")
            #expect(try await proxy.get(url).fields["cache-status"] == "dipper; fwd=miss")
            #expect(server.requests.map { $0.header("Cookie") } == ["id=0", nil])

            let setting = server.url("/bytes/10/b?cacheControl=max-age=60&header=Set-Cookie:id=1")
            for _ in 0..<3 {
                let answer = try await proxy.get(setting)
                #expect(answer.fields["set-cookie"] == "id=1")
                #expect(answer.fields["cache-status"] == "dipper; fwd=bypass; fwd-status=200")
            }
            // The first one finds out.
            #expect(server.requests(to: "/bytes/10/b").count == 4)
        }
    }

    @Test(
        "answers for one client are fetched for each, also when several ask at the same time",
        arguments: [
            "cacheControl=private,max-age=60", "cacheControl=no-store", "cacheControl=max-age=60&header=Set-Cookie:a=b",
        ])
    func personal(options: String) async throws {
        try await withProxy { proxy, server in
            let url = server.url("/bytes/10/a?delay=200&\(options)")
            async let first = proxy.get(url)
            async let second = proxy.get(url)
            for answer in try await [first, second, proxy.get(url)] {
                #expect(answer.status == 200)
                #expect(answer.fields["cache-status"] == "dipper; fwd=bypass; fwd-status=200")
                #expect(answer.fields["set-cookie"] == nil)
            }
            #expect(server.requests.count >= 4, "one that finds out, and one for each")
        }
    }

    @Test(
        "requests with a credential of any name leave nothing in the cache",
        arguments: [
            "Authorization: Bearer abc", "X-Api-Key: abc", "X-Auth-Token: abc", "X-Amz-Security-Token: abc",
        ])
    func credentials(field: String) async throws {
        try await withProxy { proxy, server in
            let url = server.url("/bytes/10/a?cacheControl=max-age=60")
            _ = try await proxy.get(url, "-H", field)
            #expect(try await proxy.get(url).fields["cache-status"] == "dipper; fwd=miss")
            #expect(server.requests.count == 2)
        }
    }

    @Test("a name that is not this machine's is not answered, unless others are served too")
    func names() async throws {
        try await withProxy { proxy, server in
            let url = server.url("/bytes/10/a")
            let other = try await proxy.get(url, "-H", "Host: rebound.example")
            let own = try await proxy.get(url, "-H", "Host: LOCALHOST:8080")
            #expect(other.status == 421 && own.status == 200)
            #expect(server.requests.count == 1)
        }
        try await withProxy(["--allow-private", "--allow-remote"]) { proxy, server in
            let answer = try await proxy.get(server.url("/bytes/10/a"), "-H", "Host: proxy.example")
            #expect(answer.status == 200)
        }
    }

    @Test(
        "an address that others reach is refused without --allow-remote",
        arguments: [
            ("0.0.0.0", false), ("::", false), ("192.168.1.2", false), ("example.org", false), ("", false),
            ("127.0.0.1", true), ("127.9.9.9", true), ("::1", true), ("localhost", true),
        ])
    func hosts(host: String, isLoopback: Bool) {
        let alone = try? Options.parse(["--host", host])
        let remote = try? Options.parse(["--host", host, "--allow-remote"])
        #expect((alone != nil) == isLoopback)
        #expect(remote != nil)
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
}
