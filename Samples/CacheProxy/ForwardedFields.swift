import DipperData

/// The library's header fields, under a name that does not clash with NIO's `HTTPHeaders`.
typealias Fields = DipperData.HTTPHeaders

struct ForwardedFields: Sendable {
    /// Whether cookies pass in both directions; they never enter the cache.
    var passesCookies = false

    /// Returns the fields of a request whose answer the cache stores whole: without the client's conditions and ranges.
    func ofCachedRequest(_ fields: Fields) -> Fields {
        ofRequest(fields).without {
            $0.hasPrefix("if-") || $0 == "range" || $0 == "content-length" || $0 == "content-type"
        }
    }

    /// Returns the fields of a request that bypasses the cache. The transport sets the connection's fields and the
    /// body's length.
    func ofRequest(_ fields: Fields) -> Fields {
        var fields = Self.endToEnd(fields).without {
            ["host", "content-length", "expect"].contains($0) || (!passesCookies && Self.cookies.contains($0))
        }
        fields.append("Via", Self.via)
        return fields
    }

    /// Returns the fields of an answer to the client. The length is set from the body that is sent.
    func ofAnswer(_ fields: Fields) -> Fields {
        var fields = Self.endToEnd(fields).without {
            // mutant CacheProxy: `length" || (!passesCookies && Self.cookies.contains($0))` => `length"`
            $0 == "content-length" || (!passesCookies && Self.cookies.contains($0))
        }
        fields.append("Via", Self.via)
        return fields
    }

    /// The proxy's value of `Via`, sent in both directions (RFC 9110, section 7.6.3). The name is unique to this
    /// process, so that the proxy recognises requests that it has sent itself.
    static let via = "1.1 dipper-" + String(UInt32.random(in: .min ... .max), radix: 16)

    static func haveComeFromHere(_ fields: Fields) -> Bool {
        fields.values("Via").contains { $0.contains(via) }
    }

    /// Returns the fields without those of the connection (RFC 9110, section 7.6.1) and without malformed ones.
    static func endToEnd(_ fields: Fields) -> Fields {
        let named = fields.values("connection").flatMap { $0.split(separator: ",") }
            .map { $0.drop { $0 == " " || $0 == "\t" }.prefix { $0 != " " && $0 != "\t" }.lowercased() }
        let concerned = Set(named).union(connection)
        return Fields(
            fields.fields.filter { field in
                let name = field.name.lowercased()
                return !concerned.contains(name) && !name.hasPrefix("proxy-") && field.isWellFormed
            })
    }

    private static let cookies: Set = ["cookie", "cookie2", "set-cookie", "set-cookie2"]

    private static let connection: Set<String> = [
        "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade",
    ]
}

extension Fields {
    func values(_ name: String) -> [String] {
        fields.lazy.filter { $0.name.lowercased() == name.lowercased() }.map(\.value)
    }

    /// The names of the directives of `Cache-Control`, in lower case (RFC 9111, section 5.2).
    var directives: Set<String> {
        Set(
            values("Cache-Control").flatMap { $0.split(separator: ",") }
                .map { $0.prefix { $0 != "=" }.filter { $0 != " " && $0 != "\t" }.lowercased() })
    }

    func without(_ isUnwanted: (String) -> Bool) -> Fields {
        Fields(fields.filter { !isUnwanted($0.name.lowercased()) })
    }
}

extension Fields.Field {
    /// Whether name and value are well formed (RFC 9110, sections 5.1 and 5.5).
    fileprivate var isWellFormed: Bool {
        let isToken =
            !name.isEmpty
            && name.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"):
                    true
                default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
                }
            }
        return isToken && value.utf8.allSatisfy { $0 == 0x09 || ($0 >= 0x20 && $0 != 0x7F) }
    }
}
