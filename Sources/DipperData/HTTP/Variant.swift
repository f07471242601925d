/// Which requests a stored answer is for (RFC 9111, section 4.1).
struct Variant: Sendable, Hashable {
    /// Lower-cased, sorted, each once.
    let names: [String]
    /// Digests of what the request had under each name, normalised; `nil` for absent.
    let values: [String?]
    /// `Vary: *`: no request is known to be the same.
    let isUnmatchable: Bool

    /// `nil` if the answer is the same for all requests.
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

    /// The names with the digests of the values, each name preceded by its length in bytes: text for a key.
    var selection: String { Self.selection(names, values) }

    /// The same for the values that a request has under these names.
    func selection(for request: HTTPHeaders) -> String {
        Self.selection(names, names.map { Self.value($0, of: request) })
    }

    private static func selection(_ names: [String], _ values: [String?]) -> String {
        zip(names, values).map { "\($0.utf8.count):\($0)\($1 ?? "-")" }.joined()
    }

    /// A digest of all lines as one, with a comma and a space between the members: a value may be a secret.
    private static func value(_ name: String, of request: HTTPHeaders) -> String? {
        let lines = request.values(name)
        return lines.isEmpty ? nil : CacheKey.digest(FieldList(lines, most: .max).members.joined(separator: ", "))
    }
}

extension Variant {
    /// A variant as it was kept.
    init(names: [String], values: [String?]) {
        self.names = names
        self.values = values
        isUnmatchable = false
    }
}
