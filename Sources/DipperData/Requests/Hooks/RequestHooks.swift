import Foundation

/// The options that most requests do not set.
struct RequestHooks: Sendable {
    var modifier: RequestModifier?
    var redirectHandler: RedirectHandler?
    var followsRedirects = true
    var sensitiveHeaders: Set<String> = []
    /// The lower-cased names.
    var sensitiveNames: Set<String> { Set(sensitiveHeaders.map { $0.lowercased() }) }
    var credentials: Credentials?
    var validation = ResponseValidation.success
    var wantsErrorBody = false
    var alternatives: [DataRequest.Source] = []
    var lowDataSource: DataRequest.Source?
    var provider: (any DataProvider)?

    static let standard = RequestHooks()

    /// The identities of the hooks that change what is sent, as text for a key; `nil` without such hooks.
    private var mark: String? {
        let parts = [
            credentials.map { "credentials=\($0.identity.digest)" }, modifier.map { "modifier=\($0.identity.digest)" },
        ]
        .compactMap(\.self)
        return parts.isEmpty ? nil : "\n:" + parts.joined(separator: ",")
    }

    /// Whether a hook changes what is sent.
    var changesRequests: Bool { credentials != nil || modifier != nil }

    /// Whether a hook that changes what is sent has no declared identity.
    var isAnonymous: Bool { credentials?.identity.isDeclared == false || modifier?.identity.isDeclared == false }

    /// A box around the hooks, which keeps requests small.
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

    /// A closure that is called before redirects are followed.
    public var redirectHandler: RedirectHandler? {
        get { hooks.redirectHandler }
        set { hooks.redirectHandler = newValue }
    }

    /// Whether redirects are followed. If not, the redirecting answer is the result, which the default ``validation``
    /// refuses.
    ///
    /// ```swift
    /// let request = DataRequest(url).with(\.followsRedirects, false).with(\.validation, .anyStatus)
    /// let response = try await cache.getData(request).response
    /// print(response.headers["Location"] ?? "no redirect")
    /// ```
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
    ///
    /// ```swift
    /// let request = DataRequest(url).with(\.sensitiveHeaders, ["Accept-Language"])
    /// ```
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

    /// The sources to try, in order, after all attempts at the source before have failed. For a call for a picture, an
    /// answer that is no picture is a failure.
    ///
    /// A cancelled call tries no alternative. Without a network, the cache turns to the next source at once if one of
    /// the remaining sources can be reached; a provider always can. The last failure lists those before it:
    /// ``DipperError/earlier``. If several calls share a fetch, the alternatives of the call that made it are tried;
    /// after them, those of a joined call with a provider that is ``DataProvider/isLocal``.
    ///
    /// An alternative's answer is kept under this request's key, unless it comes from a provider that is
    /// ``DataProvider/isLocal``. Such a provider stands in for this call, and the next call asks the first source
    /// again.
    ///
    /// ```swift
    /// let request = DataRequest(url).with(\.alternatives, [mirrorURL])
    /// ```
    public var alternatives: [Source] {
        get { hooks.alternatives }
        set { hooks.alternatives = newValue.map(\.resolved) }
    }

    /// The source to fetch in place of the URL while the network is constrained (see ``NetworkConditions``), unless the
    /// cache has the URL's entry. Its bytes are kept under its own key.
    ///
    /// ```swift
    /// let placeholder = MemoryProvider(Data("tap to load".utf8), key: "placeholder")
    /// let request = DataRequest(url).with(\.lowDataSource, .provider(placeholder))
    /// ```
    public var lowDataSource: Source? {
        get { hooks.lowDataSource }
        set { hooks.lowDataSource = newValue?.resolved }
    }

    /// The URL of ``lowDataSource``; `nil` if that is a provider or not set.
    ///
    /// ```swift
    /// let request = DataRequest(url).with(\.lowDataURL, thumbnailURL)
    /// ```
    public var lowDataURL: URL? {
        get { hooks.lowDataSource?.url }
        set { lowDataSource = newValue.map { .url($0) } }
    }
}
