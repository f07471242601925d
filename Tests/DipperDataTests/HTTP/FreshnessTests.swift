import TestSupport
import Testing

@testable import DipperData

@Suite("Freshness", .timeLimit(.minutes(2)))
struct FreshnessTests {
    private let now: TimeInterval = 784_111_777

    private func date(_ offset: TimeInterval) -> String { Date(timeIntervalSince1970: now + offset).httpText }

    /// Seconds from reception until it is stale.
    private func left(
        _ headers: HTTPHeaders, status: Int = 200, delay: TimeInterval = 0, default lifetime: TimeInterval? = nil
    ) -> TimeInterval {
        freshness(headers, status: status, delay: delay, default: lifetime).until - now
    }

    private func freshness(
        _ headers: HTTPHeaders, status: Int = 200, delay: TimeInterval = 0, default lifetime: TimeInterval? = nil
    ) -> Freshness {
        Freshness(
            status: status, headers: headers, requested: now - delay, received: now, defaultLifetime: lifetime)
    }

    @Test("the initial age is the greater of what the dates and what Age with the delay say")
    func initialAge() {
        for (headers, delay, expected) in [
            ([:], 0, 0), (["Date": date(0)], 0, 0), (["Date": date(-30)], 0, 30), (["Date": date(30)], 0, 0),
            (["Date": "foo"], 0, 0), (["Age": "15"], 0, 15), (["Age": "15"], 4, 19), ([:], 4, 4), ([:], -4, 0),
            (["Age": "15", "Date": date(-30)], 4, 30), (["Age": "40", "Date": date(-30)], 0, 40),
            // Of several the first counts, and only as a number.
            (["Age": "abc"], 0, 0), (["Age": "-7200"], 0, 0), (["Age": "7200.0"], 0, 0), (["Age": ""], 0, 0),
            (["Age": "7200;foo=bar"], 0, 0), (["Age": "\"5\""], 0, 0), (["Age": "2147483647"], 0, 2_147_483_647),
            (["Age": "2147483649"], 0, 2_147_483_648), (["Age": "99999999999999999999"], 0, 2_147_483_648),
            (["Age": "7200, 0"], 0, 7200), (["Age": "0, 7200"], 0, 0), (["Age": "7200", "Age": "0"], 0, 7200),
            (["Age": "0", "Age": "7200"], 0, 0), (["Age": "abc, 7200"], 0, 0), (["Age": "007"], 0, 7),
        ] as [(HTTPHeaders, TimeInterval, TimeInterval)] {
            #expect(freshness(headers, delay: delay).age(at: now) == expected, "\(headers.fields)")
        }
        #expect(freshness(["Age": "40"]).age(at: now + 10.5) == 50.5)
        #expect(freshness(["Age": "40"]).age(at: now - 1_000) == 0)
    }

