/// Which requests a stored answer is for (RFC 9111, section 4.1).
struct Variant: Sendable, Hashable {
    /// Lower-cased, sorted, each once.
    let names: [String]
    /// What the request had under each name, normalised; `nil` for absent.
    let values: [String?]
    /// `Vary: *`: no request is known to be the same.
    let isUnmatchable: Bool

    /// `nil` if the answer is the same for all requests.
    init?(vary response: HTTPHeaders, request: HTTPHeaders) {
        let members = Set(response.list("Vary").map(\.asciiLowercased))
        guard !members.isEmpty else { return nil }
        isUnmatchable = members.contains("*")
        names = members.sorted()
        values = names.map { Self.value($0, of: request) }
    }

    func matches(_ request: HTTPHeaders) -> Bool {
        !isUnmatchable && values == names.map { Self.value($0, of: request) }
    }

    /// The names with the values that a request has under them, each part preceded by its length in bytes: text for a
    /// key. It holds what the fields hold, secrets included.
    func selection(for request: HTTPHeaders) -> String {
        names.map { name in
            let value = Self.value(name, of: request).map { "\($0.utf8.count):\($0)" } ?? "-"
            return "\(name.utf8.count):\(name)\(value)"
        }.joined()
    }

    /// All lines as one, with a comma and a space between the members.
    private static func value(_ name: String, of request: HTTPHeaders) -> String? {
        let lines = request.values(name)
        return lines.isEmpty ? nil : lines.flatMap(\.listMembers).joined(separator: ", ")
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
