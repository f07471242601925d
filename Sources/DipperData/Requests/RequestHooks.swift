import Foundation

/// A closure that changes each request before it is sent, also after a redirect, for example to sign it.
///
/// ```swift
/// let signed = RequestModifier(identity: session.account) { request in
///     var request = request
///     request.headers["X-Signature"] = session.signature(of: request.url)
///     return request
/// }
/// let data = try await cache.getData(DataRequest(url).with(\.modifier, signed)).value
/// ```
///
/// The modifier runs for each request that is sent, and starts from the requested URL or the redirect's target. It
/// cannot change queue, throttling and offset. The fields `If-None-Match`, `If-Modified-Since`, `Range` and `If-Range`
/// that the cache has added refer to earlier answers for that URL: a modifier that changes the URL to another resource
/// must remove them.
public struct RequestModifier: Sendable {
    let modify: @Sendable (TransferRequest) async throws -> TransferRequest
    let identity: HookIdentity

    /// Creates a modifier.
    /// - Parameters:
    ///   - identity: everything that decides the server's answer, as text: an account, a tenant, a language; a constant
    ///     if the answers are the same for everyone. The cache hashes it and never writes it in clear. Without an
    ///     identity the answers are not written to disk, and only requests with this value or a copy of it share them.
    ///   - modify: returns the request to send in place of the given one. An error that it throws ends the attempt;
    ///     another error than a ``DipperError`` as ``DipperError/rejected``.
    public init(
        identity: String? = nil,
        _ modify: @escaping @Sendable (TransferRequest) async throws -> TransferRequest
    ) {
        self.modify = modify
        self.identity = HookIdentity(identity)
    }
}

/// A function that turns the bytes of an answer into those that the cache keeps and hands out, for example to decrypt
/// them. It is applied once to each complete answer of a server with a status of 200 to 299, before the validation.
///
/// Progress, previews, ``DataTask/onBytes(_:)`` and partial downloads deal with the bytes as the server has sent them.
///
/// ```swift
/// let decrypted = BodyTransform(identifier: "vault-1") { bytes in try vault.open(bytes) }
/// let image = try await cache.getImage(ImageRequest(url).with(\.bodyTransform, decrypted)).value
/// ```
public struct BodyTransform: Sendable {
    let identity: HookIdentity
    let apply: @Sendable (Data) throws -> Data

    /// Creates a transform.
    /// - Parameters:
    ///   - identifier: everything that decides the outcome beside the bytes, such as the name of the method and its
    ///     version. It is part of the entry's key, so that requests with other transforms, or none, share nothing.
    ///   - apply: returns the bytes to keep; called on a background thread. An error that it throws ends the attempt;
    ///     another error than a ``DipperError`` as ``DipperError/undecodable``.
    public init(identifier: String, _ apply: @escaping @Sendable (Data) throws -> Data) {
        identity = HookIdentity(identifier)
        self.apply = apply
    }
}

/// A rule that decides whether an answer is acceptable, before the answer is kept or handed out. A stored answer is
/// checked again for each call that it might answer.
///
/// ```swift
/// let isJSON = ResponseValidation { response in
///     response.headers["Content-Type"]?.hasPrefix("application/json") == true ? nil : .rejected
/// }
/// let request = DataRequest(url).with(\.validation, .success.and(isJSON))
/// ```
public struct ResponseValidation: Sendable {
    let check: @Sendable (TransferResponse) -> DipperError?

    /// The rule that accepts statuses 200 to 299, the default of every request.
    public static let success = ResponseValidation { response in
        (200...299).contains(response.status) ? nil : .status(response.status)
    }

    /// The rule that accepts every final status. The freshness policy decides which of these answers are kept.
    public static let anyStatus = ResponseValidation { _ in nil }

