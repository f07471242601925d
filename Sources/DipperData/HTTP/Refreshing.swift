/// The update of a stored answer by a 304 (RFC 9111, sections 3.2 and 4.3.4).
enum Refreshing {
    /// Returns the stored fields, updated with those of a 304.
    ///
    /// The fields of the 304 replace the stored fields of their names, except fields that describe the stored bytes.
    /// All other fields stay, but for `Age` and `Date`: they say when the old answer was made, and a 304 without them
    /// counts as made now.
    static func headers(_ stored: HTTPHeaders, refreshedBy notModified: HTTPHeaders) -> HTTPHeaders {
        let excluded = bodyFields.union(Storing.excludedNames(of: notModified))
        let news = Storing.fields(of: notModified).removing(excluded.contains)
        let replaced = Set(news.fields.map(\.name.asciiLowercased)).union(["age", "date"])
        return Storing.fields(of: HTTPHeaders(stored.removing(replaced.contains).fields + news.fields))
    }

    /// Returns whether a 304 concerns the stored answer.
    ///
    /// A tag decides before a date. Tags are compared weakly, because servers drop the `W/` mark where nothing is
    /// compressed. A 304 without any validator answers the one condition that was sent.
    static func concerns(_ stored: HTTPHeaders, _ notModified: HTTPHeaders) -> Bool {
        let mine = Validators(stored)
        let theirs = Validators(notModified)
        if let tag = theirs.etag, let known = mine.etag { return EntityTag(tag).matches(EntityTag(known)) }
        if let modified = theirs.lastModified, let known = mine.lastModified {
            guard modified != known else { return true }
            let date = HTTPDate.seconds(modified)
            return date != nil && date == HTTPDate.seconds(known)
        }
        // A 304 with only a kind of validator that the stored answer lacks does not concern it. But a 304 with only a
        // date does not contradict a stored answer with only a tag.
        return theirs.isEmpty || (theirs.etag == nil && mine.etag != nil)
    }

    /// Fields of the stored body that a 304 does not change: `Content-Length` by the rule, the others because the body
    /// is stored decoded, whole and typed, and a 304 with other values describes another form of it.
    private static let bodyFields: Set = ["content-length", "content-encoding", "content-type", "content-range"]
}
