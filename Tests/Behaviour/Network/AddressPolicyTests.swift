import FaultServer
import TestSupport
import Testing

@Suite("Which addresses are connected to", .timeLimit(.minutes(2)))
struct AddressPolicyTests {
    private static let hello: [RawStep] = [.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")]

    // MARK: Addresses

    /// First and last addresses of the blocks of IANA's special-purpose registries, of multicast and of what is
    /// reserved; and forms of IPv6 that stand for such addresses.
    @Test(
        "what is set aside is not public",
        arguments: [
            "0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255", "127.0.0.0",
            "127.255.255.255", "169.254.0.0", "169.254.169.254", "169.254.255.255", "172.16.0.0", "172.31.255.255",
            "192.0.0.0", "192.0.0.255", "192.0.2.0", "192.0.2.255", "192.88.99.1", "192.168.0.0", "192.168.255.255",
            "198.18.0.0", "198.19.255.255", "198.51.100.0", "198.51.100.255", "203.0.113.0", "203.0.113.255",
            "224.0.0.0", "239.255.255.255", "240.0.0.0", "255.255.255.255",
            "::", "::1", "64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", "100::", "100::ffff:ffff:ffff:ffff",
            "100:0:0:1::", "2001::", "2001:1ff:ffff::", "2001:2::1", "2001:10::1", "2001:20::1", "2001:db8::",
            "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "3fff::", "3fff:fff:ffff::", "5f00::", "5f00:ffff::", "fc00::",
            "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "fe80::", "fe80::1%eth0", "febf::1", "fec0::1", "feff::1",
            "fe80::5efe:8.8.8.8", "fd00::200:5efe:8.8.8.8", "2001:db8::5efe:8.8.8.8",
            "ff00::", "ff02::1", "::ffff:0:7f00:1", "::ffff:0:8.8.8.8", "200::1", "1fff::1", "4000::1", "8000::1",
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        ])
    func special(text: String) throws {
        #expect(try #require(IPAddress(text)).isPublic == false)
        let parts = text.split(separator: ".").compactMap { Int($0) }
        guard parts.count == 4, !text.contains(":") else { return }
        let words = [parts[0] << 8 | parts[1], parts[2] << 8 | parts[3]].map { String($0, radix: 16) }
        for form in [
            "::ffff:\(text)", "64:ff9b::\(text)", "2002:\(words[0]):\(words[1])::", "2002:\(words[0]):\(words[1]):1::2",
            "::\(text)",
            // ISATAP: behind a provider's prefix, behind that of 6to4, and with each of the bits that may be set.
            "2a00:1450::5efe:\(text)", "2a00:1450:0:1:200:5efe:\(text)", "2a00:1450:0:1:100:5efe:\(text)",
            "2a00:1450:0:1:300:5efe:\(words[0]):\(words[1])", "2002:808:808:1:0:5efe:\(text)",
        ] { #expect(try #require(IPAddress(form)).isPublic == false, "\(form)") }
    }

    @Test(
        "ordinary addresses are public, also just beside the special ones",
        arguments: [
            "1.0.0.0", "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0",
            "126.255.255.255", "128.0.0.0", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0",
            "191.255.255.255", "192.0.1.0", "192.0.3.0", "192.88.98.255", "192.88.100.0", "192.167.255.255",
            "192.169.0.0", "198.17.255.255", "198.20.0.0", "198.51.99.255", "198.51.101.0", "203.0.112.255",
            "203.0.114.0", "223.255.255.255", "2001:200::", "2001:db7:ffff::1", "2001:db9::1", "2606:4700:4700::1111",
            "2a00:1450::1", "2400::1", "3ffe::1", "::ffff:8.8.8.8",
            "2a00:1450::5efe:8.8.8.8", "2a00:1450::200:5efe:8.8.8.8", "2a00:1450:0:1:400:5efe:10.0.0.1",
            "2a00:1450:0:1:0:5eff:10.0.0.1", "64:ff9b::8.8.8.8", "2002:808:808::",
        ])
    func ordinary(text: String) throws {
        let address = try #require(IPAddress(text))
        #expect(address.isPublic && !address.isLoopback)
    }

    @Test("loopback in all its forms, and what is not an address")
    func loopback() throws {
        for text in ["127.0.0.1", "127.255.0.9", "::1", "::ffff:127.0.0.1", "::ffff:7f12:3456"] {
            #expect(try #require(IPAddress(text)).isLoopback, "\(text)")
        }
        for text in ["128.0.0.1", "126.0.0.1", "::2", "::", "::ffff:128.0.0.1", "fe80::1", "0.0.0.0"] {
            #expect(try #require(IPAddress(text)).isLoopback == false, "\(text)")
        }
        for text in [
            "", "1", "1.2.3", "1.2.3.4.5", "256.1.1.1", "0x7f.0.0.1", "127.0.0.1 ", " 127.0.0.1", "localhost",
            "1.2.3.4:80", "[::1]", ":", ":::", "1::2::3", "12345::", "::ffff:1.2.3", "2130706433", "%", "::g",
            "1.2.3.-4",
        ] { #expect(IPAddress(text) == nil, "\(text)") }
    }

    // MARK: Policies

    @Test(
        "addresses that are not open to everyone are refused, however they are spelled",
        arguments: [
            "127.0.0.1", "localhost", "LOCALHOST", "[::1]", "0.0.0.0", "10.0.0.1", "169.254.169.254", "172.16.0.1",
            "192.168.0.1", "100.64.0.1", "224.0.0.1", "255.255.255.255", "[::]", "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]",
            "[2a00:1450::5efe:127.0.0.1]",
            "[fe80::1]", "[fd00::1]", "[ff02::1]", "2130706433", "0x7f.1", "0x7f000001", "017700000001", "0177.0.0.1",
            "127.1", "127.0.1", "0",
        ])
    func refused(host: String) async throws {
        let error = try await error(host)
        #expect(error == .addressRefused && error?.mayPass == false, "\(String(describing: error))")
    }

    private func error(_ host: String) async throws -> DipperError? {
        let server = try await RawServer.start(host: "0.0.0.0") { _ in Self.hello }
        let cache = DataCache(
            HostileServer.configuration {
                $0.network.addressPolicy = .publicOnly
                $0.network.connectTimeout = .seconds(5)
            })
        let error = await cache.getData(DataRequest(string: "http://\(host):\(server.port)/")).error
        #expect(server.connections.isEmpty)
        await cache.shutdown()
        await server.stop()
        return error
    }

    @Test(
        "spellings that some read as an address never come through", .inCheck,
        arguments: [
            "127.0.0.1.", "localhost.", "127。0。0。1", "１２７.0.0.1", "①②⑦.0.0.1", "127.0.0.1%00.example.test",
            "127%2e0%2e0%2e1", "0x7f.0x0.0x0.0x1", "00000000177.0.0.1", "4294967296", "[::1%25lo]",
            "340282366920938463463374607431768211456", "[::ffff:0:127.0.0.1]", "[0:0:0:0:0:0:0:1]", "user@127.0.0.1",
            "example.test@127.0.0.1",
        ])
    func odd(host: String) async throws {
        let error = try await error(host)
        #expect([.addressRefused, .hostNotFound, .invalidURL].contains(error), "\(String(describing: error))")
    }

    @Test(
        "also after a redirect", arguments: ["127.0.0.2", "2130706434", "0x7f.2", "[::ffff:127.0.0.2]", "017700000002"])
    func redirected(host: String) async throws {
        let forbidden = try await RawServer.start(host: "127.0.0.2") { _ in Self.hello }
        let hostile = try await HostileServer({
            $0.network.addressPolicy = .custom { $0 == IPAddress("127.0.0.1") }
        }) { [port = forbidden.port] request in
            request.path == "/"
                ? [.send("HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: http://\(host):\(port)/\r\n\r\n")]
                : Self.hello
        }
        #expect(await hostile.outcome("/hello") == .body("hello"))
        #expect(await hostile.outcome() == .error(.addressRefused))
        #expect(forbidden.connections.isEmpty)
    }

    @Test("the rule is asked for every connection, and one address that is allowed is enough", .inCheck)
    func everyConnection() async throws {
        let asked = Box<[IPAddress]>([])
        let hostile = try await HostileServer({
            $0.network.addressPolicy = .custom { address in
                asked.update { $0.append(address) }
                return address == IPAddress("127.0.0.1")
            }
        }) { _ in [.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi"), .close] }
        for path in ["/a", "/b"] {
            let request = DataRequest(string: "http://localhost:\(hostile.server.port)\(path)")
            #expect(await hostile.outcome(request) == .body("hi"))
        }
        #expect(asked.value.count { $0 == IPAddress("127.0.0.1") } == 2)
        #expect(asked.value.allSatisfy { $0.isLoopback })
    }

    // MARK: Proxies

    @Test("a proxy of the environment's does not connect in place of a request that is refused", .inCheck)
    func proxyOfTheEnvironment() async {
        // The environment is the whole process's.
        await #expect(processExitsWith: .success) {
            let proxy = try await RawServer.start { _ in [.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nproxy")] }
            for name in ["http_proxy", "https_proxy", "all_proxy", "ALL_PROXY", "HTTPS_PROXY"] {
                setenv(name, proxy.url("", scheme: "http"), 1)
            }
            for name in ["no_proxy", "NO_PROXY"] { unsetenv(name) }
            let target = DataRequest(string: "http://127.0.0.2:1/")
            let open = DataCache(HostileServer.configuration())
            #expect(try await open.getData(target).value == Data("proxy".utf8), "the environment counts")
            #expect(proxy.connections.count == 1)
            let policies: [AddressPolicy] = [.publicOnly, .custom { $0 == IPAddress("127.0.0.1") }]
            for policy in policies {
                let cache = DataCache(HostileServer.configuration { $0.network.addressPolicy = policy })
                #expect(await cache.getData(target).error == .addressRefused)
                #expect(await cache.getData(DataRequest(string: "https://127.0.0.2:1/")).error == .addressRefused)
                await cache.shutdown()
            }
            #expect(proxy.connections.count == 1)
            await open.shutdown()
            await proxy.stop()
        }
    }

    @Test("a proxy of the configuration's must be allowed itself", .inCheck)
    func proxyOfTheConfiguration() async throws {
        let proxy = try await RawServer.start { _ in Self.hello }
        for (policy, outcome) in [
            (AddressPolicy.publicOnly, HostileServer.Outcome.error(.addressRefused)),
            (.custom { $0 == IPAddress("127.0.0.1") }, .body("hello")),
        ] {
            let hostile = try await HostileServer({
                $0.network.proxy = proxy.url("")
                $0.network.addressPolicy = policy
            }) { _ in [] }
            #expect(await hostile.outcome(DataRequest(string: "http://host.test/")) == outcome)
            await hostile.stop()
        }
        #expect(proxy.connections.count == 1)
    }

    @Test("no_proxy names hosts, domains and ranges of addresses, also beside a proxy that is set", .inCheck)
    func exemptions() async {
        await #expect(processExitsWith: .success) {
            setenv("http_proxy", "http://proxy.test:3128", 1)
            setenv("no_proxy", "example.com,.internal.test.,192.0.2.0/24,2001:db8::/32,198.51.100.7", 1)
            for fixed in [nil, "http://proxy.test:3128"] {
                var configuration = CurlConfiguration()
                configuration.proxy = fixed
                let transport = CurlTransport(configuration)
                for (host, isExempt) in [
                    ("example.com", true), ("www.example.com.", true), ("notexample.com", false),
                    ("a.internal.test", true), ("192.0.2.200", true), ("192.0.3.1", false), ("[2001:db8::7]", true),
                    ("198.51.100.7", true), ("198.51.100.8", false),
                ] {
                    let hop = transport.firstHop(to: try #require(URL(string: "http://\(host)/")))
                    #expect((hop != "proxy.test") == isExempt, "\(host): \(hop)")
                }
                await transport.shutdown()
            }
        }
    }
}