    /// Creates a rule. The closure may run on a thread that works for other calls, so it must return soon.
    /// - Parameter check: returns the error for an answer, such as ``DipperError/rejected``; `nil` accepts it. Another
    ///   error than a ``DipperError`` that it throws counts as ``DipperError/rejected``.
    public init(_ check: @escaping @Sendable (TransferResponse) throws -> DipperError?) {
        self.check = { response in
            do { return try check(response) } catch { return DipperError(error, as: .rejected) }
        }
    }

    /// Returns a rule that requires both rules and checks this one first.
    public func and(_ other: ResponseValidation) -> ResponseValidation {
        ResponseValidation { response in self.check(response) ?? other.check(response) }
    }
}

/// A closure that is called before each redirect is followed.
///
/// The cache has no cookie store: a handler passes cookies on, where a site needs that. See <doc:HTTPRules#Cookies>.
///
/// The cache only follows redirects to http and https. To another origin it sends only fields that describe the wanted
/// kind of answer, such as `Accept` and `User-Agent`. Without a handler, a redirect from https to http ends the call
/// with ``DipperError/insecureRedirect``. A handler that returns the request allows such a redirect; the answer is then
/// delivered but not kept.
///
/// ```swift
/// let sameHost = RedirectHandler { redirection, request in
///     request.url.host() == url.host() ? request : nil
/// }
/// let request = DataRequest(url).with(\.redirectHandler, sameHost)
/// ```
public struct RedirectHandler: Sendable {
    /// The answer that redirects, without its body.
    public struct Redirection: Sendable, RedactedStringConvertible {
        /// The URL whose server redirects.
        public let url: URL
        /// The status: 301, 302, 303, 307 or 308.
        public let status: Int
        /// The header fields of the redirecting answer.
        public let headers: HTTPHeaders
        /// The number of redirects followed before this one.
        public let count: Int

        /// The status, the URL without secrets, and the names of the fields.
        public var description: String { "\(status) \(Redaction.standard.text(url)) \(headers)" }
    }

    let decide: @Sendable (Redirection, TransferRequest) async throws -> TransferRequest?

    /// Creates a handler from a closure that returns the request to send next. With `nil` the redirecting answer is the
    /// result, which the default ``DataRequest/validation`` refuses. An error that the closure throws ends the attempt;
    /// another error than a ``DipperError`` as ``DipperError/rejected``.
    public init(_ decide: @escaping @Sendable (Redirection, TransferRequest) async throws -> TransferRequest?) {
        self.decide = decide
    }
}

struct RequestHooks: Sendable {
    var modifier: RequestModifier?
    var bodyTransform: BodyTransform?
    var redirectHandler: RedirectHandler?
    var followsRedirects = true
    var sensitiveHeaders: Set<String> = []
    var sensitiveNames: FieldNames { FieldNames(sensitiveHeaders) }
    var credentials: Credentials?
    var validation = ResponseValidation.success
    var wantsErrorBody = false
    var alternatives: [DataRequest.Source] = []
    var lowDataSource: DataRequest.Source?
    var provider: (any DataProvider)?
    var transport: (any Sendable)?

    static let standard = RequestHooks()

    /// The identities of the hooks that change what is sent or kept, as text for a key.
    private var mark: String? {
        let parts = [
            credentials.map { "credentials=\($0.identity.digest)" }, modifier.map { "modifier=\($0.identity.digest)" },
            bodyTransform.map { "transform=\($0.identity.digest)" },
        ]
        .compactMap(\.self)
        return parts.isEmpty ? nil : "\n:" + parts.joined(separator: ",")
    }

    var changesRequests: Bool { credentials != nil || modifier != nil }

    var isAnonymous: Bool { credentials?.identity.isDeclared == false || modifier?.identity.isDeclared == false }

    /// A reference, which keeps requests small.
    final class Box: Sendable {
        let hooks: RequestHooks
        let mark: String?

        init(_ hooks: RequestHooks) {
            self.hooks = hooks
            // mutant RequestHook|Credential: `mark = hooks.mark` => `mark = nil`
            mark = hooks.mark
        }
    }
}

