import Foundation
import Testing

@testable import DipperData

@Suite("Cache-Control", .timeLimit(.minutes(2)))
struct CacheControlTests {
    private func response(_ lines: String...) -> CacheControl {
        CacheControl(response: HTTPHeaders(lines.map { .init("Cache-Control", $0) }))
    }

    private func request(_ lines: String...) -> CacheControl {
        CacheControl(request: HTTPHeaders(lines.map { .init("cache-control", $0) }))
    }

    @Test(
        "max-age of a response: what is not a number of seconds is stale, a huge one is as long as can be",
        arguments: [
            ("max-age=3600", 3600), ("MaX-aGe=3600", 3600), ("max-age=\"3600\"", 3600), ("max-age=003600", 3600),
            ("max-age=\"36\\00\"", 3600), ("foobar, max-age=3600", 3600), (",, max-age=3600\t,", 3600),
            ("max-age=0", 0), ("max-age=-100", 0), ("max-age=+100", 0), ("max-age=a100", 0), ("max-age=100a", 0),
            ("max-age=3600.0", 0), ("max-age='3600'", 0), ("max-age =3600", 0), ("max-age= 3600", 0), ("max-age", 0),
            ("max-age=", 0), ("max-age=\"\"", 0), ("max-age=\"3600", 0), ("max-age:3600", 0), ("max-age=3600;x", 0),
            ("max-age=٣", 0), ("max-age=\u{301}3", 0),
            ("max-age=2147483647", 2_147_483_647), ("max-age=2147483648", 2_147_483_648),
            ("max-age=99999999999999999999999999", 2_147_483_648),
            ("extension=\"max-age=3600\", max-age=1", 1), ("max-age=1, extension=\"max-age=3600\"", 1),
            ("extension=\"a\\\", max-age=3600\", max-age=\"1\"", 1), ("x=\"open, max-age=3", 3),
            ("max-age=1800, max-age=1", 1), ("max-age=1, max-age=1800", 1), ("max-age=60, max-age=60", 60),
            // None.
            ("", nil), ("max-ages=1", nil), ("x-max-age=1", nil), ("=max-age", nil),
            ("ext=\"max-age=3600\"", nil), ("\"max-age=3\"", nil),
        ] as [(String, TimeInterval?)])
    func maxAge(text: String, expected: TimeInterval?) {
        #expect(response(text).maxAge == expected)
        if expected == nil { #expect(response(text) == response()) }
    }

    @Test("every directive of a response is known, on one line or several")
    func responseDirectives() {
        let lines = response("s-maxage=3600, max-age=1800", "No-StOrE", "max-age=20 , must-revalidate")
        #expect(lines.maxAge == 20 && lines.lifetime == 20 && lines.noStore && lines.mustRevalidate)
        #expect(lines.sharedMaxAge == 3600 && response("s-maxage=x, s-maxage=3").sharedMaxAge == 0)
        let control = response(
            "private, public, immutable, must-understand, no-cache",
            "stale-while-revalidate=30, stale-if-error=\"60\", stale-if-error=x")
        #expect(control.isPrivate && control.isPublic && control.immutable && control.mustUnderstand && control.noCache)
        #expect(control.staleWhileRevalidate == 30)
        #expect(control.staleIfError == 0)
        #expect(!control.noStore && !control.mustRevalidate)
        #expect(response("no-store=1, must-revalidate;x").noStore)
        let named = response("private=\"set-cookie\", proxy-revalidate")
        #expect(named.isPrivate && !named.isWhollyPrivate && named.privateFields == ["set-cookie"])
        #expect(control.isWhollyPrivate && named.proxyRevalidate && !named.forbidsStale && !lines.isShared)
        // These are a request's.
        #expect(response("max-stale, min-fresh=3, only-if-cached") == response())
    }

    @Test("no-cache with names is about these fields; without any it is about all")
    func noCacheFields() {
        #expect(response("no-cache=\"Set-Cookie, X-A\", max-age=3").noCacheFields == ["set-cookie", "x-a"])
        #expect(!response("no-cache=\"a\"").noCache)
        #expect(response("no-cache=a, no-cache=\"a,b\"").noCacheFields == ["a", "b"])
        for text in ["no-cache = \"a\"", "no-cache=", "no-cache=\"\""] { #expect(response(text).noCache) }
        let both = response("no-cache=\"a\", no-cache, no-cache=\"a,b\"")
        #expect(both.noCache && both.noCacheFields == ["a", "b"])
    }

    @Test("every directive of a request is known, and what is not a number is ignored")
    func requestDirectives() {
        let control = request("max-age=10, min-fresh=5, min-fresh=7, max-stale=20", "only-if-cached, no-store")
        #expect(control.maxAge == 10 && control.minFresh == 7 && control.maxStale == 20)
        #expect(control.onlyIfCached && control.noStore && !control.noCache)
        #expect(request("max-stale").maxStale == .infinity)
        #expect(request("max-stale, max-stale=5").maxStale == 5)
        #expect(request("max-stale=").maxStale == nil)
        #expect(request("max-age=x, min-fresh=-1, max-stale=y, stale-if-error=z") == request())
        #expect(request("stale-if-error=9").staleIfError == 9)
        #expect(request("no-cache=x").noCache)
        // These are a response's.
        #expect(request("private, public, immutable, must-revalidate, stale-while-revalidate=1") == request())
        // Pragma counts in a request that has no Cache-Control.
        #expect(CacheControl(request: ["Pragma": "x, No-Cache"]).noCache)
        #expect(!CacheControl(request: ["Pragma": "other"]).noCache)
        #expect(!CacheControl(request: ["Pragma": "no-cache", "Cache-Control": "max-age=3"]).noCache)
        #expect(!CacheControl(response: ["Pragma": "no-cache"]).noCache)
    }
}