    @Test("max-age counts from when the answer was made and beats Expires, which is relative to Date")
    func explicit() {
        for (headers, expected) in [
            (["Cache-Control": "max-age=3600"], 3600), (["Cache-Control": "max-age=3600", "Expires": "0"], 3600),
            (["Cache-Control": "max-age=10", "Age": "15", "Date": date(0)], -5),
            (["Cache-Control": "max-age=3600", "Expires": date(-10_000)], 3600),
            (["Cache-Control": "max-age=0", "Expires": date(10_000)], 0),
            (["Cache-Control": "s-maxage=3600, max-age=1"], 1), (["Cache-Control": "s-maxage=3600"], 0),
            (["Cache-Control": "s-maxage=1", "Expires": date(100)], 100),
            (["Cache-Control": "max-age=60, immutable"], 60),
            (["Expires": date(3600), "Date": date(0)], 3600), (["Expires": date(0), "Date": date(0)], 0),
            (["Expires": date(-100), "Date": date(0)], 0), (["Expires": date(3600)], 3600),
            (["Expires": date(10), "Date": "foo"], 10),
            // A server whose clock is fast, and one whose clock is slow or whose answer is old.
            (["Expires": date(300), "Date": date(400)], 0), (["Expires": date(500), "Date": date(400)], 100),
            (["Expires": date(50), "Date": date(-100)], 50),
            (["Date": date(-10), "Expires": date(10), "Age": "25"], -5),
            (["Date": date(10), "Expires": date(20), "Age": "15"], -5),
            // Of several Expires the earliest counts.
            (["Expires": date(10), "expires": date(20)], 10), (["Expires": date(20), "Expires": date(10)], 10),
            (["Expires": date(20), "Expires": "0"], 0),
        ] as [(HTTPHeaders, TimeInterval)] {
            #expect(left(headers) == expected, "\(headers.fields)")
        }
        #expect(left(["Cache-Control": "max-age=3600"], delay: 10) == 3590)
        #expect(left(["Cache-Control": "max-age=x", "Expires": date(10_000)], default: 60) == 0)
        #expect(left(["Cache-Control": "max-age=60"], status: 599) == 60)
        // An Expires that is no date is in the past, default lifetime or not.
        for text in [
            "0", "", "Thu, 18 Aug 2050 02:01:18 UTC",
            "Thu, 18 Aug 2050 02:01:18 GMT, Thu, 18 Aug 2050 02:01:18 GMT",
        ] {
            #expect(left(["Expires": text, "Date": date(0)], default: 60) == 0, "\(text)")
            #expect(left(["Expires": text, "Last-Modified": date(-1_000)]) == 0, "\(text)")
        }
    }

