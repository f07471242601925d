import NIOHTTP1

/// The validators of a resource and what a conditional request makes of them (RFC 9110, 13).
struct Validators: Sendable {
    /// The tag without quotes; `W/` before it makes it weak.
    var etag: String?

    /// A date as in the header.
    var lastModified: String?

    /// The value of the ETag header.
    var etagField: String? {
        guard let etag else { return nil }
        return isWeak ? "W/\"\(etag.dropFirst(2))\"" : "\"\(etag)\""
    }

    private var isWeak: Bool { etag?.hasPrefix("W/") ?? false }

    /// Whether the client has what it asks for already; If-None-Match outweighs If-Modified-Since.
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

    /// Whether a range may be served: no If-Range, or one that matches strongly.
    func allowRange(for headers: HTTPHeaders) -> Bool {
        guard let condition = headers.first(name: "If-Range") else { return true }
        return (condition == etagField && !isWeak) || condition == lastModified
    }

    /// What stands between the quotes of a list of tags: without `W/`, as the weak comparison wants.
    private static func opaqueTags(_ field: String) -> [Substring] {
        field.split(separator: "\"", omittingEmptySubsequences: false).enumerated()
            .filter { $0.offset % 2 == 1 }.map(\.element)
    }
}
