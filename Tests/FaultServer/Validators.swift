import NIOHTTP1

/// The validators of a resource, and the evaluation of conditional requests (RFC 9110, section 13).
struct Validators: Sendable {
    /// The entity tag without quotes; the prefix `W/` makes it weak.
    var etag: String?

    /// The value of the Last-Modified header.
    var lastModified: String?

    /// The value of the ETag header.
    var etagField: String? {
        guard let etag else { return nil }
        return isWeak ? "W/\"\(etag.dropFirst(2))\"" : "\"\(etag)\""
    }

    private var isWeak: Bool { etag?.hasPrefix("W/") ?? false }

    /// Returns whether the client already has the current version; If-None-Match overrides If-Modified-Since.
    func isUnmodified(for headers: HTTPHeaders) -> Bool {
        if headers.contains(name: "If-None-Match") {
            guard let etagField else { return false }
            let field = headers["If-None-Match"].joined(separator: ",")
            return field == "*" || Self.opaqueTags(field).contains(Self.opaqueTags(etagField)[0])
        }
        guard let lastModified, let since = headers.first(name: "If-Modified-Since") else {
            return false
        }
        guard let modified = HTTPDate.seconds(lastModified), let since = HTTPDate.seconds(since)
        else { return lastModified == since }
        return modified <= since
    }

    /// Returns whether the server may answer with a range: there is no If-Range, or it matches strongly.
    func allowRange(for headers: HTTPHeaders) -> Bool {
        guard let condition = headers.first(name: "If-Range") else { return true }
        return (condition == etagField && !isWeak) || condition == lastModified
    }

    /// Returns the quoted parts of a list of entity tags, without `W/`, for the weak comparison.
    private static func opaqueTags(_ field: String) -> [Substring] {
        field.split(separator: "\"", omittingEmptySubsequences: false).enumerated()
            .filter { $0.offset % 2 == 1 }.map(\.element)
    }
}
