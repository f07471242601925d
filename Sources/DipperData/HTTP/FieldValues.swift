import Foundation

// Numbers of header fields are read here alone: they are finite and so small that sums of them fit.

/// The dates of HTTP fields, in the three forms that a recipient must accept (RFC 9110, section 5.6.7):
/// `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94 08:49:37 GMT`, `Sun Nov  6 08:49:37 1994`.
///
/// Case does not matter (RFC 9111, section 4.2). Other text, or a zone other than GMT, is no date: a cache must treat
/// such an answer as stale (section 5.3).
enum HTTPDate {
    /// The start of 2020, by which two-digit years are read if the caller gives no time.
    static let usualNow: TimeInterval = 1_577_836_800

    private static let dayNames = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
    private static let shortDayNames = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
    private static let months = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ].map { $0.utf8.reduce(0) { $0 << 8 | Int($1) } }

    /// - Parameter now: the current time. A two-digit year is the latest one that is at most fifty years later.
    static func seconds(_ text: String, now: TimeInterval = usualNow) -> TimeInterval? {
        let bytes = text.trimmingOptionalSpace.utf8
        let name = bytes.prefix { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0.asciiLowercased) }
        let rest = bytes[name.endIndex...]
        func isName(_ day: String) -> Bool { day.utf8.elementsEqual(name.lazy.map(\.asciiLowercased)) }
        guard shortDayNames.contains(where: isName) else {
            guard dayNames.contains(where: isName) else { return nil }
            return Parts(rest, ", DD-bbb-YY HH:MM:SS gmt")?.secondsInTwoDigitYear(now)
        }
        let parts = Parts(rest, ", DD bbb YYYY HH:MM:SS gmt") ?? Parts(rest, " bbb _D HH:MM:SS YYYY")
        return parts.flatMap { $0.seconds(in: $0.number("Y")) }
    }

    private struct Parts {
        private var numbers = InlineArray<26, Int>(repeating: 0)
        /// The three letters, as in ``HTTPDate/months``.
        private var month = 0

        /// In the pattern `b` stands for a letter of the month, a capital letter for a digit of the number it names,
        /// `_` for a space or a digit of the day, and any other character for itself.
        init?(_ bytes: Substring.UTF8View, _ pattern: StaticString) {
            let marks = UnsafeBufferPointer(start: pattern.utf8Start, count: pattern.utf8CodeUnitCount)
            guard bytes.count == marks.count else { return nil }
            for (byte, mark) in zip(bytes, marks) {
                switch mark {
                case UInt8(ascii: "b"): month = month << 8 | Int(byte.asciiLowercased)
                case UInt8(ascii: "_") where byte == UInt8(ascii: " "): break
                case UInt8(ascii: "_"), UInt8(ascii: "A")...UInt8(ascii: "Z"):
                    guard byte.isDigit else { return nil }
                    let place = Self.place(mark == UInt8(ascii: "_") ? UInt8(ascii: "D") : mark)
                    numbers[place] = numbers[place] * 10 + Int(byte - UInt8(ascii: "0"))
                default: guard byte.asciiLowercased == mark else { return nil }
                }
            }
        }

        private static func place(_ letter: UInt8) -> Int { Int(letter - UInt8(ascii: "A")) }

        func number(_ mark: Unicode.Scalar) -> Int { numbers[Self.place(UInt8(ascii: mark))] }

        func secondsInTwoDigitYear(_ now: TimeInterval) -> TimeInterval? {
            let year = 365.2425 * 86_400
            let horizon = now + 50 * year
            guard let latest = Int32(exactly: (1971 + horizon / year).rounded(.down)).map({ Int($0) }) else {
                return nil
            }
            // The latest year with these digits up to the year of the horizon, in which the date may lie beyond the
            // horizon, and the one a century before.
            let candidate = latest - (latest - number("Y")) % 100
            return [candidate, candidate - 100].lazy.compactMap { seconds(in: $0) }.first { $0 <= horizon }
        }

        func seconds(in year: Int) -> TimeInterval? {
            let day = number("D")
            guard let month = HTTPDate.months.firstIndex(of: self.month).map({ $0 + 1 }), day >= 1,
                day <= HTTPDate.length(ofMonth: month, year: year), number("H") < 24, number("M") < 60,
                number("S") <= 60
            else { return nil }
            let time = number("H") * 3_600 + number("M") * 60 + number("S")
            return Double(HTTPDate.days(year: year, month: month, day: day) * 86_400 + time)
        }
    }

    private static func length(ofMonth month: Int, year: Int) -> Int {
        switch month {
        case 2: (year % 4 == 0 && year % 100 != 0) || year % 400 == 0 ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }

    /// The days since 1970-01-01 in the proleptic Gregorian calendar. Years start in March, so the leap day is last.
    private static func days(year: Int, month: Int, day: Int) -> Int {
        let marchYear = month <= 2 ? year - 1 : year
        let era = (marchYear >= 0 ? marchYear : marchYear - 399) / 400
        let yearOfEra = marchYear - era * 400
        let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }
}

