import Foundation

/// The reason why a call ended without a result.
///
/// New cases can be added without breaking callers: compare with the static members, or ask ``mayPass``,
/// ``isCancelled`` and ``status``. Two errors are equal if they are of one kind, whatever their ``detail``. Compare
/// errors, `error == .unreachable`, and not their texts, which may change.
///
/// ```swift
/// switch await task.result {
/// case .success(let data): print(data.count)
/// case .failure(.cancelled): print("Nobody waits any more.")
/// case .failure(let error): print(error.status == 404 ? "There is no such file." : "\(error)")
/// }
/// ```
public struct DipperError: Error, Sendable, Hashable, RedactedStringConvertible, LocalizedError {
    private struct Notes: Sendable {
        var detail: String?
        var key: CacheKey?
        var url: URL?
        var asked: (any Sendable)?
        var underlying: (any Error)?
        var retryAfter: Duration?
        var isRemembered = false
        var earlier: [DipperError] = []
    }

    /// A few words for ``shortDescription``.
    private let kind: String
    private let statusCode: Int32?
    private var boxed: Boxed<Notes>?

    private init(_ kind: String, status: Int32? = nil) {
        self.kind = kind
        statusCode = status
    }

    private var notes: Notes {
        get { boxed?.value ?? Notes() }
        set { boxed = Boxed(newValue) }
    }

    /// Details of this occurrence, for a log, such as the name of the processor that failed.
    public var detail: String? {
        guard let notes = boxed?.value else { return nil }
        return notes.detail ?? notes.key?.description
    }

    /// The URL that was asked when the failure came, after redirects and the changes of a ``RequestModifier``; `nil` if
    /// none was. It may contain secrets, which the description does not.
    public var url: URL? { boxed?.value.url }

    /// The error that the program's own code threw: a hook, a provider, a processor, a serializer or a decoder of
    /// values; `nil` for failures of other origin.
    ///
    /// ```swift
    /// task.onEnd { result in
    ///     if case .failure(let error) = result, let mine = error.underlying as? SessionExpired { signIn(mine.account) }
    /// }
    /// ```
    ///
    /// It may contain secrets: no text of it is in ``description``, in logs and in events, only the name of its type.
    /// Comparison does not take it into account.
    public var underlying: (any Error)? { boxed?.value.underlying }

    /// The source that failed, whose type is not known here.
    var asked: (any Sendable)? {
        get { boxed?.value.asked }
        set { notes.asked = newValue }
    }

    /// The time that the server asked the client to wait (`Retry-After`); `nil` if it did not ask.
    public internal(set) var retryAfter: Duration? {
        get { boxed?.value.retryAfter }
        set { notes.retryAfter = newValue }
    }

    /// Whether the cache remembers the failure from an earlier answer and has not asked the server again; see
    /// ``DataCache/Configuration/failureLifetime``.
    public var isRemembered: Bool { boxed?.value.isRemembered ?? false }

    var remembered: DipperError {
        var copy = with(detail: "remembered")
        copy.notes.isRemembered = true
        return copy
    }

    /// The failures of the sources tried before this one, in order; see ``DataRequest/alternatives``.
    public internal(set) var earlier: [DipperError] {
        get { boxed?.value.earlier ?? [] }
        set { notes.earlier = newValue }
    }

    /// The call was cancelled by its caller.
    public static let cancelled = DipperError("cancelled")
    /// The cache has been shut down.
    public static let shutDown = DipperError("shut down")
    /// The text is not an absolute URL with a host.
    public static let invalidURL = DipperError("invalid URL")
    /// The scheme is neither http nor https.
    public static let unsupportedScheme = DipperError("unsupported scheme")
    /// The key is empty.
    public static let emptyKey = DipperError("empty key")
    /// A header's name or value holds a character that HTTP forbids.
    public static let invalidHeader = DipperError("invalid header")
    /// The call may be answered from the cache only, and the cache has no answer.
    public static let notCached = DipperError("not cached")
    /// There is no network, or no route to the host.
    public static let unreachable = DipperError("network unreachable")
    /// The network is constrained or expensive, and the call or its queue may not use such a network.
    public static let networkNotAllowed = DipperError("network not allowed")
    /// The host's name has no address.
    public static let hostNotFound = DipperError("host not found")
    /// The server refused the connection, or it could not be made although there is a route to the host.
    public static let connectionFailed = DipperError("connection failed")
    /// The connection broke before the answer was complete.
    public static let connectionLost = DipperError("connection lost")
    /// The body ended before its announced length.
    public static let truncated = DipperError("truncated body")
    /// A time limit passed.
    public static let timedOut = DipperError("timed out")
    /// The server's certificate, or the TLS handshake, was rejected.
    public static let tlsRejected = DipperError("TLS rejected")
    /// The address policy forbids every address of the host.
    public static let addressRefused = DipperError("address refused")
    /// The body, or the header section, is larger than allowed.
    public static let tooLarge = DipperError("too large")
    /// The server sent more redirects than the cache follows.
    public static let tooManyRedirects = DipperError("too many redirects")
    /// A redirect leads from https to http, and the request has no ``RedirectHandler`` that allows it.
    public static let insecureRedirect = DipperError("insecure redirect")
    /// The server's answer is not HTTP, or its content coding is broken.
    public static let malformedResponse = DipperError("malformed response")
    /// The program's own code refused: the request's validation the answer, or a hook the request.
    public static let rejected = DipperError("rejected")
    /// The bytes have no picture format that a codec is registered for.
    public static let unsupportedFormat = DipperError("unsupported format")
    /// The bytes are broken: they cannot be decoded.
    public static let undecodable = DipperError("undecodable")
    /// The process that decoded the picture apart has crashed, took too long or broke its rules.
    public static let decoderFailed = DipperError("decoder failed")
    /// Decoding apart was required, and is not possible: the detail says what is missing.
    public static let notIsolated = DipperError("not isolated")
    /// The picture's header announces more pixels, frames or memory than the limits allow.
    public static let imageTooLarge = DipperError("image too large")
    /// The picture or the value cannot be written in the requested format.
    public static let unencodable = DipperError("unencodable")
    /// A processor could not do its work.
    public static let processingFailed = DipperError("processing failed")
    /// A local file cannot be read.
    public static let unreadable = DipperError("unreadable file")
    /// The durable entry could not be stored: the cache has no disk tier, the disk is full, read-only or too slow, or
    /// the entry was removed before it was written. Or the file of a download could not be written.
    public static let notWritten = DipperError("not written")
    /// An entry or its file is still on disk although it was to be removed: the folder is read-only or cannot be used,
    /// or the disk fails. The cache does not read it any more.
    public static let notRemoved = DipperError("not removed")
    /// The text that should hold the bytes, such as a data URL or Base64, is malformed.
    public static let invalidData = DipperError("invalid data")
    /// The display was given another picture before this one was loaded.
    public static let replaced = DipperError("replaced")
    /// The display was given nothing to show.
    public static let noSource = DipperError("no source")
    /// The transport reported any other failure.
    public static let transport = DipperError("transport error")

