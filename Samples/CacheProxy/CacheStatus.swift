import DipperData

/// The values of the `Cache-Status` field (RFC 9211).
enum CacheStatus {
    static func text(_ source: ResponseSource) -> String {
        switch source {
        case .memory, .disk, .shared: "dipper; hit; detail=\(source.rawValue)"
        case .stale: "dipper; hit; detail=stale"
        case .revalidated: "dipper; fwd=stale; fwd-status=304"
        case .network: "dipper; fwd=miss"
        }
    }

    /// Returns the value for an answer that bypasses the cache: the reason, and the status of the server's answer.
    static func text(passedOn reason: String, status: Int) -> String {
        "dipper; fwd=\(reason); fwd-status=\(status)"
    }
}
