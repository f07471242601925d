import DipperData
import Foundation

/// The target of a request, from which the proxy derives the URL to fetch.
enum Target {
    private static let longest = 8 << 10

    /// - Parameters:
    ///   - target: The target of the request line: `/http://host/path`, `http://host/path`, or `/path` of the origin.
    ///   - origin: The server to ask; `nil` if the target names it.
    static func url(of target: String, origin: URL?) throws(Refusal) -> URL {
        guard target.utf8.count <= longest else { throw Refusal(status: 414, text: "the target is too long") }
        guard let origin else { return try url(target.hasPrefix("/") ? String(target.dropFirst()) : target) }
        return try url(base(of: origin) + path(of: target))
    }

    /// Returns an http or https URL in normal form (RFC 9110, section 4.2.3), so that programs which write the URL
    /// differently share its entry.
    static func url(_ text: String) throws(Refusal) -> URL {
        guard var parts = URLComponents(string: text), let scheme = parts.scheme?.lowercased(),
            let host = parts.encodedHost?.lowercased(), !host.isEmpty
        else { throw Refusal(status: 400, text: "the target is not a URL with a host") }
        guard ["http", "https"].contains(scheme) else {
            throw Refusal(status: 400, text: "the target is neither http nor https")
        }
        guard parts.user == nil, parts.password == nil, parts.fragment == nil else {
            throw Refusal(status: 400, text: "the target has a user or a fragment")
        }
        guard parts.port.map((1...65_535).contains) ?? true else {
            throw Refusal(status: 400, text: "the target's port is out of range")
        }
        parts.scheme = scheme
        parts.encodedHost = host
        if parts.port == (scheme == "http" ? 80 : 443) { parts.port = nil }
        if parts.percentEncodedPath.isEmpty { parts.percentEncodedPath = "/" }
        guard let url = parts.url else { throw Refusal(status: 400, text: "the target is not a URL") }
        return url
    }

    private static func base(of origin: URL) -> String {
        let text = origin.absoluteString
        return text.hasSuffix("/") ? String(text.dropLast()) : text
    }

    /// Returns path and query of a target; a server also accepts targets with a host (RFC 9112, section 3.2.2).
    private static func path(of target: String) throws(Refusal) -> String {
        if target.hasPrefix("/") { return target }
        let parts = try URLComponents(url: url(target), resolvingAgainstBaseURL: false)
        guard let parts else { throw Refusal(status: 400, text: "the target is not a path") }
        return parts.percentEncodedPath + (parts.percentEncodedQuery.map { "?\($0)" } ?? "")
    }
}

/// The names and addresses by which only programs on this machine reach the proxy.
enum LoopbackName {
    /// Returns `true` for a loopback address or `localhost`.
    /// - Parameter authority: A host, with or without a port, as in the `Host` field.
    static func matches(_ authority: String) -> Bool {
        let host = host(of: authority).lowercased()
        return IPAddress(host)?.isLoopback ?? (host == "localhost")
    }

    private static func host(of authority: String) -> String {
        if authority.hasPrefix("["), let end = authority.firstIndex(of: "]") {
            return String(authority[..<end].dropFirst())
        }
        // An address with several colons and no brackets has no port.
        let parts = authority.split(separator: ":", omittingEmptySubsequences: false)
        return parts.count == 2 ? String(parts[0]) : authority
    }
}
