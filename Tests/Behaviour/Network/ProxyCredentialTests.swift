import FaultServer
import TestSupport
import Testing

@Suite("A proxy that asks for credentials gets its own", .timeLimit(.minutes(2)))
struct ProxyCredentialTests {
    private static let right = "Basic " + Data("kiosk:secret".utf8).base64EncodedString()
    private static let refusal =
        "HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm=\"house\"\r\nContent-Length: 0\r\n\r\n"

    /// Starts a proxy that wants the right credentials, answers http itself and opens tunnels to this machine.
    private func startProxy() async throws -> RawServer {
        try await RawServer.start { request in
            guard request.header("Proxy-Authorization") == Self.right else { return [.send(Self.refusal)] }
            guard request.head.hasPrefix("CONNECT ") else {
                return [.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhere")]
            }
            let port = request.path.split(separator: ":").last.flatMap { Int($0) } ?? 0
            return [.send("HTTP/1.1 200 Connection established\r\n\r\n"), .tunnel(port: port)]
        }
    }

    private func check(_ url: URL, authority: String? = nil, demand: String) async throws {
        let demands = Box<[String]>([])
        func provider(_ renewed: String) -> Credentials {
            .provider { challenge in
                demands.update { $0.append("\(challenge.url.user() ?? "-") \(challenge.demand ?? "none")") }
                return challenge.demand == nil ? "Basic old" : renewed
            }
        }
        let login = "kiosk:secret@"
        let cases: [(String, Credentials?, DipperError?, Int)] = [
            ("", nil, .status(407), 1), ("kiosk:wrong@", nil, .status(407), 1), (login, nil, nil, 1),
            ("", .basic(user: "kiosk", password: "secret"), nil, 1),
            (login, .basic(user: "kiosk", password: "wrong"), .status(407), 1),
            ("", provider(Self.right), nil, 2), (login, provider("Basic new"), .status(407), 2),
            ("", provider("Basic new\r\nX-More: 1"), .invalidHeader, 1),
        ]
        for (number, (login, credentials, expected, requests)) in cases.enumerated() {
            let proxy = try await startProxy()
            let cache = DataCache(
                HostileServer.configuration {
                    // A refusal must not be tried again.
                    $0.retryPolicy = .fixed(.zero, retries: 3)
                    $0.network.maximumBodySize = 1 << 20
                    $0.network.caBundle = authority
                    $0.network.proxy = "http://\(login)127.0.0.1:\(proxy.port)"
                    $0.proxyCredentials = credentials
                })
            let error = await cache.getData(url).error
            #expect(error == expected, "case \(number): \(String(describing: error))")
            #expect(proxy.requests.count == requests, "case \(number)")
            #expect(!String(describing: error).contains("secret"))
            await cache.shutdown()
            await proxy.stop()
        }
        let twice = ["- none", "- \(demand)"]
        #expect(demands.value == twice + twice + twice)
    }

    @Test("for http")
    func http() async throws {
        let url = try #require(URL(string: "http://host.test/"))
        try await check(url, demand: "Basic realm=\"house\"")
    }

    @Test(
        "for a tunnel to an https server",
        .enabled(if: TLSServer.isInstalled, "nginx or openssl is not installed (packages nginx-light, openssl)"))
    func tunnel() async throws {
        let server = try TLSServer()
        try await check(server.url(), authority: server.authority, demand: "")
    }

    @Test("a server gets none of them, whatever it answers")
    func server() async throws {
        let asked = Box(0)
        let hostile = try await HostileServer {
            $0.network.proxy = ""
            $0.proxyCredentials = .provider { _ in
                asked.update { $0 += 1 }
                return Self.right
            }
        } script: { _ in
            [.send(Self.refusal)]
        }
        #expect(await hostile.outcome() == .error(.status(407)))
        #expect(hostile.server.requests.map { $0.header("Proxy-Authorization") } == [nil] && asked.value == 0)
    }
}
