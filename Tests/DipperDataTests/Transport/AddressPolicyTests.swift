import FaultServer
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("Which addresses are connected to", .timeLimit(.minutes(2)))
struct AddressPolicyTests {
    private static let hello: [RawStep] = [.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")]

    @Test(
        "addresses that are not open to everyone are refused, however they are spelled",
        arguments: [
            "127.0.0.1", "localhost", "LOCALHOST", "[::1]", "0.0.0.0", "10.0.0.1", "169.254.169.254", "172.16.0.1",
            "192.168.0.1", "100.64.0.1", "224.0.0.1", "255.255.255.255", "[::]", "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "[::127.0.0.1]", "[64:ff9b::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[fe80::1]", "[fd00::1]",
            "[ff02::1]", "2130706433", "0x7f.1", "0x7f000001", "017700000001", "0177.0.0.1", "127.1", "127.0.1", "0",
        ])
    func refused(host: String) async throws {
        let server = try await RawServer.start(host: "0.0.0.0") { _ in Self.hello }
        let cache = DataCache(HostileServer.configuration { $0.network.addressPolicy = .publicOnly })
        let task = cache.getData(DataRequest(string: "http://\(host):\(server.port)/"))
        let error = await task.error
        #expect(error == .addressRefused, "\(String(describing: error))")
        #expect(error?.mayPass == false)
        #expect(server.connections.isEmpty)
        await cache.shutdown()
        await server.stop()
    }

    @Test(
        "spellings that some read as an address never come through",
        arguments: [
            "127.0.0.1.", "localhost.", "127。0。0。1", "１２７.0.0.1", "①②⑦.0.0.1", "127.0.0.1%00.example.test",
            "127%2e0%2e0%2e1",
            "0x7f.0x0.0x0.0x1", "00000000177.0.0.1", "4294967296", "340282366920938463463374607431768211456",
            "[::1%25lo]",
            "[::ffff:0:127.0.0.1]", "[0:0:0:0:0:0:0:1]", "user@127.0.0.1", "example.test@127.0.0.1",
        ])
    func odd(host: String) async throws {
        let server = try await RawServer.start(host: "0.0.0.0") { _ in Self.hello }
        let cache = DataCache(
            HostileServer.configuration {
                $0.network.addressPolicy = .publicOnly
                $0.network.connectTimeout = .seconds(5)
            })
        let error = await cache.getData(DataRequest(string: "http://\(host):\(server.port)/")).error
        let expected: [DipperError?] = [.addressRefused, .hostNotFound, .invalidURL]
        #expect(expected.contains(error), "\(String(describing: error))")
        #expect(server.connections.isEmpty)
        await cache.shutdown()
        await server.stop()
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
        await hostile.stop()
        await forbidden.stop()
    }

    @Test("the rule is asked for every connection, and one address that is allowed is enough")
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
        let addresses = asked.value
        #expect(addresses.filter { $0 == IPAddress("127.0.0.1") }.count == 2)
        #expect(!addresses.contains { !$0.isLoopback })
        await hostile.stop()
    }

    @Test("a proxy of the environment's does not connect in place of a request that is refused")
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

    @Test("a proxy of the configuration's must be allowed itself")
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
        await proxy.stop()
    }
}
