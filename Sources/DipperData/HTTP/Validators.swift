import Foundation

/// The validators of an answer as the server wrote them (RFC 9110, section 8.8).
struct Validators: Sendable, Hashable {
    var etag: String?
    var lastModified: String?

    init(_ headers: HTTPHeaders) {
        etag = headers.values("ETag").first { !$0.isEmpty }
        lastModified = headers.values("Last-Modified").first { !$0.isEmpty }
    }

    var isEmpty: Bool { etag == nil && lastModified == nil }

    var conditionalFields: [HTTPHeaders.Field] {
        [etag.map { .init("If-None-Match", $0) }, lastModified.map { .init("If-Modified-Since", $0) }].compactMap(
            \.self)
    }

    /// The value for `If-Range`: a strong entity tag or, without any tag, a date of modification at least a minute
    /// before the answer was made (sections 8.8.2.2 and 13.1.5).
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

/// The update of a stored answer by a 304 (RFC 9111, sections 3.2 and 4.3.4).
enum Refreshing {
    /// Keeps fields that describe the stored bytes, and fields that the 304 does not name, except `Age` and `Date`,
    /// which say when the old answer was made: without them, a 304 counts as made now.
    static func headers(_ stored: HTTPHeaders, refreshedBy notModified: HTTPHeaders) -> HTTPHeaders {
        let unkept = Storing.unkept(in: notModified)
        let news = notModified.fields.filter { !unkept.contains($0.name) && !bodyFields.contains($0.name) }
        let replaced = FieldNames(news.map(\.name) + ["Age", "Date"])
        return Storing.fields(of: HTTPHeaders(stored.fields.filter { !replaced.contains($0.name) } + news))
    }

    /// A tag decides before a date. Tags are compared weakly, because servers drop the `W/` mark where nothing is
    /// compressed.
    static func concerns(_ stored: HTTPHeaders, _ notModified: HTTPHeaders) -> Bool {
        let mine = Validators(stored)
        let theirs = Validators(notModified)
        if let tag = theirs.etag, let known = mine.etag { return EntityTag(tag).matches(EntityTag(known)) }
        if let modified = theirs.lastModified, let known = mine.lastModified {
            guard modified != known else { return true }
            let date = HTTPDate.seconds(modified)
            return date != nil && date == HTTPDate.seconds(known)
        }
        // A 304 with only a tag does not concern an answer with only a date; one with only a date may concern an answer
        // with only a tag.
        return theirs.isEmpty || (theirs.etag == nil && mine.etag != nil)
    }

    /// `Content-Length` by the rule; the others because they may describe another form of the stored body.
    private static let bodyFields: FieldNames = ["content-length", "content-encoding", "content-type", "content-range"]
}

/// The rules for answers that continue a partial body (RFC 9110, sections 14.4 and 15.3.7).
enum Continuation {
    /// - Parameter validator: the value sent as `If-Range`, which the answer must have.
    static func accepts(status: Int, headers: HTTPHeaders, offset: Int, total: Int?, validator: String) -> Bool {
        let ranges = headers.values("Content-Range")
        // mutant Resume|Validators: `.first == offset else {` => `.first >= 0 else {`
        guard status == 206, ranges.count == 1, let range = ContentRange(ranges[0]), range.first == offset else {
            return false
        }
        if let total, let announced = range.total, total != announced { return false }
        // Coded bytes, and multipart bodies with their own headers, cannot be appended.
        guard !ContentCoding.isCoded(headers) else { return false }
        let isMultipart = headers.values("Content-Type").contains {
            $0.asciiLowercased.utf8.starts(with: "multipart/byteranges".utf8)
        }
        return !isMultipart && has(validator, headers)
    }

    private static func has(_ validator: String, _ headers: HTTPHeaders) -> Bool {
        if EntityTag(validator).isStrong {
            return headers.values("ETag") == [validator.trimmingOptionalSpace]
        }
        let dates = headers.values("Last-Modified").map { HTTPDate.seconds($0) }
        guard let date = HTTPDate.seconds(validator) else { return false }
        return dates == [date]
    }
}
