import Foundation

/// The options that most requests do without.
struct RequestHooks: Sendable {
    var modifier: RequestModifier?
    var redirectHandler: RedirectHandler?
    var followsRedirects = true
    var sensitiveHeaders: Set<String> = []
    var credentials: Credentials?
    var validation = ResponseValidation.success
    var wantsErrorBody = false
    var alternatives: [DataRequest.Source] = []
    var lowDataSource: DataRequest.Source?
    var provider: (any DataProvider)?

    static let standard = RequestHooks()

    /// The identities of those who change what is sent, as text for a key; `nil` if nobody does.
    private var mark: String? {
        let parts = [
            credentials.map { "credentials=\($0.identity.digest)" }, modifier.map { "modifier=\($0.identity.digest)" },
        ]
        .compactMap(\.self)
        return parts.isEmpty ? nil : "\n:" + parts.joined(separator: ",")
    }

    /// Someone changes what is sent.
    var changesRequests: Bool { credentials != nil || modifier != nil }

    /// Someone changes what is sent who has declared no identity.
    var isAnonymous: Bool { credentials?.identity.isDeclared == false || modifier?.identity.isDeclared == false }

    /// Keeps requests small.
    final class Box: Sendable {
        let hooks: RequestHooks
        let mark: String?

        init(_ hooks: RequestHooks) {
            self.hooks = hooks
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

    /// A closure that is called before redirects are followed.
    public var redirectHandler: RedirectHandler? {
        get { hooks.redirectHandler }
        set { hooks.redirectHandler = newValue }
    }

    /// Whether redirects are followed. If not, the redirecting answer counts.
    public var followsRedirects: Bool {
        get { hooks.followsRedirects }
        set { hooks.followsRedirects = newValue }
    }

    /// Names of header fields that are not sent to another origin, neither after a redirect nor to one of
    /// ``alternatives``.
    ///
    /// Without this set, another origin receives `Accept`, `Accept-Charset`, `Accept-Encoding`, `Accept-Language`,
    /// `Cache-Control`, `Pragma`, `Priority`, `Range`, `Save-Data`, `User-Agent` and the conditional fields (`If-…`).
    /// All other fields are never sent to another origin.
    public var sensitiveHeaders: Set<String> {
        get { hooks.sensitiveHeaders }
        set { hooks.sensitiveHeaders = newValue }
    }

    /// The credentials that are sent with the request. Their identity is part of the key.
    public var credentials: Credentials? {
        get { hooks.credentials }
        set { hooks.credentials = newValue }
    }

    /// Which answers will do; by default those with a status of 200 to 299.
    public var validation: ResponseValidation {
        get { hooks.validation }
        set {
            hooks.validation = newValue
            hooks.wantsErrorBody = true
        }
    }

    /// Other places to fetch from, tried in order when all attempts at the one before have failed; never after a
    /// cancel. Without a network the next one is tried at once if one of them can be reached, as a provider always can.
    /// The last failure tells of those before it: ``DipperError/earlier``. Of several calls that share a fetch those of
    /// the one that made it count.
    ///
    /// What comes from them is kept under this request's key, unless it comes from a provider that is
    /// ``DataProvider/isLocal``: that stands in for this call, and the next one asks the first source again.
    ///
    /// URLs can be given as they are: `request.with(\.alternatives, [mirror])`.
    public var alternatives: [Source] {
        get { hooks.alternatives }
        set { hooks.alternatives = newValue }
    }

    /// Fetched in place of the URL while the network is constrained (see ``NetworkConditions``), unless the cache has
    /// what the URL names. Kept under its own key.
    public var lowDataSource: Source? {
        get { hooks.lowDataSource }
        set { hooks.lowDataSource = newValue }
    }

    /// The URL of ``lowDataSource``, if it is one.
    public var lowDataURL: URL? {
        get { hooks.lowDataSource?.url }
        set { hooks.lowDataSource = newValue.map { .url($0) } }
    }
}
