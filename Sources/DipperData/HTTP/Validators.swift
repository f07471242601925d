import Foundation

/// The validators of an answer as the server wrote them, and the request fields made from them (RFC 9110, sections 8.8
/// and 13.1).
struct Validators: Sendable, Hashable {
    var etag: String?
    var lastModified: String?

    init(_ headers: HTTPHeaders) {
        etag = headers.values("ETag").first { !$0.isEmpty }
        lastModified = headers.values("Last-Modified").first { !$0.isEmpty }
    }

    var isEmpty: Bool { etag == nil && lastModified == nil }

    /// The fields `If-None-Match` and `If-Modified-Since`, for the validators that are there.
    var conditionalFields: [HTTPHeaders.Field] {
        [etag.map { .init("If-None-Match", $0) }, lastModified.map { .init("If-Modified-Since", $0) }].compactMap(
            \.self)
    }

    /// Returns the value for `If-Range`; `nil` if there is no strong validator.
    ///
    /// The value is a strong entity tag. If there is no tag, it is a date of modification, which is strong if the
    /// answer was made at least a minute later (section 8.8.2.2). A date is not used beside a tag (section 13.1.5).
    static func rangeValidator(of headers: HTTPHeaders) -> String? {
        let tags = Set(headers.values("ETag"))
        guard tags.isEmpty else {
            return tags.count == 1 ? tags.first.flatMap { EntityTag($0).isStrong ? $0 : nil } : nil
        }
        let modifications = Set(headers.values("Last-Modified"))
        guard modifications.count == 1, let text = modifications.first, let modified = HTTPDate.seconds(text),
            let date = headers["Date"].flatMap({ HTTPDate.seconds($0) }), date - modified >= 60
        else { return nil }
        return text
    }
}
