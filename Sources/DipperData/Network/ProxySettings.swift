import CCurl
import Foundation

/// The proxy of each request, by libcurl's rules for its options and the environment.
struct ProxySettings: Sendable, RedactedStringConvertible {
    private let fixed: String?
    private let environment: [String: String]
    /// The last route, and the beginning of its URLs: up to the path.
    private var last: (beginning: Substring, route: NetworkRoute)?

    /// - Parameter fixed: the proxy; `nil` for those of the environment, empty for none.
    init(fixed: String?, environment: [String: String] = ProcessInfo.processInfo.environment) {
        self.fixed = fixed
        self.environment = environment.filter { $0.key.lowercased().hasSuffix("_proxy") }
    }

    func proxy(for url: URL) -> String? {
        guard let text = fixed ?? variable(for: url), !text.isEmpty, !isExempt(url) else { return nil }
        return text
    }

    /// The HTTP proxy without user and password; `nil` if there is none, or one of another kind.
    func httpProxy(for url: URL) -> URL? {
        guard let proxy = proxyURL(for: url), proxy.scheme?.asciiLowercased.hasPrefix("http") == true else {
            return nil
        }
        return proxy.ofOrigin
    }

    func proxyURL(for url: URL) -> URL? {
        proxy(for: url).flatMap { URL(text: NetworkRoute.withScheme($0)) }
    }

    mutating func route(to url: URL) -> NetworkRoute {
        let beginning = url.absoluteString.beforePath
        if let last, last.beginning == beginning { return last.route }
        let route = NetworkRoute(to: url, by: proxy(for: url))
        last = (beginning, route)
        return route
    }

    private func variable(for url: URL) -> String? {
        guard !environment.isEmpty, let scheme = url.scheme?.lowercased() else { return nil }
        // `HTTP_PROXY` is ignored: the client of a CGI script can set it with a `Proxy` field.
        let own =
            environment["\(scheme)_proxy"] ?? (scheme == "http" ? nil : environment["\(scheme.uppercased())_PROXY"])
        return own ?? environment["all_proxy"] ?? environment["ALL_PROXY"]
    }

    private func isExempt(_ url: URL) -> Bool {
        guard let list = environment["no_proxy"] ?? environment["NO_PROXY"],
            let host = url.host(percentEncoded: false).map(KnownHosts.canonical)
        else { return false }
        let address = IPAddress(host: host.withoutBrackets)
        return list.lowercased().split(whereSeparator: { $0 == "," || $0 == " " }).contains { entry in
            if entry == "*" { return true }
            if let address { return Self.covers(entry, address) }
            var domain = entry.drop { $0 == "." }
            if domain.last == "." { domain = domain.dropLast() }
            return host == domain || (!domain.isEmpty && host.hasSuffix("." + domain))
        }
    }

    private static func covers(_ entry: Substring, _ address: IPAddress) -> Bool {
        let parts = entry.split(separator: "/", maxSplits: 1)
        guard let base = parts.first.flatMap({ IPAddress($0.withoutBrackets) }) else { return false }
        guard parts.count > 1 else { return base == address }
        guard let length = Int(parts[1]) else { return false }
        return address.hasPrefix(of: base, length: min(max(length, 0), base.family.width))
    }

    var description: String { "ProxySettings" }
}

extension String {
    fileprivate var beforePath: Substring {
        var slashes = 0
        return Substring(
            utf8.prefix { byte in
                if byte == UInt8(ascii: "/") { slashes += 1 }
                return slashes < 3 && byte != UInt8(ascii: "?") && byte != UInt8(ascii: "#")
            })
    }
}

struct NetworkRoute: Sendable {
    struct Name: Sendable {
        let host: String
        let port: Int
    }

    /// In libcurl's form; empty for none.
    let proxy: String
    /// Without literal addresses.
    let names: [Name]

    init(to url: URL, by proxy: String?) {
        self.proxy = proxy ?? ""
        var names = [Self.name(in: url.absoluteString)]
        if let proxy {
            let text = Self.withScheme(proxy)
            let scheme = text.prefix { $0 != ":" }.lowercased()
            let relay = Self.name(in: text, defaultPort: scheme == "https" ? "443" : "1080")
            // SOCKS4 and SOCKS5 proxies take addresses only.
            names = scheme == "socks4" || scheme == "socks5" ? [relay] + names : [relay]
        }
        self.names = names.compactMap { $0 }.filter { IPAddress($0.host) == nil }
    }

    /// A proxy without a scheme is an HTTP proxy.
    static func withScheme(_ proxy: String) -> String { proxy.contains("://") ? proxy : "http://" + proxy }

    /// The host, in lower case, and the port, as libcurl reads them.
    private static func name(in url: String, defaultPort: String? = nil) -> Name? {
        guard let parts = curl_url() else { return nil }
        defer { curl_url_cleanup(parts) }
        guard curl_url_set(parts, CURLUPART_URL, url, UInt32(CURLU_NON_SUPPORT_SCHEME)) == CURLUE_OK,
            let host = text(CURLUPART_HOST, of: parts, flags: punycode) ?? text(CURLUPART_HOST, of: parts),
            let port = text(CURLUPART_PORT, of: parts) ?? defaultPort
                ?? text(CURLUPART_PORT, of: parts, flags: UInt32(CURLU_DEFAULT_PORT)),
            let number = Int(port)
        else { return nil }
        let plain = host.hasPrefix("[") ? String(host.dropFirst().prefix { $0 != "]" && $0 != "%" }) : host
        return Name(host: plain.asciiLowercased, port: number)
    }

    private static func text(_ part: CURLUPart, of parts: OpaquePointer, flags: UInt32 = 0) -> String? {
        var text: UnsafeMutablePointer<CChar>?
        guard curl_url_get(parts, part, &text, flags) == CURLUE_OK, let text else { return nil }
        defer { curl_free(text) }
        return String(cString: text)
    }

    /// `CURLU_PUNYCODE`, which headers before libcurl 7.88 lack.
    private static let punycode: UInt32 = 1 << 12
}
