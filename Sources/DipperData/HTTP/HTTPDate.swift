import Foundation

/// Dates of HTTP fields in the three forms a recipient must accept (RFC 9110, section 5.6.7):
/// `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94 08:49:37 GMT`, `Sun Nov  6 08:49:37 1994`.
enum HTTPDate {
    static func parse(_ text: String) -> Date? {
        let parts = text.split(whereSeparator: { $0 == " " || $0 == "," || $0 == "-" }).map(String.init)
        switch parts.count {
        case 6 where parts[5] == "GMT" || parts[5] == "UTC":
            return date(day: parts[1], month: parts[2], year: parts[3], time: parts[4])
        case 5:
            return date(day: parts[2], month: parts[1], year: parts[4], time: parts[3])
        default:
            return nil
        }
    }

    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    private static func date(day: String, month: String, year: String, time: String) -> Date? {
        let clock = time.split(separator: ":", omittingEmptySubsequences: false).map { Int($0) }
        guard
            let day = Int(day), (1...31).contains(day),
            let month = months.firstIndex(of: month),
            var year = Int(year), (0...9999).contains(year),
            clock.count == 3,
            let hour = clock[0], (0...23).contains(hour),
            let minute = clock[1], (0...59).contains(minute),
            let second = clock[2], (0...60).contains(second)
        else { return nil }
        if year < 100 { year += year < 70 ? 2000 : 1900 }
        return Date(
            timeIntervalSince1970: Double(
                days(year: year, month: month + 1, day: day) * 86_400 + hour * 3_600 + minute * 60 + second))
    }

    /// Days since 1970-01-01 in the proleptic Gregorian calendar; years start in March so that the leap day comes last.
    private static func days(year: Int, month: Int, day: Int) -> Int {
        let marchYear = month <= 2 ? year - 1 : year
        let era = (marchYear >= 0 ? marchYear : marchYear - 399) / 400
        let yearOfEra = marchYear - era * 400
        let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }
}
