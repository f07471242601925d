import Dipper
import Hummingbird

/// A reason why a request gets no picture, for the client: without addresses, and without the words of other servers.
struct Refusal: Error {
    let status: HTTPResponse.Status
    let text: String
    /// In seconds.
    var retryAfter: Int?

    init(_ status: HTTPResponse.Status, _ text: String, retryAfter: Int? = nil) {
        (self.status, self.text, self.retryAfter) = (status, text, retryAfter)
    }

    static let busy = Refusal(.serviceUnavailable, "too many pictures are being made", retryAfter: 1)

    init(_ error: DipperError) {
        let text = "the picture: \(error.shortDescription)"
        if let status = error.status {
            switch status {
            case 404, 410: self.init(.notFound, text)
            // A 503 would say that this server is busy, and not the origin.
            case 429, 503: self.init(.badGateway, text, retryAfter: error.retryAfter?.wholeSeconds ?? 5)
            default: self.init(.badGateway, text)
            }
            return
        }
        switch error {
        case .addressRefused: self.init(.forbidden, text)
        case .invalidURL, .unsupportedScheme: self.init(.badRequest, text)
        case .tooLarge: self.init(.contentTooLarge, text)
        case .imageTooLarge, .undecodable, .decoderFailed, .unsupportedFormat, .processingFailed, .unencodable:
            self.init(.unprocessableContent, text)
        case .timedOut: self.init(.gatewayTimeout, text)
        case .cancelled, .shutDown: self.init(.serviceUnavailable, text, retryAfter: 1)
        default: self.init(.badGateway, text)
        }
    }
}

extension Duration {
    /// At least one.
    fileprivate var wholeSeconds: Int { max(1, Int(clamping: components.seconds)) }
}
