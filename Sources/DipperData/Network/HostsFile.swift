/// The names of a file like `/etc/hosts`; see `hosts(5)`.
struct HostsFile: Sendable, Equatable {
    /// The addresses by name; names are in lower case, without a dot at the end.
    private(set) var addresses: [String: [IPAddress]] = [:]

    init() {}

    init(_ text: String) {
        for line in text.split(whereSeparator: \.isNewline) {
            let words = line.prefix { $0 != "#" }.split(whereSeparator: \.isWhitespace)
            guard let first = words.first, let address = IPAddress(Self.withoutZone(first)) else { continue }
            for name in words.dropFirst() {
                addresses[Self.canonical(String(name)), default: []].append(address.unmapped)
            }
        }
    }

    static func canonical(_ name: String) -> String {
        (name.hasSuffix(".") ? String(name.dropLast()) : name).lowercased()
    }

    private static func withoutZone(_ word: Substring) -> String {
        String(word.prefix { $0 != "%" })
    }
}
