import Foundation

/// The rules that choose the proxy of a request: those of libcurl for its options and the environment.
struct ProxySettings: Sendable {
    private let fixed: String?
    private let environment: [String: String]

    /// Creates settings.
    /// - Parameters:
    ///   - fixed: the proxy for all requests but those that `no_proxy` exempts; `nil` for the proxies of the
    ///     environment, empty for none.
    ///   - environment: variables such as `http_proxy`.
    init(fixed: String?, environment: [String: String] = ProcessInfo.processInfo.environment) {
        self.fixed = fixed
        self.environment = environment.filter { $0.key.lowercased().hasSuffix("_proxy") }
    }

    /// Returns the host of the proxy for a URL; `nil` if the request goes to the URL's own host.
    func host(for url: URL) -> String? {
        guard let text = proxy(for: url) else { return nil }
        return URL(string: text.contains("://") ? text : "http://" + text)?.host(percentEncoded: false)
    }

    /// Returns the proxy for a URL, as the caller or the environment spells it; `nil` for none.
    func proxy(for url: URL) -> String? {
        guard let text = fixed ?? variable(for: url), !text.isEmpty, !isExempt(url) else { return nil }
        return text
    }

    /// Returns the route of a request for a URL.
    func route(to url: URL) -> NetworkRoute { NetworkRoute(to: url, by: proxy(for: url)) }

    private func variable(for url: URL) -> String? {
        guard !environment.isEmpty, let scheme = url.scheme?.lowercased() else { return nil }
        // `HTTP_PROXY` is ignored: a client of a CGI script can set it with a `Proxy` header.
        let own =
            environment["\(scheme)_proxy"] ?? (scheme == "http" ? nil : environment["\(scheme.uppercased())_PROXY"])
        return own ?? environment["all_proxy"] ?? environment["ALL_PROXY"]
    }

    private func isExempt(_ url: URL) -> Bool {
        guard let list = environment["no_proxy"] ?? environment["NO_PROXY"],
            let name = url.host(percentEncoded: false)?.lowercased()
        else { return false }
        let host = name.hasSuffix(".") ? String(name.dropLast()) : name
        let address = IPAddress(host: host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : host)
        return list.lowercased().split(whereSeparator: { $0 == "," || $0 == " " }).contains { entry in
            if entry == "*" { return true }
            if let address { return Self.covers(entry, address) }
            var domain = entry.drop { $0 == "." }
            if domain.last == "." { domain = domain.dropLast() }
            return host == domain || (!domain.isEmpty && host.hasSuffix("." + domain))
        }
    }

    /// Returns whether an entry such as `192.0.2.1` or `192.0.2.0/24` covers an address.
    private static func covers(_ entry: Substring, _ address: IPAddress) -> Bool {
        let parts = entry.split(separator: "/", maxSplits: 1)
        let text = parts.first.map { $0.hasPrefix("[") ? String($0.dropFirst().dropLast()) : String($0) }
        guard let base = text.flatMap({ IPAddress($0) }) else { return false }
        guard parts.count > 1 else { return base == address }
        guard let length = Int(parts[1]) else { return false }
        return IPPrefix(base, length: length).contains(address)
    }
}

extension ProxySettings: RedactedStringConvertible {
    var description: String { "ProxySettings" }
}
