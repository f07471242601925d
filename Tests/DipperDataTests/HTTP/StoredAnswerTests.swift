import Foundation
import Testing

@testable import DipperData

@Suite("Storing, and using what is stored", .timeLimit(.minutes(5)))
struct StoredAnswerTests {
    @Test("a success may be stored though it says nothing; other statuses need a validator, or must say how long")
    func statuses() {
        let tag: HTTPHeaders = ["ETag": "\"a\""]
        let fresh: HTTPHeaders = ["Cache-Control": "max-age=60"]
        for status in [200, 203, 204] { #expect(Storing.mayStore(status: status, request: [:], response: [:])) }
        for status in [300, 301, 308, 404, 405, 410, 414, 451, 501] {
            #expect(!Storing.mayStore(status: status, request: [:], response: [:]), "\(status)")
            #expect(Storing.mayStore(status: status, request: [:], response: tag), "\(status)")
            #expect(Storing.mayStore(status: status, request: [:], response: fresh), "\(status)")
        }
        for status in [201, 202, 299, 302, 303, 307, 400, 403, 418, 499, 500, 502, 503, 504, 599] {
            #expect(!Storing.mayStore(status: status, request: [:], response: tag), "\(status)")
            #expect(Storing.mayStore(status: status, request: [:], response: fresh), "\(status)")
            #expect(Storing.mayStore(status: status, request: [:], response: ["Expires": "0"]), "\(status)")
            #expect(Storing.mayStore(status: status, request: [:], response: ["Cache-Control": "public"]), "\(status)")
            #expect(Storing.mayStore(status: status, request: [:], response: ["Cache-Control": "private"]), "\(status)")
            #expect(!Storing.mayStore(status: status, request: [:], response: ["Cache-Control": "s-maxage=9"]))
        }
        for status in [0, 100, 103, 199, 206, 304, 600, -1] {
            #expect(!Storing.mayStore(status: status, request: [:], response: fresh), "\(status)")
        }
    }

    @Test("no-store of either side forbids, whatever else is said")
    func noStore() {
        let fresh = "max-age=10000, public"
        #expect(Storing.mayStore(status: 200, request: [:], response: ["Cache-Control": fresh]))
        #expect(!Storing.mayStore(status: 200, request: [:], response: ["Cache-Control": fresh + ", No-StOrE"]))
        #expect(!Storing.mayStore(status: 200, request: ["Cache-Control": "no-store"], response: [:]))
        #expect(Storing.mayStore(status: 200, request: ["Authorization": "x"], response: ["Cache-Control": "private"]))
        #expect(Storing.mayStore(status: 200, request: [:], response: ["Cache-Control": "no-cache"]))
    }

    @Test("must-understand lets a known status be stored in spite of no-store, and an unknown one never")
    func mustUnderstand() {
        let understand: HTTPHeaders = ["Cache-Control": "must-understand, no-store, max-age=9"]
        #expect(Storing.mayStore(status: 200, request: [:], response: understand))
        #expect(!Storing.mayStore(status: 200, request: ["Cache-Control": "no-store"], response: understand))
        #expect(!Storing.mayStore(status: 299, request: [:], response: understand))
        #expect(!Storing.mayStore(status: 599, request: [:], response: ["Cache-Control": "must-understand, max-age=9"]))
    }

    @Test("what varies on everything is not stored", arguments: ["*", "*, *", ", *", "*, Foo", "Foo, *"])
    func varyStar(text: String) {
        #expect(!Storing.mayStore(status: 200, request: [:], response: ["Vary": text, "Cache-Control": "max-age=9"]))
        #expect(!Storing.mayStore(status: 200, request: [:], response: ["Vary": "", "vary": text]))
        #expect(Storing.mayStore(status: 200, request: [:], response: ["Vary": "Foo"]))
    }

    @Test("cookies, and fields of the connection, of a proxy and under no-cache are not kept")
    func storedFields() {
        let response: HTTPHeaders = [
            "Connection": "close, A", "Keep-Alive": "x", "Proxy-Authenticate": "x", "Transfer-Encoding": "chunked",
            "Upgrade": "x", "TE": "x", "Trailer": "x", "Proxy-Connection": "x", "a": "1", "b": "2", "C": "3",
            "Cache-Control": "no-cache=\"b\", max-age=3", "WWW-Authenticate": "x", "Set-Cookie": "a=b",
        ]
        #expect(
            Storing.fields(of: response).fields.map(\.name) == [
                "C", "Cache-Control", "WWW-Authenticate",
            ])
    }

    /// Made at 0, fresh until 100 unless the directives say more.
    private func answer(_ directives: String = "", until: TimeInterval = 100) -> StoredAnswer {
        StoredAnswer(
            status: 200, headers: ["Cache-Control": directives], freshness: Freshness(generated: 0, until: until))
    }

