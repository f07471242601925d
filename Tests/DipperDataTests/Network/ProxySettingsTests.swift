import Foundation
import Testing

@testable import DipperData

@Suite("The proxy of a request is the one that libcurl chooses", .timeLimit(.minutes(1)))
struct ProxySettingsTests {
    private func proxy(_ url: String, _ environment: [String: String], fixed: String? = nil) -> String? {
        URL(string: url).flatMap { ProxySettings(fixed: fixed, environment: environment).proxy(for: $0) }
    }

    @Test(
        "no_proxy names hosts, domains, addresses and networks",
        arguments: [
            ("a.test", "*", true), ("a.test", "a.test", true), ("A.Test.", "a.test", true),
            ("b.a.test", "a.test", true),
            ("b.a.test", ".a.test.", true), ("ba.test", "a.test", false), ("a.test", "x.test, a.test", true),
            ("a.test", "", false), ("10.1.2.3", "10.1.2.3", true), ("10.1.2.3", "10.0.0.0/8", true),
            ("11.1.2.3", "10.0.0.0/8", false), ("10.1.2.3", "10.0.0.0/x", false), ("10.1.2.3", "2.3", false),
            ("[fd00::1]", "[fd00::1]", true), ("[fd00::1]", "fd00::/16", true), ("[fe00::1]", "fd00::/16", false),
        ])
    func exempt(host: String, list: String, isExempt: Bool) {
        for name in ["no_proxy", "NO_PROXY"] {
            #expect(proxy("http://\(host)/", ["http_proxy": "p:1", name: list]) == (isExempt ? nil : "p:1"))
        }
        #expect(proxy("http://\(host)/", ["no_proxy": list], fixed: "q:2") == (isExempt ? nil : "q:2"))
    }

    @Test("the variable of the scheme comes before the one for all, and a client cannot set the one for HTTP")
    func variables() {
        let all = ["http_proxy": "h:1", "HTTPS_PROXY": "s:2", "all_proxy": "a:3"]
        #expect(proxy("http://a.test/", all) == "h:1" && proxy("https://a.test/", all) == "s:2")
        #expect(proxy("http://a.test/", ["HTTP_PROXY": "h:1", "ALL_PROXY": "a:3"]) == "a:3")
        #expect(proxy("http://a.test/", ["HTTP_PROXY": "h:1"]) == nil)
        #expect(proxy("http://a.test/", all, fixed: "") == nil)
    }

    @Test(
        "the URL of an HTTP proxy has no secrets; a proxy of another kind has none",
        arguments: [
            ("user:secret@p.test:1", "http://p.test:1"), ("http://user:secret@p.test/", "http://p.test"),
            ("HTTPS://p.test:2/x?y", "HTTPS://p.test:2"), ("socks5://user:secret@p.test:1", nil), ("", nil),
        ])
    func httpProxy(text: String, url: String?) throws {
        let target = try #require(URL(string: "https://a.test/"))
        #expect(ProxySettings(fixed: text, environment: [:]).httpProxy(for: target)?.absoluteString == url)
    }
}
