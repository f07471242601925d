/// The request fields that choose a stored answer (RFC 9111, section 4.1).
struct Variant: Sendable, Hashable {
    /// The field names in `Vary`, lower-cased and sorted, without duplicates.
    let names: [String]
    /// Digests of the request's normalised values under ``names``; `nil` for an absent field.
    let values: [String?]
    /// Whether no request is known to match, because of `Vary: *`.
    let isUnmatchable: Bool

    /// Creates the variant of an answer; `nil` if the answer is the same for all requests.
    init?(vary response: HTTPHeaders, request: HTTPHeaders) {
        let members = response.varying
        guard !members.isEmpty else { return nil }
        isUnmatchable = members.contains("*")
        names = members.sorted()
        values = names.map { Self.value($0, of: request) }
    }

    func matches(_ request: HTTPHeaders) -> Bool {
        !isUnmatchable && values == names.map { Self.value($0, of: request) }
    }

    /// The names with the digests of the values, each name preceded by its length in bytes: text for a cache key.
    var selection: String { Self.selection(names, values) }

    func selection(for request: HTTPHeaders) -> String {
        Self.selection(names, names.map { Self.value($0, of: request) })
    }

    private static func selection(_ names: [String], _ values: [String?]) -> String {
        zip(names, values).map { "\($0.utf8.count):\($0)\($1 ?? "-")" }.joined()
    }

    /// A digest of a field's members, joined with a comma and a space. A digest, because a value may be a secret.
    private static func value(_ name: String, of request: HTTPHeaders) -> String? {
        let lines = request.values(name)
        return lines.isEmpty ? nil : CacheKey.digest(FieldList(lines, most: .max).members.joined(separator: ", "))
    }
}

extension Variant {
    init(names: [String], values: [String?]) {
        self.names = names
        self.values = values
        isUnmatchable = false
    }
}
