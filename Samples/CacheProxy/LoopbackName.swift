import DipperData

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
