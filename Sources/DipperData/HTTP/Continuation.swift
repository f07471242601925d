/// Whether an answer to a range request continues the bytes that are here (RFC 9110, sections 14.4 and 15.3.7).
enum Continuation {
    /// - Parameters:
    ///   - offset: How many bytes are here.
    ///   - total: How many there are in all, if that is known.
    ///   - validator: What was sent as `If-Range`; the answer must have the same.
    static func accepts(status: Int, headers: HTTPHeaders, offset: Int, total: Int?, validator: String) -> Bool {
        let ranges = headers.values("Content-Range")
        guard status == 206, ranges.count == 1, let range = ContentRange(ranges[0]), range.first == offset else {
            return false
        }
        if let total, let announced = range.total, total != announced { return false }
        // Bytes of another coding, and parts of a whole with their own headers, do not fit behind what is here.
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