extension DataRequest {
    /// A closure that may change each request before it is sent. Its identity is part of the key.
    public var modifier: RequestModifier? {
        get { hooks.modifier }
        set { hooks.modifier = newValue }
    }

    /// The function that turns a server's bytes into those that are kept. Its identifier is part of the key.
    public var bodyTransform: BodyTransform? {
        get { hooks.bodyTransform }
        set { hooks.bodyTransform = newValue }
    }

    /// A closure that is called before redirects are followed.
    public var redirectHandler: RedirectHandler? {
        get { hooks.redirectHandler }
        set { hooks.redirectHandler = newValue }
    }

    /// Whether redirects are followed. If not, the redirecting answer is the result, which the default ``validation``
    /// refuses.
    public var followsRedirects: Bool {
        get { hooks.followsRedirects }
        set { hooks.followsRedirects = newValue }
    }

    /// Names of header fields that are not sent to another origin, neither after a redirect nor to one of
    /// ``alternatives``.
    ///
    /// Without this set, another origin receives `Accept`, `Accept-Charset`, `Accept-Encoding`, `Accept-Language`,
    /// `Cache-Control`, `Pragma`, `Priority`, `Range`, `Save-Data`, `User-Agent` and the conditional fields (`If-…`),
    /// and no other field ever.
    public var sensitiveHeaders: Set<String> {
        get { hooks.sensitiveHeaders }
        set { hooks.sensitiveHeaders = newValue }
    }

    /// The credentials that are sent with the request. Their identity is part of the key.
    public var credentials: Credentials? {
        get { hooks.credentials }
        set { hooks.credentials = newValue }
    }

    /// The rule that decides which answers are acceptable. By default, answers with a status of 200 to 299 are.
    public var validation: ResponseValidation {
        get { hooks.validation }
        set {
            hooks.validation = newValue
            hooks.wantsErrorBody = true
        }
    }

    /// The sources to try, in order, after all attempts at the source before have failed. For a call for a picture or
    /// a typed value, an answer that cannot be decoded is a failure.
    ///
    /// A cancelled call tries no alternative. Without a network, the cache turns to the next source at once if one of
    /// the remaining sources can be reached; a provider always can. If several calls share a fetch, the alternatives of
    /// the call that made it are tried; after them, those of a joined call with a provider that is
    /// ``DataProvider/isLocal``. The last failure lists those before it: ``DipperError/earlier``.
    ///
    /// An alternative's answer is kept under this request's key, unless it comes from a provider that is
    /// ``DataProvider/isLocal``, which stands in for this call only.
    public var alternatives: [Source] {
        get { hooks.alternatives }
        set { hooks.alternatives = newValue.map(\.resolved) }
    }

    /// The source to fetch in place of the URL while the network is constrained (see ``NetworkConditions``), unless the
    /// cache has the URL's entry. Its bytes are kept under its own key.
    public var lowDataSource: Source? {
        get { hooks.lowDataSource }
        set { hooks.lowDataSource = newValue?.resolved }
    }

    /// The URL of ``lowDataSource``; `nil` if that is a provider or not set.
    public var lowDataURL: URL? {
        get { hooks.lowDataSource?.url }
        set { lowDataSource = newValue.map { .url($0) } }
    }
}

/// The identity for which a hook changes requests, such as an account, as text for a key.
struct HookIdentity: Sendable, Hashable {
    /// A digest, because the identity may be a secret.
    let digest: String
    /// Whether the caller declared the identity, so that another process recognizes it.
    let isDeclared: Bool

    /// With `nil`, the identity is one that no other hook has.
    init(_ name: String?) {
        digest = CacheKey.digest(
            name.map { "declared:\($0)" } ?? "\(UInt64.random(in: 0 ... .max)):\(UInt64.random(in: 0 ... .max))")
        isDeclared = name != nil
    }
}
