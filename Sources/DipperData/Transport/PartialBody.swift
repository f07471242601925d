import Foundation

/// The beginning of a body whose rest can be asked for (RFC 9110, section 14).
struct PartialBody: Sendable {
    let bytes: Data
    /// The fields of the answer it began with.
    let headers: HTTPHeaders
    /// What it is the beginning of: the URL that answered, after all redirects.
    let url: String
    /// The strong validator that what follows must have as well.
    let validator: String

    /// The length of the whole, if the server said.
    var total: Int? { headers["Content-Length"].flatMap { Int($0) } }

    /// What an answer that was broken off leaves; `nil` if there is nothing that could be continued for sure.
    init?(_ response: TransferResponse, of url: String) {
        guard response.status == 200, !response.body.isEmpty, let validator = Self.validator(in: response.headers)
        else {
            return nil
        }
        self.init(bytes: response.body, headers: response.headers, url: url, validator: validator)
        if let total, bytes.count >= total { return nil }
    }

    /// The validator by which the rest of a body can be asked for; `nil` if it cannot.
    static func validator(in headers: HTTPHeaders) -> String? {
        guard headers["Content-Encoding"] == nil, headers["Accept-Ranges"]?.lowercased() != "none",
            let validator = Validators.rangeValidator(of: headers)
        else { return nil }
        // Variants may share a date; a strong tag is of one alone.
        return headers["Vary"] == nil || EntityTag(validator).isStrong ? validator : nil
    }

    init(bytes: Data, headers: HTTPHeaders, url: String, validator: String) {
        self.bytes = bytes
        self.headers = headers
        self.url = url
        self.validator = validator
    }

    /// The fields that ask for what follows. Its coding must be that of what is here: none.
    var fields: [HTTPHeaders.Field] {
        [
            .init("Range", "bytes=\(bytes.count)-"), .init("If-Range", validator),
            .init("Accept-Encoding", "identity"),
        ]
    }

    /// Whether the answer continues these bytes.
    func isContinued(by response: TransferResponse) -> Bool {
        guard
            Continuation.accepts(
                status: response.status, headers: response.headers, offset: bytes.count, total: total,
                validator: validator),
            let range = response.headers["Content-Range"].flatMap({ ContentRange($0) })
        else { return false }
        return response.body.count <= range.last - range.first + 1 && !response.body.isEmpty
    }

    /// These bytes with those of the answer behind them.
    func continued(by response: TransferResponse) -> PartialBody {
        var headers = headers
        let range = response.headers["Content-Range"].flatMap { ContentRange($0) }
        if self.total == nil, let total = range?.total { headers["Content-Length"] = "\(total)" }
        let news = response.headers.fields.filter { Self.isRefreshed($0.name) }
        // A server may say a thing a thousand times.
        let replaced = Set(news.map(\.name.asciiLowercased))
        headers = headers.removing(replaced.contains)
        for field in news { headers.append(field.name, field.value) }
        return PartialBody(bytes: joined(with: response.body), headers: headers, url: url, validator: validator)
    }

    /// In memory that goes back to the system, as a body's does.
    private func joined(with rest: Data) -> Data {
        var whole = ByteBuffer()
        let isWhole =
            whole.reserve(bytes.count + rest.count) && bytes.withUnsafeBytes { whole.append($0) }
            && rest.withUnsafeBytes { whole.append($0) }
        return (isWhole ? whole.takeData() : nil) ?? bytes + rest
    }

    /// What a partial answer says of the whole (RFC 9110, section 15.3.7).
    private static func isRefreshed(_ name: String) -> Bool {
        ["date", "cache-control", "expires", "age", "vary"].contains(name.lowercased())
    }
}

extension PartialBody: RedactedStringConvertible {
    var description: String { "\(Redaction.standard.text(url)) \(bytes.count) bytes" }
}
