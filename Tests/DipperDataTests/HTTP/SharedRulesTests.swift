import TestSupport
import Testing

@testable import DipperData

@Suite("The rules of a shared cache", .timeLimit(.minutes(2)))
struct SharedRulesTests {
    private let now: TimeInterval = 784_111_777

    private func date(_ offset: TimeInterval) -> String { Date(timeIntervalSince1970: now + offset).httpText }

    private func control(_ headers: HTTPHeaders) -> CacheControl { CacheControl(response: headers, isShared: true) }

    // MARK: Targeted fields

    private static let (on, off) = (FieldDictionary.Value.boolean(true), FieldDictionary.Value.boolean(false))

    @Test(
        "a dictionary of a structured field is read, the last value of each name",
        arguments: [
            ("", [:]), ("max-age=60", ["max-age": .integer(60)]), ("a, b=?1 , c=?0", ["a": on, "b": on, "c": off]),
            ("a=1,a=-2", ["a": .integer(-2)]), (" a;x=1;y, b\t,\tc ", ["a": on, "b": on, "c": on]),
            ("a=\"x, \\\"y\\\\\"", ["a": .string("x, \"y\\")]), ("*a_b-c.d=x:/y", ["*a_b-c.d": .other]),
            ("a=1.5, b=:aGk=:, c=(1 \"x\";y  z);q, d=*t", ["a": .other, "b": .other, "c": .other, "d": .other]),
            ("a=()", ["a": .other]), ("a=999999999999999", ["a": .integer(999_999_999_999_999)]),
        ] as [(String, [String: FieldDictionary.Value])])
    func dictionary(text: String, expected: [String: FieldDictionary.Value]) {
        #expect(FieldDictionary([text])?.members == expected)
    }

    @Test(
        "text with anything wrong in it is no dictionary",
        arguments: [
            "A=1", "MaX-aGe=3", "1", "&&&&&", "a, &&&&&", "a,", ",a", "a,,b", "a =1", "a= 1", "a=", "a b", "a=1;",
            "a;=1",
            "a=1x", "a=\"x", "a=\"\\x\"", "a=\"\u{E9}\"", "a=\u{E9}", "a=?2", "a=?", "a=:x", "a=:?:", "a=(1", "a=(1,2)",
            "a=(1\"x\")", "a=1.", "a=.5", "a=1.2345", "a=-", "a=1234567890123456", "a='x'", "a\"x\"", "a=@1", "a=1, A",
        ])
    func noDictionary(text: String) {
        #expect(FieldDictionary([text]) == nil)
    }

    @Test("lines of one field are one dictionary, and empty ones add nothing")
    func lines() {
        #expect(FieldDictionary(["a", "", "b=2, a=3"])?.members == ["a": .integer(3), "b": .integer(2)])
        #expect(FieldDictionary(["a,", "b"]) == nil && FieldDictionary([])?.members == [:])
    }

    @Test("a dictionary of too many members is read in part, and nothing is stored by it")
    func manyMembers() {
        func text(_ count: Int) -> String { (0..<count).map { "x\($0)" }.joined(separator: ", ") + ", max-age=60" }
        let (whole, cut) = (FieldDictionary([text(999)]), FieldDictionary([text(1_000)]))
        #expect(whole?.members.count == 1_000 && whole?.isCut == false)
        #expect(cut?.members.count == 1_000 && cut?.isCut == true)
        #expect(control(["CDN-Cache-Control": text(999)]).noStore == false)
        #expect(control(["CDN-Cache-Control": text(1_000)]).noStore)
        #expect(!control(["CDN-Cache-Control": "A", "Cache-Control": "max-age=1"]).isTargeted)
        #expect(control(["CDN-Cache-Control": "max-age=2", "Cache-Control": "max-age=1"]).lifetime == 2)
    }

