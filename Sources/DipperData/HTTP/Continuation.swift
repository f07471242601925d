/// The rules for answers to range requests that continue a partial body (RFC 9110, sections 14.4 and 15.3.7).
enum Continuation {
    /// Returns whether an answer continues the bytes received before.
    /// - Parameters:
    ///   - offset: the number of bytes received before.
    ///   - total: the length of the whole body, if known.
    ///   - validator: the value sent as `If-Range`; the answer must have the same validator.
    static func accepts(status: Int, headers: HTTPHeaders, offset: Int, total: Int?, validator: String) -> Bool {
        let ranges = headers.values("Content-Range")
        // mutant Resume|Validators: `.first == offset else {` => `.first >= 0 else {`
        guard status == 206, ranges.count == 1, let range = ContentRange(ranges[0]), range.first == offset else {
            return false
        }
        if let total, let announced = range.total, total != announced { return false }
        // Bytes with a content coding, and multipart bodies with headers of their own, cannot be appended.
        guard headers.list("Content-Encoding").allSatisfy({ $0.asciiLowercased == "identity" }) else { return false }
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
