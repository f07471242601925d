import Foundation

/// Which proxy libcurl sends a request to, by the rules it has for its options and the environment.
struct ProxySettings: Sendable {
    private let fixed: String?
    private let environment: [String: String]

    /// - Parameters:
    ///   - fixed: the proxy for all requests; `nil` for what the environment says, empty for none.
    ///   - environment: variables such as `http_proxy`.
    init(fixed: String?, environment: [String: String] = ProcessInfo.processInfo.environment) {
        self.fixed = fixed
        self.environment = environment.filter { $0.key.lowercased().hasSuffix("_proxy") }
    }

    /// The host of the proxy for a URL; `nil` if the request goes to the URL's own host.
    func host(for url: URL) -> String? {
        guard let text = fixed ?? variable(for: url), !text.isEmpty else { return nil }
        return URL(string: text.contains("://") ? text : "http://" + text)?.host(percentEncoded: false)
    }

    private func variable(for url: URL) -> String? {
        guard !environment.isEmpty, let scheme = url.scheme?.lowercased(), !isExempt(url) else { return nil }
        // A CGI script's client can set HTTP_PROXY by a header, so that only the small letters count.
        let own =
            environment["\(scheme)_proxy"] ?? (scheme == "http" ? nil : environment["\(scheme.uppercased())_PROXY"])
        return own ?? environment["all_proxy"] ?? environment["ALL_PROXY"]
    }

    private func isExempt(_ url: URL) -> Bool {
        guard let list = environment["no_proxy"] ?? environment["NO_PROXY"],
            let host = url.host(percentEncoded: false)?.lowercased()
        else { return false }
        return list.lowercased().split(whereSeparator: { $0 == "," || $0 == " " }).contains { entry in
            let name = entry.drop { $0 == "." }
            return entry == "*" || host == name || host.hasSuffix("." + name)
        }
    }
}
