import Foundation

/// The directives of `Cache-Control` (RFC 9111, section 5.2; RFC 5861; RFC 8246), or for a shared cache those of
/// `CDN-Cache-Control` in their place (RFC 9213).
///
/// Unknown directives are ignored. A response's lifetime that is not a number of seconds makes the answer stale (section
/// 4.2.1). Of contradictory directives the most restrictive counts.
struct CacheControl: Sendable, Hashable {
    /// Whether the directives are read for a shared cache.
    private(set) var isShared = false
    /// Whether they are those of a targeted field, beside which `Expires` does not count (RFC 9213, section 2.2).
    private(set) var isTargeted = false
    var maxAge: TimeInterval?
    var sharedMaxAge: TimeInterval?
    var noCache = false
    /// The lower-cased names of fields that must not be reused without validation.
    var noCacheFields: [String] = []
    var noStore = false
    var mustRevalidate = false
    var proxyRevalidate = false
    var mustUnderstand = false
    var isPrivate = false
    /// Whether the whole answer is private, not only the fields that the directive names.
    var isWhollyPrivate = false
    /// The lower-cased names of fields that a shared cache must not keep.
    var privateFields: [String] = []
    var isPublic = false
    var immutable = false
    var staleWhileRevalidate: TimeInterval?
    var staleIfError: TimeInterval?
    var minFresh: TimeInterval?
    /// Infinite if the request sets no limit.
    var maxStale: TimeInterval?
    var onlyIfCached = false

    /// In seconds, by the directives alone.
    var lifetime: TimeInterval? { isShared ? sharedMaxAge ?? maxAge : maxAge }

    /// Whether a stale answer must not be used. For a shared cache `s-maxage` says so too (RFC 9111, section 5.2.2.10).
    var forbidsStale: Bool { mustRevalidate || isShared && (proxyRevalidate || sharedMaxAge != nil) }

    /// Whether a shared cache may keep the answer to a request with credentials (section 3.5).
    var allowsCredentials: Bool { isPublic || mustRevalidate || sharedMaxAge != nil }

    init(response: HTTPHeaders, isShared: Bool) {
        self.init(response: response)
        if isShared { self = forShared(response) }
    }

    /// The directives for a shared cache, of the response from which these were read.
    func forShared(_ response: HTTPHeaders) -> CacheControl {
        var control = isShared ? self : CacheControl(targeted: response.values("CDN-Cache-Control")) ?? self
        control.isShared = true
        return control
    }

    private init?(targeted lines: [String]) {
        guard let fields = FieldDictionary(lines), !fields.members.isEmpty else { return nil }
        self.init(directives: fields.members.compactMap { Directive($0.key, $0.value) })
        isTargeted = true
        if fields.isCut { noStore = true }
    }

    init(response: HTTPHeaders) {
        let list = FieldList(response.values("Cache-Control"))
        self.init(directives: list.members.map { Directive($0) })
        // The unread rest may forbid storing.
        if list.isCut { noStore = true }
    }

    private init(directives: [Directive]) {
        var (unvalidated, personal): (Set<String>, Set<String>) = ([], [])
        for directive in directives {
            switch directive.name {
            case "max-age": Self.lower(&maxAge, to: directive.seconds ?? 0)
            case "s-maxage": Self.lower(&sharedMaxAge, to: directive.seconds ?? 0)
            case "no-cache": if !directive.names(&noCacheFields, &unvalidated) { noCache = true }
            case "no-store": noStore = true
            case "must-revalidate": mustRevalidate = true
            case "proxy-revalidate": proxyRevalidate = true
            case "must-understand": mustUnderstand = true
            case "private":
                isPrivate = true
                if !directive.names(&privateFields, &personal) { isWhollyPrivate = true }
            case "public": isPublic = true
            case "immutable": immutable = true
            case "stale-while-revalidate": Self.lower(&staleWhileRevalidate, to: directive.seconds ?? 0)
            case "stale-if-error": Self.lower(&staleIfError, to: directive.seconds ?? 0)
            default: break
            }
        }
    }

    init(request: HTTPHeaders) {
        for directive in request.list("Cache-Control").map({ Directive($0) }) {
            switch directive.name {
            case "max-age": directive.seconds.map { Self.lower(&maxAge, to: $0) }
            case "no-cache": noCache = true
            case "no-store": noStore = true
            case "only-if-cached": onlyIfCached = true
            case "stale-if-error": directive.seconds.map { Self.lower(&staleIfError, to: $0) }
            case "min-fresh": directive.seconds.map { minFresh = max(minFresh ?? 0, $0) }
            case "max-stale":
                let limit = directive.argument == nil ? TimeInterval.infinity : directive.seconds
                limit.map { Self.lower(&maxStale, to: $0) }
            default: break
            }
        }
        // `Pragma` counts only without `Cache-Control` (section 5.4).
        if request["Cache-Control"] == nil, request.pragmaSaysNoCache { noCache = true }
    }

    private static func lower(_ value: inout TimeInterval?, to limit: TimeInterval) {
        // mutant CacheControl: `value = min(value ?? limit, limit)` => `value = max(value ?? limit, limit)`
        value = min(value ?? limit, limit)
    }

    private struct Directive {
        let name: String
        /// Not trimmed, so that a malformed argument is not taken for a number.
        let argument: String?
        let seconds: TimeInterval?

        init(_ text: String) {
            let end = text.utf8.firstIndex { !$0.isTokenCharacter } ?? text.endIndex
            name = String(text[..<end]).asciiLowercased
            let rest = text[end...].utf8
            let argument = rest.first == UInt8(ascii: "=") ? rest.dropFirst() : rest
            self.argument = rest.isEmpty ? nil : String(decoding: argument, as: UTF8.self)
            seconds = self.argument.flatMap { DeltaSeconds.parse($0.unquoted ?? $0) }
        }

        /// A member of a targeted field, whose type says what it is (RFC 9213, section 2.1); `nil` for `?0`.
        init?(_ name: String, _ value: FieldDictionary.Value) {
            if value == .boolean(false) { return nil }
            self.name = name
            switch value {
            case .boolean: (argument, seconds) = (nil, nil)
            case .integer(let number): (argument, seconds) = ("", DeltaSeconds.parse("\(number)"))
            case .string(let text): (argument, seconds) = (text, nil)
            case .other: (argument, seconds) = ("", nil)
            }
        }

        /// Adds the names of fields in the argument.
        /// - Returns: `false` if the directive is about all fields. Too many names count as all.
        func names(_ fields: inout [String], _ known: inout Set<String>) -> Bool {
            guard let argument else { return false }
            let list = FieldList([argument.trimmingOptionalSpace.unquoted ?? argument], most: FieldList.most + 1)
            let names = list.members.map(\.asciiLowercased).filter { $0.utf8.allSatisfy(\.isTokenCharacter) }
            guard !names.isEmpty, known.count + names.count <= FieldList.most else { return false }
            fields += names.filter { known.insert($0).inserted }
            return true
        }
    }
}

extension HTTPHeaders {
    var pragmaSaysNoCache: Bool {
        list("Pragma").contains { $0.asciiLowercased == "no-cache" }
    }
}
