import Foundation
import Testing

@testable import DipperData

@Suite("Storing, and using what is stored", .timeLimit(.minutes(2)))
struct StoredAnswerTests {
    @Test("a success may be stored though it says nothing; other statuses need a validator, or must say how long")
    func statuses() {
        let tag: HTTPHeaders = ["ETag": "\"a\""]
        let fresh: HTTPHeaders = ["Cache-Control": "max-age=60"]
        for status in [200, 203, 204] { #expect(Storing.mayStore(status: status, request: [:], response: [:])) }
        for status in [300, 301, 308, 404, 405, 410, 414, 451, 501] {
            for (headers, mayStore) in [([:], false), (tag, true), (fresh, true)] {
                #expect(Storing.mayStore(status: status, request: [:], response: headers) == mayStore, "\(status)")
            }
        }
        for status in [201, 202, 299, 302, 303, 307, 400, 403, 418, 499, 500, 502, 503, 504, 599] {
            for (headers, mayStore) in [
                (tag, false), (fresh, true), (["Expires": "0"], true), (["Cache-Control": "public"], true),
                (["Cache-Control": "private"], true), (["Cache-Control": "s-maxage=9"], false),
            ] as [(HTTPHeaders, Bool)] {
                #expect(Storing.mayStore(status: status, request: [:], response: headers) == mayStore, "\(status)")
            }
        }
        for status in [0, 100, 103, 199, 206, 304, 600, -1] {
            #expect(!Storing.mayStore(status: status, request: [:], response: fresh), "\(status)")
        }
    }

    @Test("no-store, Vary: * and a must-understand that is not understood forbid, whatever else is said")
    func forbidden() {
        let understand = "must-understand, no-store, max-age=9"
        for (response, request, mayStore) in [
            ("max-age=10000, public", "", true), ("max-age=10000, public, No-StOrE", "", false),
            ("", "no-store", false),
            ("no-cache", "", true), (understand, "", true), (understand, "no-store", false),
        ] {
            let (response, request): (HTTPHeaders, HTTPHeaders) = (
                ["Cache-Control": response], ["Cache-Control": request]
            )
            #expect(Storing.mayStore(status: 200, request: request, response: response) == mayStore, "\(response)")
        }
        #expect(Storing.mayStore(status: 200, request: ["Authorization": "x"], response: ["Cache-Control": "private"]))
        for status in [299, 599] {
            #expect(!Storing.mayStore(status: status, request: [:], response: ["Cache-Control": understand]))
        }
        #expect(!Storing.mayStore(status: 200, request: [:], response: ["Vary": "*", "Cache-Control": "max-age=9"]))
        #expect(!Storing.mayStore(status: 200, request: [:], response: ["Vary": "", "vary": "Foo, *"]))
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
            freshness: Freshness(generated: 0, until: until),
            control: CacheControl(response: ["Cache-Control": directives]))
    }

    private static let swr = "stale-while-revalidate=50"

    @Test(
        "how an answer that is fresh until 100 may be used",
        arguments: [
            // What the response says, what the request says, the age, the use.
            ("", "", 0, .fresh), ("", "", 99, .fresh), ("", "", 100, .revalidate), ("", "", 1_000, .revalidate),
            ("no-cache", "", 0, .revalidate), ("no-cache=\"a\"", "", 0, .fresh), ("", "no-cache", 0, .revalidate),
            ("no-cache, stale-while-revalidate=99", "max-stale", 110, .revalidate),
            ("must-revalidate", "", 99, .fresh), ("must-revalidate", "", 100, .revalidate),
            ("must-revalidate", "max-stale", 101, .revalidate),
            ("must-revalidate, stale-while-revalidate=50", "", 101, .revalidate), ("immutable", "", 50, .fresh),
            ("immutable", "max-age=0", 50, .fresh), ("immutable", "no-cache", 50, .revalidate),
            ("immutable", "", 100, .revalidate), ("immutable", "max-age=0", 100, .revalidate),
            ("immutable", "max-age=10", 50, .revalidate), ("", "max-age=0", 0, .revalidate),
            ("", "max-age=60", 60, .fresh), ("", "max-age=60", 61, .revalidate),
            ("", "max-age=600", 101, .revalidate), ("", "min-fresh=20", 80, .fresh),
            ("", "min-fresh=21", 80, .revalidate), ("", "min-fresh=21, max-stale", 80, .revalidate),
            ("", "max-stale", 99, .fresh), ("", "max-stale", 1_000_000, .stale), ("", "max-stale=20", 120, .stale),
            ("", "max-stale=20", 121, .revalidate), ("", "max-stale=0", 101, .revalidate),
            ("", "max-age=60, max-stale=20", 80, .stale), ("", "max-age=60, max-stale=20", 81, .revalidate),
            ("", "max-age=0, max-stale", 80, .stale), ("must-revalidate", "max-age=60, max-stale", 80, .stale),
            (swr, "", 99, .fresh), (swr, "", 100, .staleWhileRevalidating), (swr, "", 149, .staleWhileRevalidating),
            (swr, "", 150, .revalidate), ("stale-while-revalidate=0", "", 100, .revalidate),
            (swr, "no-cache", 120, .revalidate), (swr, "max-age=500", 120, .revalidate),
            (swr, "max-age=10", 80, .revalidate), (swr, "min-fresh=1", 120, .revalidate),
            (swr, "max-stale", 120, .staleWhileRevalidating), (swr, "max-stale", 160, .stale),
            (swr, "max-stale=10", 120, .revalidate), ("stale-if-error=50", "", 120, .revalidate),
            ("", "only-if-cached", 50, .fresh), ("", "only-if-cached", 120, .revalidate),
            ("", "no-store", 50, .fresh), ("proxy-revalidate, s-maxage=1", "max-stale", 120, .stale),
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

    private static let sie = "stale-if-error=20"

    @Test(
        "whether an answer that is fresh until 100 may stand in for a failure",
        arguments: [
            ("", "", 50, false), ("", "", 120, false), (sie, "", 50, true), (sie, "", 120, true),
            (sie, "", 121, false), ("", sie, 120, true), ("", sie, 121, false), (sie, "stale-if-error=60", 150, true),
            ("stale-if-error=60", sie, 150, true), (sie, "max-age=0", 120, true), (sie, "no-cache", 120, false),
            ("stale-if-error=20, no-cache", "", 120, false), ("stale-if-error=20, must-revalidate", "", 120, false),
            ("stale-if-error=20, no-cache=\"a\"", "", 120, true), ("stale-if-error", "", 120, false),
            ("stale-if-error=0", "", 100, false), ("", "stale-if-error=0", 100, false),
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