/// A number of seconds in a field (RFC 9111, section 1.2.2).
enum DeltaSeconds {
    /// For every number too large to represent.
    static let most: TimeInterval = 2_147_483_648

    static func parse(_ text: String) -> TimeInterval? {
        guard !text.isEmpty, text.utf8.allSatisfy(\.isDigit) else { return nil }
        return min(Double(text) ?? most, most)
    }
}

/// The `Retry-After` field (RFC 9110, section 10.2.3): a number of seconds or a date.
enum RetryAfter {
    static func delay(from value: String, now: Date) -> Duration? {
        let now = now.timeIntervalSince1970
        let wait =
            DeltaSeconds.parse(value.trimmingCharacters(in: .whitespaces))
            ?? HTTPDate.seconds(value, now: now).map { max(0, $0 - now) }
        return wait.map { Duration.seconds(min($0, 1_000_000_000)) }
    }
}

/// The value of `ETag` (RFC 9110, section 8.8.3).
struct EntityTag: Sendable, Equatable {
    /// Without the `W/` mark of weakness.
    let opaque: String
    private let isWeak: Bool

    /// Text without quotes is accepted as well: servers recognise the tags that they sent.
    init(_ text: String) {
        let text = text.trimmingOptionalSpace
        isWeak = text.utf8.starts(with: "W/".utf8) || text.utf8.starts(with: "w/".utf8)
        opaque = isWeak ? String(decoding: text.utf8.dropFirst(2), as: UTF8.self) : text
    }

    /// Whether the tag is well-formed and not weak: only such a tag identifies every byte.
    var isStrong: Bool {
        let bytes = opaque.utf8
        return !isWeak && bytes.count >= 2 && bytes.first == UInt8(ascii: "\"") && bytes.last == UInt8(ascii: "\"")
            && bytes.dropFirst().dropLast().allSatisfy { $0 != UInt8(ascii: "\"") && $0 > 0x20 && $0 != 0x7F }
    }

    /// The weak comparison (section 8.8.3.2).
    func matches(_ other: EntityTag) -> Bool { opaque == other.opaque }
}

/// The value of `Content-Range: bytes first-last/total` (RFC 9110, section 14.4).
struct ContentRange: Sendable, Equatable {
    var first: Int
    var last: Int
    /// `nil` for `*`.
    var total: Int?

    /// `nil` for another unit, a malformed value, or a range that contradicts itself.
    init?(_ value: String) {
        let bytes = Array(value.trimmingOptionalSpace.utf8)
        guard bytes.prefix(6).map(\.asciiLowercased).elementsEqual("bytes ".utf8),
            let slash = bytes.firstIndex(of: UInt8(ascii: "/")),
            let dash = bytes[6..<slash].firstIndex(of: UInt8(ascii: "-")),
            let first = Self.number(bytes[6..<dash].drop(while: \.isSpaceOrTab)),
            let last = Self.number(bytes[(dash + 1)..<slash]), first <= last
        else { return nil }
        self.first = first
        self.last = last
        let size = bytes[(slash + 1)...]
        if !size.elementsEqual("*".utf8) {
            guard let total = Self.number(size), last < total else { return nil }
            self.total = total
        }
    }

    private static func number(_ digits: ArraySlice<UInt8>) -> Int? {
        guard digits.allSatisfy(\.isDigit) else { return nil }
        // Sums of two numbers fit.
        return Int(String(decoding: digits, as: UTF8.self)).flatMap { $0 < 1 << 60 ? $0 : nil }
    }
}

/// The content codings that the cache takes off a body (RFC 9110, section 8.4.1).
enum ContentCoding: String, CaseIterable, Sendable {
    case gzip, deflate, zstd
    case brotli = "br"

    /// The value of `Accept-Encoding` that names all of them.
    static let accepted = "gzip, deflate, br, zstd"

    /// Returns the codings of a body in the order in which they were applied; `nil` if the bytes cannot be read, because
    /// one of the codings is registered but not known here.
    ///
    /// `identity` changes nothing. Nor does a word that is no coding: servers write `UTF-8`, `binary`, `none` or
    /// `aws-chunked` into this field.
    static func codings(in headers: HTTPHeaders) -> [ContentCoding]? {
        let list = headers.fieldList("Content-Encoding")
        let names = list.members.map(\.asciiLowercased)
        if list.isCut || names.contains(where: unreadable.contains) { return nil }
        return names.compactMap {
            ContentCoding(rawValue: $0.utf8.starts(with: "x-".utf8) ? String($0.dropFirst(2)) : $0)
        }
    }

    static func isCoded(_ headers: HTTPHeaders) -> Bool { codings(in: headers)?.isEmpty != true }

    private static let unreadable: Set = ["compress", "x-compress", "dcb", "dcz", "exi", "pack200-gzip"]
}

/// The `Priority` field (RFC 9218): the urgency from 0, the most urgent, to 7; 3 without the field.
enum PriorityField {
    /// - Parameter level: from 0 to 100; 50 is normal.
    static func text(isUrgent: Bool, level: Int) -> String {
        let normal = isUrgent ? 2 : 6
        return "u=\(level > 50 ? normal - 1 : level < 50 ? normal + 1 : normal)"
    }
}
