import DipperData
import Foundation

/// The conditions of a request that can turn an answer with a body into a 304.
struct Conditions {
    private let tags: [String]
    private let since: String?

    init(_ fields: Fields) {
        tags = fields.values("If-None-Match")
        // If-None-Match takes precedence over If-Modified-Since (RFC 9110, section 13.1.3).
        since = tags.isEmpty ? fields["If-Modified-Since"] : nil
    }

    /// Returns `true` if the client already has this answer (RFC 9110, section 13.2.2). Conditions apply to successes
    /// only (section 13.2.1).
    func areMet(byStatus status: Int, _ fields: Fields) -> Bool {
        guard (200...299).contains(status) else { return false }
        if !tags.isEmpty { return tags.contains { Self.names($0, fields["ETag"]) } }
        // Without Last-Modified, the answer's Date is compared (RFC 9111, section 4.3.2).
        guard let since, let changed = fields["Last-Modified"] ?? fields["Date"] else { return false }
        if since == changed { return true }
        guard let since = FieldDate.parse(since), let changed = FieldDate.parse(changed) else { return false }
        return changed <= since
    }

    /// Returns `true` if a list of entity tags contains a tag, by weak comparison (RFC 9110, section 13.1.2).
    static func names(_ list: String, _ tag: String?) -> Bool {
        if list.allSatisfy({ $0 == "*" || $0 == " " }) { return list.contains("*") }
        guard let tag else { return false }
        var rest = list[...]
        while let start = rest.firstIndex(where: { $0 != " " && $0 != "\t" && $0 != "," }) {
            rest = rest[start...]
            guard let end = endOfTag(rest) else { return false }
            if opaque(rest[..<end]) == opaque(tag[...]) { return true }
            rest = rest[end...]
        }
        return false
    }

    private static func endOfTag(_ text: Substring) -> Substring.Index? {
        let quoted = opaque(text)
        guard quoted.first == "\"", let close = quoted.dropFirst().firstIndex(of: "\"") else { return nil }
        return quoted.index(after: close)
    }

    private static func opaque(_ tag: Substring) -> Substring { tag.hasPrefix("W/") ? tag.dropFirst(2) : tag }
}

/// A parser of dates in header fields, in the three formats of RFC 9110, section 5.6.7.
private enum FieldDate {
    static func parse(_ text: String) -> Date? {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(identifier: "GMT")
        for form in ["EEE, dd MMM yyyy HH:mm:ss 'GMT'", "EEEE, dd-MMM-yy HH:mm:ss 'GMT'", "EEE MMM d HH:mm:ss yyyy"] {
            formatter.dateFormat = form
            if let date = formatter.date(from: text) { return date }
        }
        return nil
    }
}
