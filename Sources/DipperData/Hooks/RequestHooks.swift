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

    /// Keeps requests small.
    final class Box: Sendable {
        let hooks: RequestHooks

        init(_ hooks: RequestHooks) {
            self.hooks = hooks
        }
    }
}

extension DataRequest {
    /// Has the last word on what is sent.
    public var modifier: RequestModifier? {
        get { hooks.modifier }
        set { hooks.modifier = newValue }
    }

    /// Is asked before redirects are followed.
    public var redirectHandler: RedirectHandler? {
        get { hooks.redirectHandler }
        set { hooks.redirectHandler = newValue }
    }

    /// Whether redirects are followed. If not, the redirecting answer counts.
    public var followsRedirects: Bool {
        get { hooks.followsRedirects }
        set { hooks.followsRedirects = newValue }
    }

    /// Names of fields that do not go along with a redirect to another origin, besides `Authorization`, `Cookie` and
    /// the like.
    public var sensitiveHeaders: Set<String> {
        get { hooks.sensitiveHeaders }
        set { hooks.sensitiveHeaders = newValue }
    }

    /// Who the request is made for.
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
