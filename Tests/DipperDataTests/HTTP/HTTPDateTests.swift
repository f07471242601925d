import Foundation
import Testing

@testable import DipperData

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
