import Foundation
import Synchronization

/// Names the bytes of a body: of two partial bodies with the same origin, the shorter one is the beginning of the other.
final class BodyOrigin: Sendable {}

/// The beginning of a body whose rest can be requested (RFC 9110, section 14).
struct PartialBody: Sendable {
    /// The bytes in the order of the body. They are joined only where they are needed as one, never on the loop.
    let pieces: [Data]
    let count: Int
    let origin: BodyOrigin
    /// The fields of the first answer, with the updates of later parts.
    let headers: HTTPHeaders
    let url: String
    let validator: String
    /// The calls that may have the bytes.
    var audience = Audience.everybody

    /// In bytes; `nil` if the server has not announced it.
    var total: Int? { headers["Content-Length"].flatMap { Int($0) } }

    private init(
        pieces: [Data], count: Int, headers: HTTPHeaders, url: String, validator: String, origin: BodyOrigin
    ) {
        (self.pieces, self.count, self.headers, self.url, self.validator) = (pieces, count, headers, url, validator)
        self.origin = origin
    }

    var isJoined: Bool { pieces.count < 2 }

    /// Copies the bytes, unless they came in one piece.
    var bytes: Data {
        guard pieces.count > 1 else { return pieces.first ?? Data() }
        var joined = ByteBuffer()
        let isWhole = joined.reserve(count) && pieces.allSatisfy { $0.withUnsafeBytes { joined.append($0) } }
        return isWhole ? joined.takeData() ?? Data(pieces.joined()) : Data(pieces.joined())
    }

    static func validator(in headers: HTTPHeaders) -> String? {
        guard !ContentCoding.isCoded(headers), headers["Accept-Ranges"]?.lowercased() != "none",
            let validator = Validators.rangeValidator(of: headers)
        else { return nil }
        // Variants may share a date.
        return headers["Vary"] == nil || EntityTag(validator).isStrong ? validator : nil
    }

    var fields: [HTTPHeaders.Field] {
        [
            .init("Range", "bytes=\(count)-"), .init("If-Range", validator),
            .init("Accept-Encoding", "identity"),
        ]
    }

    /// `nil` if the answer does not continue these bytes.
    func continued(by response: TransferResponse) -> PartialBody? {
        guard
            Continuation.accepts(
                status: response.status, headers: response.headers, offset: count, total: total,
                validator: validator),
            let range = response.headers["Content-Range"].flatMap({ ContentRange($0) }), !response.body.isEmpty,
            response.body.count <= range.last - range.first + 1
        else { return nil }
        var headers = headers
        if self.total == nil, let total = range.total { headers["Content-Length"] = "\(total)" }
        let news = response.headers.fields.filter { Self.isRefreshed($0.name) }
        // One pass, because a server may send a field a thousand times.
        let replaced = FieldNames(news.map(\.name))
        headers = headers.removing(replaced.contains)
        for field in news { headers.append(field.name, field.value) }
        var longer = PartialBody(
            // mutant Resume: `pieces: pieces + [response.body],` => `pieces: [response.body],`
            pieces: pieces + [response.body], count: count + response.body.count, headers: headers, url: url,
            validator: validator, origin: origin)
        longer.audience = audience
        return longer
    }

    /// The bytes, copied out of a chunk of pages, which a body that stays long would keep from the system.
    var unpooled: Data {
        let bytes = bytes
        return bytes.count <= PageChunks.largest ? bytes.withUnsafeBytes { Data($0) } : bytes
    }

    /// Whether a partial answer updates a field of the whole (RFC 9110, section 15.3.7).
    private static func isRefreshed(_ name: String) -> Bool {
        ["date", "cache-control", "expires", "age", "vary"].contains(name.lowercased())
    }
}

extension PartialBody {
    /// `nil` if the body cannot be continued safely.
    init?(_ response: TransferResponse, of url: String, origin: BodyOrigin = BodyOrigin()) {
        guard response.status == 200, !response.body.isEmpty, let validator = Self.validator(in: response.headers)
        else {
            return nil
        }
        self.init(
            pieces: [response.body], count: response.body.count, headers: response.headers, url: url,
            validator: validator, origin: origin)
        // mutant Resume: `count >= total ` => `count > total `
        if let total, count >= total { return nil }
    }
}

extension PartialBody: RedactedStringConvertible {
    var description: String { "\(Redaction.standard.text(url)) \(count) bytes" }
}

/// The partial body of an earlier attempt with the bytes of the current transfer. Each call copies only new bytes.
final class JoinedBody: Sendable {
    private let beginning: PartialBody
    private let bytes = Mutex(ByteBuffer())

    init(_ beginning: PartialBody) { self.beginning = beginning }

    /// - Returns: bytes that must not be changed in place; `nil` if there is no memory.
    func joined(_ rest: Data) -> Data? {
        bytes.withLock { bytes in
            if bytes.count == 0 {
                guard bytes.reserve(beginning.count + rest.count), bytes.append(beginning.bytes) else { return nil }
            }
            return bytes.append(rest.dropFirst(bytes.count - beginning.count)) ? bytes.snapshot() : nil
        }
    }
}

extension ByteBuffer {
    fileprivate mutating func append(_ data: Data) -> Bool { data.withUnsafeBytes { append($0) } }
}