    @Test("a success that says nothing is fresh for the default, from reception on; anything else not at all")
    func defaultLifetime() {
        for status in [200, 203, 204] { #expect(left([:], status: status, default: 60) == 60) }
        for status in [201, 206, 299, 300, 301, 404, 410, 500] { #expect(left([:], status: status, default: 60) == 0) }
        #expect(left(["Date": date(-1_000_000), "Age": "999"], default: 60) == 60)
        #expect(left(["Last-Modified": date(-1_000), "ETag": "\"a\""], default: 60) == 60)
        #expect(left(["Cache-Control": "private, must-revalidate, s-maxage=1"], default: 60) == 60)
        #expect(left([:], default: .infinity) == .infinity)
        #expect(left([:], default: -5) == 0)
        #expect(left(["Pragma": "no-cache"], default: 60) == 0)
        #expect(left(["Last-Modified": date(-1_000)], status: 404, default: 60) == 0)
    }

    @Test("without a default it is a tenth of the time since the last modification, at most a day")
    func heuristic() {
        let hundred: HTTPHeaders = ["Last-Modified": date(-1_000), "Date": date(0)]
        for status in [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 451, 501] {
            #expect(left(hundred, status: status) == 100, "\(status)")
        }
        for status in [201, 202, 206, 302, 303, 307, 400, 403, 500, 502, 503, 504, 599] {
            #expect(left(hundred, status: status) == 0, "\(status)")
        }
        #expect(left(["Last-Modified": date(-1_000), "Cache-Control": "public"], status: 599) == 100)
        #expect(left(["Last-Modified": date(-100_000_000)]) == 86_400)
        #expect(left(["Last-Modified": date(1_000)]) == 0)
        #expect(left(["Last-Modified": "yesterday"]) == 0)
        #expect(left(["Last-Modified": date(-1_050), "Date": date(-50)]) == 50)
        #expect(left([:]) == 0)
    }
}

@Suite("Dates of HTTP", .timeLimit(.minutes(2)))
struct HTTPDateTests {
    @Test(
        "the three forms of RFC 9110, in any case, are dates",
        arguments: [
            "Sun, 06 Nov 1994 08:49:37 GMT", "SUN, 06 Nov 1994 08:49:37 GMT", "Sun, 06 NOV 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 gMT", " Sun, 06 Nov 1994 08:49:37 GMT\t", "Sunday, 06-Nov-94 08:49:37 GMT",
            "sunday, 06-nov-94 08:49:37 gmt", "Sun Nov  6 08:49:37 1994", "Sun Nov 06 08:49:37 1994",
        ])
    func forms(text: String) {
        #expect(HTTPDate.seconds(text) == 784_111_777)
    }

    @Test(
        "everything else is none",
        arguments: [
            "", "0", "-1", "now", "GMT", "Sun", "Sun,", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Nov 1994 08:49:37 EST", "Sun, 06 Nov 1994 08:49:37 +0000", "Sun, 06 Nov 1994 08:49:37 GMT+1",
            "Sun, 06 Nov 94 08:49:37 GMT", "Sun 06 Nov 1994 08:49:37 GMT", "Sun, 06  Nov  1994 08:49:37 GMT",
            "Sun,06 Nov 1994 08:49:37 GMT", "Sun, 06-Nov-1994 08:49:37 GMT", "Sun, 06-Nov-94 08:49:37 GMT",
            "Sun, 06 Nov 1994 08.49.37 GMT", "Sun, 06 Nov 1994 8:49:37 GMT", "Sun, 6 Nov 1994 08:49:37 GMT",
            "06 Nov 1994 08:49:37 GMT", "Xyz, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Foo 1994 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT", "Sun, 31 Nov 1994 08:49:37 GMT", "Wed, 29 Feb 1995 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT", "Sun, 06 Nov 1994 08:60:37 GMT", "Sun, 06 Nov 1994 08:49:61 GMT",
            "Sunday, 06-Nov-1994 08:49:37 GMT", "Sunday, 06 Nov 1994 08:49:37 GMT", "Sun Nov 6 08:49:37 1994",
            "Sun Nov  6 08:49:37 1994 GMT", "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
            "1994-11-06T08:49:37Z", "784111777", "Sün, 06 Nov 1994 08:49:37 GMT",
        ])
    func notDates(text: String) {
        #expect(HTTPDate.seconds(text) == nil)
    }

    @Test("calendar days are counted right, before 1970 and beyond 2038 too")
    func calendar() {
        #expect(HTTPDate.seconds("Thu, 01 Jan 1970 00:00:00 GMT") == 0)
        #expect(HTTPDate.seconds("Wed, 31 Dec 1969 23:59:59 GMT") == -1)
        #expect(HTTPDate.seconds("Tue, 29 Feb 2000 12:00:00 GMT") == 951_825_600)
        #expect(HTTPDate.seconds("Thu, 18 Aug 2050 02:01:18 GMT") == 2_544_400_878)
        #expect(HTTPDate.seconds("Sat, 31 Dec 2016 23:59:60 GMT") == 1_483_228_800)
        #expect(HTTPDate.seconds("Fri, 31 Dec 9999 23:59:59 GMT") == 253_402_300_799)
    }

    @Test("a year of two digits is at most fifty years ahead")
    func twoDigits() throws {
        // 2027-01-15
        let now: TimeInterval = 1_800_000_000
        for (digits, now, year) in [
            ("27", now, 2027), ("76", now, 2076), ("77", now, 2077), ("78", now, 1978), ("99", now, 1999),
            ("00", now, 2000), ("05", 3_900_000_000, 2105), ("69", HTTPDate.usualNow, 2069),
            ("71", HTTPDate.usualNow, 1971),
        ] {
            let seconds = try #require(HTTPDate.seconds("Monday, 01-Jan-\(digits) 00:00:00 GMT", now: now))
            #expect(Int((1970 + seconds / 31_556_952).rounded()) == year)
        }
        // Within the year it is the moment that counts.
        #expect(HTTPDate.seconds("Friday, 31-Dec-77 00:00:00 GMT", now: now) == 252_374_400)
        #expect(HTTPDate.seconds("Friday, 31-Dec-77 00:00:00 GMT", now: .infinity) == nil)
    }
}
