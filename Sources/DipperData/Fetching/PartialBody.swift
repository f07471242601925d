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
        let unit = response.headers["Accept-Ranges"]?.lowercased()
        guard response.status == 200, !response.body.isEmpty, response.headers["Content-Encoding"] == nil,
            unit != "none", let validator = Validators.rangeValidator(of: response.headers)
        else { return nil }
        // Variants may share a date; a strong tag is of one alone.
        guard response.headers["Vary"] == nil || EntityTag(validator).isStrong else { return nil }
        self.init(bytes: response.body, headers: response.headers, url: url, validator: validator)
        if let total, bytes.count >= total { return nil }
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
        for field in response.headers.fields where Self.isRefreshed(field.name) { headers[field.name] = field.value }
        return PartialBody(bytes: bytes + response.body, headers: headers, url: url, validator: validator)
    }

    /// What a partial answer says of the whole (RFC 9110, section 15.3.7).
    private static func isRefreshed(_ name: String) -> Bool {
        ["date", "cache-control", "expires", "age", "vary"].contains(name.lowercased())
    }
}
