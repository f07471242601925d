import DipperData

/// A reason why the proxy itself answers a request.
struct Refusal: Error {
    let status: Int
    /// The reason in one line, for a person.
    let text: String
}

extension Refusal {
    /// Creates the refusal that tells the client about a failed fetch.
    init(_ error: DipperError) {
        let status =
            switch error {
            case .notCached, .timedOut: 504
            case .addressRefused: 403
            case .invalidURL, .unsupportedScheme, .invalidHeader: 400
            case .shutDown, .cancelled: 503
            default: 502
            }
        self.init(status: status, text: error.description)
    }
}
