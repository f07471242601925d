import Foundation
import Testing

@testable import DipperData

@Suite("Redirects and priority", .timeLimit(.minutes(5)))
struct RedirectTests {
    private let base = "http://example.com/b/c/d;p?q"

    private func target(_ location: String, from: String, status: Int = 302) throws -> Result<String, DipperError>? {
        Redirect.target(of: status, headers: ["location": location], from: try #require(URL(string: from)))?
            .map(\.absoluteString)
    }

    @Test(
        "a location is resolved against the URL it comes from",
        arguments: [
            ("https://other/x", "https://other/x"), ("HTTP://Other/x", "HTTP://Other/x"),
            ("g", "http://example.com/b/c/g"), ("./g/", "http://example.com/b/c/g/"), ("/g", "http://example.com/g"),
            ("//g", "http://g"), ("?y", "http://example.com/b/c/d;p?y"),
            ("g?y/../x", "http://example.com/b/c/g?y/../x"),
            ("..", "http://example.com/b/"), ("../../../g", "http://example.com/g"),
            (";x", "http://example.com/b/c/;x"),
            ("#s", "http://example.com/b/c/d;p?q#s"), (" /g ", "http://example.com/g"),
            ("/a b", "http://example.com/a%20b"), ("/%C3%BC", "http://example.com/%C3%BC"),
            ("/ü", "http://example.com/%C3%BC"), ("http://[::1]:8080/", "http://[::1]:8080/"),
        ])
    func resolution(location: String, expected: String) throws {
        #expect(try target(location, from: base) == .success(expected))
    }

    @Test("the fragment is inherited unless the location has its own")
    func fragment() throws {
        #expect(try target("/g", from: base + "#top%20a") == .success("http://example.com/g#top%20a"))
        #expect(try target("/g#end", from: base + "#top") == .success("http://example.com/g#end"))
        #expect(try target("https://other/", from: base + "#top") == .success("https://other/#top"))
    }

    @Test("only some statuses redirect, and only with a location")
    func statuses() throws {
        for status in [301, 302, 303, 307, 308] {
            #expect(try target("/g", from: base, status: status) == .success("http://example.com/g"))
        }
        for status in [200, 201, 300, 304, 305, 306, 309, 404, 500] {
            #expect(try target("/g", from: base, status: status) == nil)
        }
        #expect(Redirect.target(of: 302, headers: [:], from: try #require(URL(string: base))) == nil)
    }

    @Test(
        "a location that is no URL with a host is a malformed answer",
        arguments: [
            "", "  ", "http://", "http:g", "http:///x", "//", "http://[bad/", "http://h:abc/", "http://h:99999/",
        ])
    func malformed(location: String) throws {
        #expect(try target(location, from: base) == .failure(.malformedResponse))
    }

    @Test("so are two locations; the same twice is one")
    func twoLocations() throws {
        let url = try #require(URL(string: base))
        #expect(
            Redirect.target(of: 301, headers: ["Location": "/a", "Location": "/b"], from: url)
                == .failure(.malformedResponse))
        #expect(
            Redirect.target(of: 301, headers: ["Location": "/a", "Location": "/a"], from: url)
                == .success(try #require(URL(string: "http://example.com/a"))))
    }

    @Test(
        "no other scheme is followed", arguments: ["ftp://h/x", "file:///etc/passwd", "mailto:a@b", "data:,x", "a:b"])
    func scheme(location: String) throws {
        let result = try #require(try target(location, from: base))
        #expect(result == .failure(.unsupportedScheme))
        if case .failure(let error) = result {
            #expect(error.detail == String(location.prefix { $0 != ":" }))
        }
    }

    @Test(
        "an origin is scheme, host and port",
        arguments: [
            ("http://a/x", "http://a/y?z", true), ("http://A:80/", "HTTP://a/", true),
            ("https://a/", "https://a:443/", true), ("http://a/", "https://a/", false),
            ("http://a/", "http://a:8080/", false), ("http://a:443/", "https://a/", false),
            ("http://a/", "http://b.a/", false), ("http://u:p@a/", "http://a/", true), ("http:x", "http:x", false),
        ])
    func origin(one: String, other: String, expected: Bool) throws {
        let (one, other) = (try #require(URL(string: one)), try #require(URL(string: other)))
        #expect(Redirect.isSameOrigin(one, other) == expected)
        #expect(Redirect.isSameOrigin(other, one) == expected)
    }

    @Test("credentials do not leave their origin")
    func headers() throws {
        let headers: HTTPHeaders = [
            "AUTHORIZATION": "1", "Cookie": "2", "cookie2": "3", "Proxy-Authorization": "4", "WWW-Authenticate": "5",
            "X-Token": "6", "Accept": "7", "Host": "8",
        ]
        let from = try #require(URL(string: "https://a/x"))
        let same = try #require(URL(string: "https://A:443/y"))
        let other = try #require(URL(string: "http://a/x"))
        #expect(Redirect.headers(headers, from: from, to: same, sensitive: ["x-token"]) == headers)
        #expect(Redirect.headers(headers, from: from, to: other, sensitive: ["x-token"]) == ["Accept": "7"])
        #expect(
            Redirect.headers(headers, from: from, to: other, sensitive: []) == ["Accept": "7"], "any may be a secret")
        #expect(Redirect.headers(headers, from: from, to: other, sensitive: ["accept"]).isEmpty)
    }

    @Test("what is urgent stands before what is not, whatever the level")
    func priority() {
        #expect(
            [0, 49, 50, 51, 100].map { PriorityField.text(isUrgent: true, level: $0) } == [
                "u=3", "u=3", "u=2", "u=1", "u=1",
            ])
        #expect(
            [0, 49, 50, 51, 100].map { PriorityField.text(isUrgent: false, level: $0) } == [
                "u=7", "u=7", "u=6", "u=5", "u=5",
            ])
    }
}
