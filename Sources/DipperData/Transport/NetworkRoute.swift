import CCurl
import Foundation

/// The route of a request: its proxy, and the names that must be looked up.
struct NetworkRoute: Sendable {
    /// A name whose addresses libcurl needs.
    struct Name: Sendable, Hashable {
        let host: String
        let port: Int
    }

    /// The proxy in libcurl's form; empty for none.
    let proxy: String
    /// The names to look up, without literal addresses and names of this machine.
    let names: [Name]

    /// Creates the route to a URL.
    /// - Parameter proxy: the proxy to use; `nil` for none.
    init(to url: URL, by proxy: String?) {
        self.proxy = proxy ?? ""
        let target = Self.name(in: url.absoluteString)
        guard let proxy, !proxy.isEmpty else {
            names = Self.toLookUp([target])
            return
        }
        let parts = proxy.components(separatedBy: "://")
        let scheme = parts.count > 1 ? parts[0].lowercased() : "http"
        let relay = Self.name(
            in: parts.count > 1 ? proxy : "http://" + proxy, defaultPort: scheme == "https" ? 443 : 1_080)
        // The client resolves the target's name for SOCKS4 and SOCKS5 proxies, which take addresses only.
        let resolvesHere = scheme == "socks4" || scheme == "socks5"
        names = Self.toLookUp(resolvesHere ? [relay, target] : [relay])
    }

    private static func toLookUp(_ names: [Name?]) -> [Name] {
        names.compactMap { $0 }.filter { name in
            let isLocal = name.host == "localhost" || name.host.hasSuffix(".localhost")
            return !isLocal && IPAddress(name.host) == nil
        }
    }

    /// Returns the host and port of a URL as libcurl reads them, the host in lower case.
    private static func name(in url: String, defaultPort: Int? = nil) -> Name? {
        guard let parts = curl_url() else { return nil }
        defer { curl_url_cleanup(parts) }
        guard curl_url_set(parts, CURLUPART_URL, url, UInt32(CURLU_NON_SUPPORT_SCHEME)) == CURLUE_OK,
            let host = text(CURLUPART_HOST, of: parts, flags: punycode) ?? text(CURLUPART_HOST, of: parts),
            let port = defaultPort == nil
                ? text(CURLUPART_PORT, of: parts, flags: UInt32(CURLU_DEFAULT_PORT))
                : text(CURLUPART_PORT, of: parts) ?? defaultPort.map(String.init),
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

    /// `CURLU_PUNYCODE`, which is missing from headers before libcurl 7.88.
    private static let punycode: UInt32 = 1 << 12
}