    /// The server answered with a status other than success.
    public static func status(_ status: Int) -> DipperError {
        DipperError("status", status: Int32(clamping: status))
    }

    /// Returns the error with a text that describes this occurrence, without secrets in URLs (``Redaction/standard``).
    public func with(detail: String) -> DipperError { noting(\.detail, Redaction.standard.sentence(detail)) }
    /// Returns the error with the error that has caused it; see ``underlying``.
    ///
    /// A hook that throws an error of its own ends the call. If the failure may pass, the hook throws one that does:
    ///
    /// ```swift
    /// let isAlive = ResponseValidation { response in
    ///     response.body.isEmpty ? .timedOut.with(underlying: SessionExpired()) : nil      // the call tries again
    /// }
    /// ```
    public func with(underlying error: any Error) -> DipperError { noting(\.underlying, error) }
    func at(_ url: URL?) -> DipperError { noting(\.url, url) }
    func about(_ key: CacheKey) -> DipperError { noting(\.key, key) }

    private func noting<Value>(_ note: WritableKeyPath<Notes, Value?>, _ value: Value?) -> DipperError {
        var copy = self
        copy.notes[keyPath: note] = value
        return copy
    }

    /// Creates an error from any error: the same if it has this type, otherwise one of the given kind with the name of its
    /// type and the error itself as ``underlying``.
    package init(_ error: any Error, as kind: DipperError) {
        switch error {
        case let error as DipperError: self = error
        case is CancellationError: self = .cancelled
        default: self = kind.with(detail: "\(type(of: error))").with(underlying: error)
        }
    }

    public static func == (a: Self, b: Self) -> Bool {
        a.kind == b.kind && a.statusCode == b.statusCode
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(kind)
        hasher.combine(statusCode)
    }

    /// The system may have one soon.
    static let noThread = DipperError.connectionFailed.with(detail: "the system gives no thread or no descriptor")

    /// Whether another attempt may succeed, because the network failed or the server was busy.
    public var mayPass: Bool {
        if let status { return [408, 425, 429].contains(status) || (500...599).contains(status) }
        let passing: [DipperError] = [
            .unreachable, .networkNotAllowed, .hostNotFound, .connectionFailed, .connectionLost, .truncated, .timedOut,
        ]
        return passing.contains(self)
    }

    /// Whether the call was cancelled.
    public var isCancelled: Bool { self == .cancelled }
    /// Whether the call could be answered from the cache only, and the cache has no answer.
    public var isNotCached: Bool { self == .notCached }
    /// Whether the display was given another picture before this one was loaded.
    public var isReplaced: Bool { self == .replaced }

    /// The HTTP status, if the error is a ``status(_:)``; otherwise `nil`.
    public var status: Int? { statusCode.map { Int($0) } }

    /// A few words out of a small fixed set, suitable as a metric's label.
    public var shortDescription: String {
        guard let statusCode else { return kind }
        return (100...599).contains(statusCode) ? "status \(statusCode)" : "status out of range"
    }

    /// The kind of error, and the detail if there is one.
    public var description: String {
        if let detail { "\(shortDescription): \(detail)" } else { shortDescription }
    }
    /// The description, which `localizedDescription` returns.
    public var errorDescription: String? { description }
}

extension Result where Failure == DipperError {
    /// The result of the program's own code; an error of another type counts as an error of a kind.
    init(ofHook kind: DipperError, _ body: () async throws -> Success) async {
        do { self = .success(try await body()) } catch { self = .failure(DipperError(error, as: kind)) }
    }
}
