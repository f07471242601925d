import Foundation

/// Redirects of a GET (RFC 9110, section 15.4).
enum Redirect {
    /// Where the answer sends the request; `nil` if it is not a redirect to follow.
    static func target(of status: Int, headers: HTTPHeaders, from url: URL) -> Result<URL, DipperError>? {
        guard [301, 302, 303, 307, 308].contains(status) else { return nil }
        let locations = Set(headers.values("Location"))
        guard let location = locations.first else { return nil }
        // Two places at once, or none: a server that does not know what it says.
        guard locations.count == 1, !location.isEmpty,
            var target = URL(string: location, relativeTo: url)?.absoluteURL
        else { return .failure(.malformedResponse.with(detail: "Location")) }

        let scheme = target.scheme?.asciiLowercased ?? ""
        guard scheme == "http" || scheme == "https" else {
            return .failure(.unsupportedScheme.with(detail: scheme))
        }
        guard let host = target.host, !host.isEmpty, (0...65_535).contains(target.port ?? 0) else {
            return .failure(.malformedResponse.with(detail: "Location"))
        }
        if target.fragment == nil, let mark = url.absoluteString.utf8.firstIndex(of: UInt8(ascii: "#")) {
            target = URL(string: target.absoluteString + url.absoluteString[mark...]) ?? target
        }
        return .success(target)
    }

    /// The fields that may go along: all within one origin, and beyond it only those that say what kind of answer is wanted.
    /// Any other may hold a secret.
    /// - Parameter sensitive: Lower-cased names of further fields that stay behind.
    static func headers(_ headers: HTTPHeaders, from: URL, to: URL, sensitive: Set<String>) -> HTTPHeaders {
        isSameOrigin(from, to) ? headers : headers.removing { !harmless.contains($0) || sensitive.contains($0) }
    }

    /// The way leads from an encrypted connection to one that anybody can read and change.
    static func isDowngrade(from: URL, to: URL) -> Bool {
        from.scheme?.asciiLowercased == "https" && to.scheme?.asciiLowercased == "http"
    }

    /// Scheme, host and port are the same (RFC 6454, section 5).
    static func isSameOrigin(_ a: URL, _ b: URL) -> Bool {
        guard let one = Origin(a), let other = Origin(b) else { return false }
        return one == other
    }

    private struct Origin: Equatable {
        let scheme, host: String
        let port: Int?

        init?(_ url: URL) {
            guard let scheme = url.scheme?.asciiLowercased, let host = url.host, !host.isEmpty else { return nil }
            self.scheme = scheme
            self.host = host.asciiLowercased
            port = url.port ?? (scheme == "https" ? 443 : scheme == "http" ? 80 : nil)
        }
    }

    private static let harmless: Set = [
        "accept", "accept-charset", "accept-encoding", "accept-language", "cache-control", "if-match",
        "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "pragma", "priority", "range",
        "save-data", "user-agent",
    ]
}
