import DipperData
import Foundation
import TestSupport
import Testing

@testable import CacheProxy

@Suite("Parts of the sample proxy", .timeLimit(.minutes(2)))
struct CacheProxyPartsTests {
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
