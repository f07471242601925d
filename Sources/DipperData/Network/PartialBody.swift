import Foundation
import Synchronization

/// The beginning of a body whose rest can be requested (RFC 9110, section 14).
struct PartialBody: Sendable {
    let bytes: Data
    /// The fields of the first answer, with the updates of later parts.
    let headers: HTTPHeaders
    let url: String
    /// The strong validator that the rest must have as well.
    let validator: String

    /// In bytes, of the whole body; `nil` if the server has not announced it.
    var total: Int? { headers["Content-Length"].flatMap { Int($0) } }

    /// `nil` if the rest of the body cannot be requested.
    static func validator(in headers: HTTPHeaders) -> String? {
        guard headers["Content-Encoding"] == nil, headers["Accept-Ranges"]?.lowercased() != "none",
            let validator = Validators.rangeValidator(of: headers)
        else { return nil }
        // Variants may share a date, but a strong tag belongs to one variant alone.
        return headers["Vary"] == nil || EntityTag(validator).isStrong ? validator : nil
    }

    /// The rest is requested without a content coding, because these bytes have none.
    var fields: [HTTPHeaders.Field] {
        [
            .init("Range", "bytes=\(bytes.count)-"), .init("If-Range", validator),
            .init("Accept-Encoding", "identity"),
        ]
    }

    /// Returns the bytes so far and those of an answer; `nil` if the answer does not continue them.
    func continued(by response: TransferResponse) -> PartialBody? {
        guard
            Continuation.accepts(
                status: response.status, headers: response.headers, offset: bytes.count, total: total,
                validator: validator),
            let range = response.headers["Content-Range"].flatMap({ ContentRange($0) }), !response.body.isEmpty,
            response.body.count <= range.last - range.first + 1
        else { return nil }
        var headers = headers
        if self.total == nil, let total = range.total { headers["Content-Length"] = "\(total)" }
        let news = response.headers.fields.filter { Self.isRefreshed($0.name) }
        // Fields are removed in one pass, because a server may send one field a thousand times.
        let replaced = Set(news.map(\.name.asciiLowercased))
        headers = headers.removing(replaced.contains)
        for field in news { headers.append(field.name, field.value) }
        // mutant Resume: `bytes: joined(with: response.body),` => `bytes: response.body,`
        return PartialBody(bytes: joined(with: response.body), headers: headers, url: url, validator: validator)
    }

    /// A copy of bytes that lie in a chunk of pages, which they would keep from the system for long.
    var unpooled: PartialBody {
        guard bytes.count <= PageChunks.largest else { return self }
        return PartialBody(bytes: bytes.withUnsafeBytes { Data($0) }, headers: headers, url: url, validator: validator)
    }

    private func joined(with rest: Data) -> Data {
        var whole = ByteBuffer()
        let isWhole =
            whole.reserve(bytes.count + rest.count) && bytes.withUnsafeBytes { whole.append($0) }
            && rest.withUnsafeBytes { whole.append($0) }
        return (isWhole ? whole.takeData() : nil) ?? bytes + rest
    }

    /// Whether a partial answer updates a field of the whole (RFC 9110, section 15.3.7).
    private static func isRefreshed(_ name: String) -> Bool {
        ["date", "cache-control", "expires", "age", "vary"].contains(name.lowercased())
    }
}

extension PartialBody {
    /// `nil` if the body cannot be continued safely.
    init?(_ response: TransferResponse, of url: String) {
        guard response.status == 200, !response.body.isEmpty, let validator = Self.validator(in: response.headers)
        else {
            return nil
        }
        self.init(bytes: response.body, headers: response.headers, url: url, validator: validator)
        // mutant Resume: `count >= total ` => `count > total `
        if let total, bytes.count >= total { return nil }
    }
}

extension PartialBody: RedactedStringConvertible {
    var description: String { "\(Redaction.standard.text(url)) \(bytes.count) bytes" }
}

/// The partial body of an earlier attempt and the bytes that the current transfer adds, for previews of a body that is
/// still incomplete. Each call copies only the new bytes.
final class JoinedBody: Sendable {
    private let beginning: Data
    private let bytes = Mutex(ByteBuffer())

    init(_ beginning: Data) {
        self.beginning = beginning
    }

    /// - Parameter rest: all bytes that the transfer has received so far.
    /// - Returns: bytes that must not be changed in place; `nil` if there is no memory for them.
    func joined(_ rest: Data) -> Data? {
        bytes.withLock { bytes in
            if bytes.count == 0, !Self.append(beginning, to: &bytes) { return nil }
            return Self.append(rest.dropFirst(bytes.count - beginning.count), to: &bytes) ? bytes.snapshot() : nil
        }
    }

    private static func append(_ data: Data, to bytes: inout ByteBuffer) -> Bool {
        data.withUnsafeBytes { bytes.append($0) }
    }
}
