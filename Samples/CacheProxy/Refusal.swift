import DipperData

/// Why a request gets an answer of the proxy's own.
struct Refusal: Error {
    let status: Int
    /// One line for a person.
    let text: String
}

extension Refusal {
    /// What a failure of the fetch means to the client.
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