    @Test("CDN-Cache-Control takes the place of Cache-Control and Expires, unless it is empty or cannot be read")
    func targeted() {
        func both(_ targeted: String) -> HTTPHeaders {
            ["CDN-Cache-Control": targeted, "Cache-Control": "max-age=100", "Expires": date(500), "Date": date(0)]
        }
        for (text, expected) in [
            ("max-age=60", 60), ("max-age=3600, s-maxage=7", 7), ("s-maxage=9", 9), ("max-age=1, max-age=8", 8),
            ("max-age=9;x=y, z", 9), ("max-age=0", 0), ("max-age", 0), ("max-age=\"60\"", 0), ("max-age=60.0", 0),
            ("max-age=-1", 0), ("no-cache, max-age=60", -.infinity), ("public", 0), ("max-age=?0", 0),
            // Not to be read: the other fields count.
            ("", 100), ("MaX-aGe=60", 100), ("max-age = 60", 100), ("max-age=60, &&&&&", 100), ("max-age=60,", 100),
        ] as [(String, TimeInterval)] {
            #expect(left(both(text)) == expected, "\(text)")
        }
        #expect(left(both("max-age=60"), isShared: false) == 100)
        #expect(
            control(both("private=\"a\"")).privateFields == ["a"] && !control(both("private=\"a\"")).isWhollyPrivate)
        #expect(control(both("no-store")).noStore && control(both("private")).isWhollyPrivate)
        #expect(control(both("private=a")).isWhollyPrivate, "a token names no fields")
        #expect(!control(both("no-store=?0")).noStore)
        #expect(!allows(["CDN-Cache-Control": "no-store", "Cache-Control": "max-age=100"]))
        #expect(allows(["CDN-Cache-Control": "max-age=100", "Cache-Control": "no-store, private"]))
        #expect(!allows(["CDN-Cache-Control": "max-age=100, &&", "Cache-Control": "no-store"]))
    }

    // MARK: Freshness

    private func left(_ headers: HTTPHeaders, isShared: Bool = true) -> TimeInterval {
        Freshness(
            status: 200, headers: headers, requested: now, received: now, defaultLifetime: nil, isShared: isShared
        ).until - now
    }

    @Test("s-maxage counts before max-age and Expires, from when the answer was made")
    func lifetime() {
        for (headers, expected) in [
            (["Cache-Control": "s-maxage=10, max-age=60"], 10), (["Cache-Control": "max-age=1, s-maxage=60"], 60),
            (["Cache-Control": "max-age=60", "cache-control": "s-maxage=10"], 10),
            (["Cache-Control": "s-maxage=10", "Expires": date(100)], 10),
            (["Cache-Control": "s-maxage=x, max-age=9"], 0),
            (["Cache-Control": "s-maxage=60, s-maxage=10"], 10), (["Cache-Control": "s-maxage=60", "Age": "20"], 40),
            (["Cache-Control": "s-maxage=60", "Date": date(-30)], 30), (["Cache-Control": "max-age=60"], 60),
            (["Cache-Control": "s-maxage=60, no-cache"], -.infinity), (["Expires": date(100)], 100),
        ] as [(HTTPHeaders, TimeInterval)] {
            #expect(left(headers) == expected, "\(headers.fields)")
        }
    }

    @Test(
        "a stale answer with must-revalidate, proxy-revalidate or s-maxage is not used",
        arguments: [
            ("", .stale, true), ("must-revalidate", .revalidate, false), ("proxy-revalidate", .revalidate, false),
            ("s-maxage=1", .revalidate, false), ("private", .revalidate, false), ("private=\"a\"", .stale, true),
        ] as [(String, StoredUse, Bool)])
    func stale(directives: String, use: StoredUse, isUsedOffline: Bool) {
        let answer = StoredAnswer(
            freshness: Freshness(generated: 0, until: 100), control: control(["Cache-Control": directives]))
        #expect(answer.use(for: ["Cache-Control": "max-stale"], at: 120) == use)
        #expect(answer.mayServeDisconnected(for: [:]) == isUsedOffline)
        // What a private cache has kept for its user.
        #expect(answer.use(for: [:], at: 50) == (directives == "private" ? .revalidate : .fresh))
    }

    // MARK: Storing

    private func allows(_ response: HTTPHeaders, _ request: HTTPHeaders = [:], status: Int = 200) -> Bool {
        Storing.allows(status: status, request: request, response: response, isShared: true)
    }

    @Test("an answer that is private or sets a cookie is for one client")
    func personal() {
        #expect(allows([:]) && allows(["Cache-Control": "private=\"a\""]) && allows(["Vary": "Cookie"]))
        let names = (0..<2_000).map { "f\($0)" }.joined(separator: ",")
        for headers in [
            ["Cache-Control": "private"], ["Cache-Control": "private=\"\""],
            ["Cache-Control": "private=\"a\", private"],
            ["Cache-Control": "private=\"\(names)\""], ["Cache-Control": "no-store"], ["Set-Cookie": "a=b"],
            ["set-cookie2": "a=b", "Cache-Control": "public"], ["Vary": "*"],
        ] as [HTTPHeaders] {
            #expect(!allows(headers), "\(headers)")
        }
        #expect(Storing.allows(status: 200, request: [:], response: ["Cache-Control": "private", "Set-Cookie": "a=b"]))
        let understand: HTTPHeaders = ["Cache-Control": "must-understand, no-store, max-age=9"]
        #expect(allows(understand) && !allows(understand, status: 599))
    }

    @Test("the answer to a request with credentials is for its client, unless the server says otherwise")
    func credentials() {
        for name in ["Authorization", "authorization", "Cookie", "Proxy-Authorization"] {
            let request = HTTPHeaders([.init(name, "x")])
            for (directives, isAllowed) in [
                ("max-age=60", false), ("proxy-revalidate, max-age=60", false), ("public", true), ("s-maxage=60", true),
                ("must-revalidate, max-age=60", true), ("public, private", false), ("public, no-store", false),
            ] {
                #expect(allows(["Cache-Control": directives], request) == isAllowed, "\(name) \(directives)")
                #expect(Storing.allows(status: 200, request: request, response: ["Cache-Control": "max-age=60"]))
            }
        }
    }

    @Test("private permits no other status to be kept by a shared cache, but s-maxage does")
    func statuses() {
        func mayStore(_ directives: String) -> Bool {
            Storing.mayStore(
                status: 503, request: [:], response: ["Cache-Control": directives], isShared: true)
        }
        #expect(mayStore("s-maxage=9") && mayStore("public") && mayStore("max-age=9"))
        #expect(!mayStore("private=\"a\"") && !mayStore("private") && !mayStore(""))
        let personal: HTTPHeaders = ["Cache-Control": "private, max-age=60"]
        #expect(!Storing.mayRemember(status: 404, request: [:], response: personal, isShared: true))
        #expect(Storing.mayRemember(status: 404, request: [:], response: personal))
    }

    @Test("fields that private names are not kept, nor those that no-cache names")
    func fields() {
        let response: HTTPHeaders = [
            "Cache-Control": "private=\"X-User, a\", no-cache=\"b\"", "x-user": "ada", "A": "1", "B": "2", "C": "3",
        ]
        #expect(Storing.fields(of: response, isShared: true).fields.map(\.name) == ["Cache-Control", "C"])
        #expect(Storing.fields(of: response).fields.map(\.name) == ["Cache-Control", "x-user", "A", "C"])
    }

    @Test("a redirect for one client makes what it leads to an answer for one client")
    func redirects() throws {
        let (one, other) = (try #require(URL(string: "http://h/a")), try #require(URL(string: "http://h/b")))
        func mayStore(_ headers: HTTPHeaders, _ request: HTTPHeaders = [:], isShared: Bool = true) -> Bool {
            var chain = RedirectChain()
            chain.append(
                RedirectChain.Hop(status: 302, headers: headers, requested: now, received: now), from: one, to: other)
            return chain.mayStore(ignoresServer: false, request: request, isShared: isShared)
        }
        #expect(mayStore([:]) && mayStore(["Cache-Control": "private"], isShared: false))
        #expect(!mayStore(["Cache-Control": "private"]) && !mayStore(["Set-Cookie": "a=b"]))
        #expect(!mayStore(["CDN-Cache-Control": "no-store"]) && !mayStore([:], ["Authorization": "x"]))
        #expect(mayStore(["Cache-Control": "public"], ["Authorization": "x"]))
    }
}
