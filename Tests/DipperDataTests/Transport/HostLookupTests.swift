import Foundation
import TestSupport
import Testing

@testable import DipperData

/// The value in a box, whose changes can stand in an expectation.
private final class Lookups {
    private var value: HostLookups

    init(mostThreads: Int) { value = HostLookups(mostThreads: mostThreads, timeToLive: .seconds(60)) }

    var threads: Int { value.threads }
    func ask(_ name: String, at now: Duration = .zero) -> HostLookups.Asked { value.ask(name, at: now) { _ in } }
    func addresses(of name: String) -> [HostAddress]? { value.addresses(of: name, at: .zero) }
    func next() -> (lookup: Int, name: String)? { value.next() }
    func forget(_ ticket: HostLookups.Ticket) -> HostLookups.Reply? { value.forget(ticket) }
    func networkChanged() { value.networkChanged() }
    func threadFailed() -> Int { value.threadFailed().count }
    func finished(_ number: Int, _ answer: HostLookups.Answer) -> Int {
        value.finished(number, answer, at: .zero).count
    }
}

@Suite("Names of hosts that are being looked up", .timeLimit(.minutes(5)))
struct HostLookupTests {
    private let address = HostAddress(text: "192.0.2.1")

    private func joined(_ asked: HostLookups.Asked) -> (ticket: HostLookups.Ticket, startsThread: Bool)? {
        if case .joined(let ticket, let startsThread) = asked { (ticket, startsThread) } else { nil }
    }

    @Test("a name is asked for once for all who wait, and known for a while")
    func once() throws {
        let lookups = Lookups(mostThreads: 4)
        let first = try #require(joined(lookups.ask("a")))
        #expect(first.startsThread)
        let thread = try #require(lookups.next())
        #expect(thread.name == "a")
        let second = try #require(joined(lookups.ask("a")))
        #expect(!second.startsThread)
        #expect(lookups.finished(thread.lookup, .success([address])) == 2)
        #expect(lookups.next() == nil)
        #expect(lookups.threads == 0)
        guard case .known(let addresses) = lookups.ask("a", at: .seconds(59)) else {
            Issue.record("it is known")
            return
        }
        #expect(addresses == [address])
        #expect(joined(lookups.ask("a", at: .seconds(60)))?.startsThread == true)
    }

    @Test("look-ups that hang keep no more threads than allowed; who gives up leaves the queue")
    func bound() throws {
        let lookups = Lookups(mostThreads: 2)
        let asked = ["a", "b", "c", "d"].compactMap { joined(lookups.ask($0)) }
        #expect(asked.map(\.startsThread) == [true, true, false, false])
        let (a, b) = (try #require(lookups.next()), try #require(lookups.next()))
        for ticket in asked[0...2] { #expect(lookups.forget(ticket.ticket) != nil) }
        #expect(lookups.finished(a.lookup, .success([address])) == 0, "nobody waits any more")
        #expect(lookups.next()?.name == "d", "for c nobody waits either")
        #expect(lookups.addresses(of: "a") == [address], "but it is known now")
        #expect(lookups.finished(b.lookup, .failure(.hostNotFound)) == 0)
        #expect(lookups.next() == nil)
    }

    @Test("after a change of the network nothing old is used or joined")
    func networkChanged() throws {
        let lookups = Lookups(mostThreads: 4)
        _ = lookups.ask("a")
        let old = try #require(lookups.next())
        lookups.networkChanged()
        #expect(joined(lookups.ask("a"))?.startsThread == true)
        #expect(lookups.finished(old.lookup, .success([address])) == 1)
        #expect(lookups.addresses(of: "a") == nil)
        let new = try #require(lookups.next())
        #expect(lookups.finished(new.lookup, .success([address])) == 1)
        #expect(lookups.addresses(of: "a") == [address])
        lookups.networkChanged()
        #expect(lookups.addresses(of: "a") == nil)
    }

    @Test("where the system gives no thread those who wait hear of it")
    func noThread() {
        let lookups = Lookups(mostThreads: 4)
        _ = lookups.ask("a")
        #expect(lookups.threadFailed() == 1)
        #expect(joined(lookups.ask("a"))?.startsThread == true)
    }

    @Test(
        "the names to look up are those that libcurl will want",
        arguments: [
            ("http://Host.test/", nil, ["host.test:80"]), ("https://host.test:8443/x", nil, ["host.test:8443"]),
            ("http://127.1/", nil, []), ("http://[::1]:80/", nil, []), ("http://LOCALHOST/", nil, []),
            ("http://a.localhost/", nil, []), ("http://host.test/", "proxy.test:3128", ["proxy.test:3128"]),
            ("http://host.test/", "http://u:p@proxy.test", ["proxy.test:1080"]),
            ("https://host.test/", "https://proxy.test", ["proxy.test:443"]),
            ("http://host.test/", "192.0.2.1:80", []),
            ("http://host.test/", "socks5://proxy.test:9", ["proxy.test:9", "host.test:80"]),
            ("http://host.test/", "socks5h://proxy.test:9", ["proxy.test:9"]),
            ("http://b\u{FC}cher.test/", nil, ["xn--bcher-kva.test:80"]),
        ] as [(String, String?, [String])])
    func names(url: String, proxy: String?, expected: [String]) throws {
        let route = NetworkRoute(to: try #require(URL(string: url)), by: proxy)
        #expect(route.names.map { "\($0.host):\($0.port)" } == expected)
        #expect(route.proxy == proxy ?? "")
    }

    @Test("no_proxy names hosts, domains and ranges of addresses, also beside a proxy that is set")
    func exemptions() throws {
        let list = "example.com,.internal.test.,192.0.2.0/24,2001:db8::/32,198.51.100.7"
        for fixed in [nil, "http://proxy.test:3128"] {
            let settings = ProxySettings(
                fixed: fixed, environment: ["http_proxy": "http://proxy.test:3128", "no_proxy": list])
            for (host, isExempt) in [
                ("example.com", true), ("www.example.com.", true), ("notexample.com", false),
                ("a.internal.test", true), ("192.0.2.200", true), ("192.0.3.1", false), ("[2001:db8::7]", true),
                ("198.51.100.7", true), ("198.51.100.8", false),
            ] {
                let url = try #require(URL(string: "http://\(host)/"))
                #expect((settings.host(for: url) == nil) == isExempt, "\(host)")
            }
        }
    }
}
