/// Why a call ended without a result.
///
/// New cases can be added without breaking callers: compare with the static members, or ask ``mayPass``,
/// ``isCancelled`` and ``status``. Two errors are equal if they are of one kind, whatever their ``detail``.
public struct DipperError: Error, Sendable, Hashable {
    private enum Code: Hashable, Sendable {
        case cancelled, shutDown
        case invalidURL, unsupportedScheme, emptyKey, invalidHeader, notCached
        case unreachable, hostNotFound, connectionFailed, connectionLost, truncated, timedOut
        case tlsRejected, addressRefused, tooLarge, tooManyRedirects, insecureRedirect, malformedResponse, rejected,
            transport
        case unsupportedFormat, undecodable, imageTooLarge, unencodable, processingFailed
        case unreadable, invalidData, notWritten
        case replaced, noSource
        case status(Int)
    }

    private let code: Code
    /// More about this occurrence, for a log; `nil` if there is nothing to add.
    public let detail: String?
    /// How long the server asked to wait, if it did (`Retry-After`).
    public internal(set) var retryAfter: Duration?

    /// How the sources tried before this one failed, in order; empty for requests without ``DataRequest/alternatives``.
    public internal(set) var earlier: [DipperError] = []

    private init(_ code: Code, detail: String? = nil, retryAfter: Duration? = nil) {
        self.code = code
        self.detail = detail
        self.retryAfter = retryAfter
    }

    /// The call was cancelled by its caller.
    public static let cancelled = DipperError(.cancelled)
    /// The cache has been shut down.
    public static let shutDown = DipperError(.shutDown)
    /// The text is not an absolute URL with a host.
    public static let invalidURL = DipperError(.invalidURL)
    /// The scheme is neither http nor https.
    public static let unsupportedScheme = DipperError(.unsupportedScheme)
    /// The key is empty.
    public static let emptyKey = DipperError(.emptyKey)
    /// A header's name or value holds a character that HTTP forbids.
    public static let invalidHeader = DipperError(.invalidHeader)
    /// The call was to be answered from the cache alone, and the cache has nothing.
    public static let notCached = DipperError(.notCached)
    /// There is no route to the host.
    public static let unreachable = DipperError(.unreachable)
    /// The host's name has no address.
    public static let hostNotFound = DipperError(.hostNotFound)
    /// The connection was refused or could not be made.
    public static let connectionFailed = DipperError(.connectionFailed)
    /// The connection broke before the answer was complete.
    public static let connectionLost = DipperError(.connectionLost)
    /// The body ended before its announced length.
    public static let truncated = DipperError(.truncated)
    /// A time limit passed.
    public static let timedOut = DipperError(.timedOut)
    /// The server's certificate, or the TLS handshake, was rejected.
    public static let tlsRejected = DipperError(.tlsRejected)
    /// The address policy forbids every address of the host.
    public static let addressRefused = DipperError(.addressRefused)
    /// The body, or the header section, is larger than allowed.
    public static let tooLarge = DipperError(.tooLarge)
    /// More redirects than allowed.
    public static let tooManyRedirects = DipperError(.tooManyRedirects)
    /// A redirect that leads from https to http, for a request without a ``RedirectHandler`` that allows it.
    public static let insecureRedirect = DipperError(.insecureRedirect)
    /// The server's answer is not HTTP, or its content coding is broken.
    public static let malformedResponse = DipperError(.malformedResponse)
    /// The request's own validation refuses the answer.
    public static let rejected = DipperError(.rejected)
    /// The bytes are of no picture format that a codec is registered for.
    public static let unsupportedFormat = DipperError(.unsupportedFormat)
    /// The bytes are broken: they cannot be decoded.
    public static let undecodable = DipperError(.undecodable)
    /// The picture's header announces more pixels, frames or memory than the limits allow.
    public static let imageTooLarge = DipperError(.imageTooLarge)
    /// The picture cannot be written in the format asked for.
    public static let unencodable = DipperError(.unencodable)
    /// A processor could not do its work.
    public static let processingFailed = DipperError(.processingFailed)
    /// A local file cannot be read.
    public static let unreadable = DipperError(.unreadable)
    /// A durable entry that could not be stored: the cache has no disk tier, the disk is full, read-only or too slow,
    /// or the entry was removed before it was written.
    public static let notWritten = DipperError(.notWritten)
    /// Text that should hold bytes, such as a data URL or Base64, does not.
    public static let invalidData = DipperError(.invalidData)
    /// A display was given another picture before this one was there.
    public static let replaced = DipperError(.replaced)
    /// A display was given nothing to show.
    public static let noSource = DipperError(.noSource)
    /// Anything else the transport reports.
    public static let transport = DipperError(.transport)

    /// The server answered with a status other than success.
    public static func status(_ status: Int) -> DipperError { DipperError(.status(status)) }

    /// Returns the error with a text that describes this occurrence. Secrets in URLs are removed by
    /// ``Redaction/standard``.
    public func with(detail: String) -> DipperError {
        var copy = DipperError(code, detail: Redaction.standard.sentence(detail), retryAfter: retryAfter)
        copy.earlier = earlier
        return copy
    }

    public static func == (a: Self, b: Self) -> Bool { a.code == b.code }
    public func hash(into hasher: inout Hasher) { hasher.combine(code) }
}

extension DipperError {
    /// True if another attempt may succeed: the network failed or the server was busy. Such a failure parks the
    /// job; every other one ends it.
    public var mayPass: Bool {
        switch code {
        case .unreachable, .hostNotFound, .connectionFailed, .connectionLost, .truncated, .timedOut: true
        case .status(408), .status(425), .status(429), .status(500...599): true
        default: false
        }
    }

    /// True if the caller took the call back.
    public var isCancelled: Bool { code == .cancelled }

    /// The status the server answered with, if that is the error.
    public var status: Int? {
        if case .status(let status) = code { status } else { nil }
    }

    /// A few words out of a small fixed set: fit for a metric's label.
    public var shortDescription: String {
        switch code {
        case .cancelled: "cancelled"
        case .shutDown: "shut down"
        case .invalidURL: "invalid URL"
        case .unsupportedScheme: "unsupported scheme"
        case .emptyKey: "empty key"
        case .invalidHeader: "invalid header"
        case .notCached: "not cached"
        case .unreachable: "network unreachable"
        case .hostNotFound: "host not found"
        case .connectionFailed: "connection failed"
        case .connectionLost: "connection lost"
        case .truncated: "truncated body"
        case .timedOut: "timed out"
        case .tlsRejected: "TLS rejected"
        case .addressRefused: "address refused"
        case .tooLarge: "too large"
        case .tooManyRedirects: "too many redirects"
        case .insecureRedirect: "insecure redirect"
        case .malformedResponse: "malformed response"
        case .rejected: "rejected"
        case .transport: "transport error"
        case .unsupportedFormat: "unsupported format"
        case .undecodable: "undecodable"
        case .imageTooLarge: "image too large"
        case .unencodable: "unencodable"
        case .processingFailed: "processing failed"
        case .unreadable: "unreadable file"
        case .invalidData: "invalid data"
        case .notWritten: "not written"
        case .replaced: "replaced"
        case .noSource: "no source"
        case .status(let status): (100...599).contains(status) ? "status \(status)" : "status out of range"
        }
    }
}

extension DipperError: CustomStringConvertible {
    /// The kind of error, and the detail if there is one.
    public var description: String {
        if let detail { "\(shortDescription): \(detail)" } else { shortDescription }
    }
}