    @Test(
        "how an answer that is fresh until 100 may be used",
        arguments: [
            // What the response says, what the request says, the age, the use.
            ("", "", 0, .fresh), ("", "", 99, .fresh), ("", "", 100, .revalidate), ("", "", 1_000, .revalidate),
            ("no-cache", "", 0, .revalidate), ("no-cache=\"a\"", "", 0, .fresh), ("", "no-cache", 0, .revalidate),
            ("no-cache, stale-while-revalidate=99", "max-stale", 110, .revalidate),
            ("must-revalidate", "", 99, .fresh), ("must-revalidate", "", 100, .revalidate),
            ("must-revalidate", "max-stale", 101, .revalidate),
            ("must-revalidate, stale-while-revalidate=50", "", 101, .revalidate),
            ("immutable", "", 50, .fresh), ("immutable", "max-age=0", 50, .fresh),
            ("immutable", "no-cache", 50, .revalidate), ("immutable", "", 100, .revalidate),
            ("immutable", "max-age=0", 100, .revalidate), ("immutable", "max-age=10", 50, .revalidate),
            ("", "max-age=0", 0, .revalidate), ("", "max-age=60", 60, .fresh), ("", "max-age=60", 61, .revalidate),
            ("", "max-age=600", 101, .revalidate),
            ("", "min-fresh=20", 80, .fresh), ("", "min-fresh=21", 80, .revalidate),
            ("", "min-fresh=21, max-stale", 80, .revalidate),
            ("", "max-stale", 99, .fresh), ("", "max-stale", 1_000_000, .stale), ("", "max-stale=20", 120, .stale),
            ("", "max-stale=20", 121, .revalidate), ("", "max-stale=0", 101, .revalidate),
            ("", "max-age=60, max-stale=20", 80, .stale), ("", "max-age=60, max-stale=20", 81, .revalidate),
            ("", "max-age=0, max-stale", 80, .stale), ("must-revalidate", "max-age=60, max-stale", 80, .stale),
            ("stale-while-revalidate=50", "", 99, .fresh),
            ("stale-while-revalidate=50", "", 100, .staleWhileRevalidating),
            ("stale-while-revalidate=50", "", 149, .staleWhileRevalidating),
            ("stale-while-revalidate=50", "", 150, .revalidate), ("stale-while-revalidate=0", "", 100, .revalidate),
            ("stale-while-revalidate=50", "no-cache", 120, .revalidate),
            ("stale-while-revalidate=50", "max-age=500", 120, .revalidate),
            ("stale-while-revalidate=50", "max-age=10", 80, .revalidate),
            ("stale-while-revalidate=50", "min-fresh=1", 120, .revalidate),
            ("stale-while-revalidate=50", "max-stale", 120, .staleWhileRevalidating),
            ("stale-while-revalidate=50", "max-stale", 160, .stale),
            ("stale-while-revalidate=50", "max-stale=10", 120, .revalidate),
            ("stale-if-error=50", "", 120, .revalidate), ("", "only-if-cached", 50, .fresh),
            ("", "only-if-cached", 120, .revalidate), ("", "no-store", 50, .fresh),
            ("proxy-revalidate, s-maxage=1", "max-stale", 120, .stale),
        ] as [(String, String, TimeInterval, StoredUse)])
    func use(response: String, request: String, age: TimeInterval, expected: StoredUse) {
        #expect(answer(response).use(for: ["Cache-Control": request], at: age) == expected)
    }

    @Test("Pragma asks for validation, what never ends is fresh for ever, and an answer from the future is not fresh")
    func moreUse() {
        #expect(answer().use(for: ["Pragma": "no-cache"], at: 1) == .revalidate)
        #expect(answer(until: .infinity).use(for: [:], at: 1e12) == .fresh)
        #expect(answer(until: .infinity).use(for: ["Cache-Control": "min-fresh=99"], at: 1e12) == .fresh)
        #expect(answer().use(for: [:], at: -50) == .revalidate)
    }

    @Test(
        "whether an answer that is fresh until 100 may stand in for a failure",
        arguments: [
            ("", "", 50, false), ("", "", 120, false), ("stale-if-error=20", "", 50, true),
            ("stale-if-error=20", "", 120, true), ("stale-if-error=20", "", 121, false),
            ("", "stale-if-error=20", 120, true), ("", "stale-if-error=20", 121, false),
            ("stale-if-error=20", "stale-if-error=60", 150, true),
            ("stale-if-error=60", "stale-if-error=20", 150, true),
            ("stale-if-error=20", "max-age=0", 120, true), ("stale-if-error=20", "no-cache", 120, false),
            ("stale-if-error=20, no-cache", "", 120, false), ("stale-if-error=20, must-revalidate", "", 120, false),
            ("stale-if-error=20, no-cache=\"a\"", "", 120, true), ("stale-if-error", "", 120, false),
        ] as [(String, String, TimeInterval, Bool)])
    func onError(response: String, request: String, age: TimeInterval, expected: Bool) {
        #expect(answer(response).mayServeOnError(for: ["Cache-Control": request], at: age) == expected)
    }

    @Test("without a way to the server a stale answer will do, unless either side insists")
    func disconnected() {
        #expect(answer().mayServeDisconnected(for: [:]))
        #expect(answer("no-cache=\"a\", proxy-revalidate").mayServeDisconnected(for: ["Cache-Control": "max-age=0"]))
        #expect(!answer("must-revalidate").mayServeDisconnected(for: [:]))
        #expect(!answer("no-cache").mayServeDisconnected(for: [:]))
        #expect(!answer().mayServeDisconnected(for: ["Cache-Control": "no-cache"]))
        #expect(!answer().mayServeDisconnected(for: ["Pragma": "no-cache"]))
    }
}
