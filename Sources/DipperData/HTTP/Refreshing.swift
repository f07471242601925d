/// What a 304 does to the stored fields (RFC 9111, sections 3.2 and 4.3.4).
enum Refreshing {
    /// The fields of the 304 take the place of those stored under their names, except those that describe the bytes
    /// that are here. All other fields stay, but for an `Age` and a `Date` the 304 does not repeat: they tell when
    /// the old answer was made, and a 304 without them is of the moment.
    static func headers(_ stored: HTTPHeaders, refreshedBy notModified: HTTPHeaders) -> HTTPHeaders {
        let excluded = bodyFields.union(Storing.excludedNames(of: notModified))
        let news = Storing.fields(of: notModified).removing(excluded.contains)
        let replaced = Set(news.fields.map(\.name.asciiLowercased)).union(["age", "date"])
        return Storing.fields(of: HTTPHeaders(stored.removing(replaced.contains).fields + news.fields))
    }

    /// Whether the 304 is about what is stored. A tag decides over a date. Tags compare weakly, as servers drop the
    /// mark of weakness where nothing is compressed. A 304 without any validator answers the one condition that
    /// was sent.
    static func concerns(_ stored: HTTPHeaders, _ notModified: HTTPHeaders) -> Bool {
        let mine = Validators(stored)
        let theirs = Validators(notModified)
        if let tag = theirs.etag, let known = mine.etag { return EntityTag(tag).matches(EntityTag(known)) }
        if let modified = theirs.lastModified, let known = mine.lastModified {
            guard modified != known else { return true }
            let date = HTTPDate.seconds(modified)
            return date != nil && date == HTTPDate.seconds(known)
        }
        // A validator of a kind that is not here cannot speak of these bytes; but a date beside a tag that was asked
        // about, and is not repeated, says nothing against it.
        return theirs.isEmpty || (theirs.etag == nil && mine.etag != nil)
    }

    /// `Content-Length` by the rule; the others because the body is stored decoded, whole and typed, and a 304 that
    /// differs speaks of another form of it.
    private static let bodyFields: Set = ["content-length", "content-encoding", "content-type", "content-range"]
}
