import Foundation
import Synchronization

/// The directives of `Cache-Control` for a private cache (RFC 9111, section 5.2; RFC 5861; RFC 8246).
///
/// Unknown directives are ignored, also `s-maxage`, `proxy-revalidate` and the field names of `private`, which concern
/// shared caches. A response's lifetime that is not a number of seconds makes the answer stale (section 4.2.1). Of
/// contradictory directives the most restrictive counts.
struct CacheControl: Sendable, Hashable {
    var maxAge: TimeInterval?
    var noCache = false
    /// The lower-cased names of fields that must not be reused without validation.
    var noCacheFields: [String] = []
    var noStore = false
    var mustRevalidate = false
    var mustUnderstand = false
    var isPrivate = false
    var isPublic = false
    var immutable = false
    var staleWhileRevalidate: TimeInterval?
    var staleIfError: TimeInterval?
    var minFresh: TimeInterval?
    /// Infinite if the request sets no limit.
    var maxStale: TimeInterval?
    var onlyIfCached = false

    /// The last line and its directives: most answers of a server say the same.
    private static let latest = Mutex<(line: String, control: CacheControl)>(("", CacheControl(lines: [])))

    init(response: HTTPHeaders) {
        let lines = response.values("Cache-Control")
        guard lines.count == 1, let line = lines.first else {
            self.init(lines: lines)
            return
        }
        if let known = Self.latest.withLock({ $0.line.utf8.elementsEqual(line.utf8) ? $0.control : nil }) {
            self = known
        } else {
            self.init(lines: lines)
            Self.latest.withLock { [self] in $0 = (line, self) }
        }
    }

    private init(lines: [String]) {
        let list = FieldList(lines)
        // The unread rest may forbid storing.
        if list.isCut { noStore = true }
        var named: Set<String> = []
        for directive in list.members.map(Directive.init) {
            switch directive.name {
            case "max-age": Self.lower(&maxAge, to: directive.seconds ?? 0)
            case "no-cache":
                let fields = directive.fieldNames
                // Too many names count as all fields.
                if fields.isEmpty || named.count + fields.count > FieldList.most { noCache = true }
                guard named.count + fields.count <= FieldList.most else { break }
                noCacheFields += fields.filter { named.insert($0).inserted }
            case "no-store": noStore = true
            case "must-revalidate": mustRevalidate = true
            case "must-understand": mustUnderstand = true
            case "private": isPrivate = true
            case "public": isPublic = true
            case "immutable": immutable = true
            case "stale-while-revalidate": Self.lower(&staleWhileRevalidate, to: directive.seconds ?? 0)
            case "stale-if-error": Self.lower(&staleIfError, to: directive.seconds ?? 0)
            default: break
            }
        }
    }

    init(request: HTTPHeaders) {
        for directive in request.list("Cache-Control").map(Directive.init) {
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

        init(_ text: String) {
            let end = text.utf8.firstIndex { !$0.isTokenCharacter } ?? text.endIndex
            name = String(text[..<end]).asciiLowercased
            let rest = text[end...].utf8
            let argument = rest.first == UInt8(ascii: "=") ? rest.dropFirst() : rest
            self.argument = rest.isEmpty ? nil : String(decoding: argument, as: UTF8.self)
        }

        var seconds: TimeInterval? {
            argument.flatMap { DeltaSeconds.parse($0.unquoted ?? $0) }
        }

        var fieldNames: [String] {
            guard let argument else { return [] }
            let list = FieldList([argument.trimmingOptionalSpace.unquoted ?? argument], most: FieldList.most + 1)
            return list.members.map(\.asciiLowercased)
                .filter { $0.utf8.allSatisfy(\.isTokenCharacter) }
        }
    }
}

extension HTTPHeaders {
    var pragmaSaysNoCache: Bool {
        list("Pragma").contains { $0.asciiLowercased == "no-cache" }
    }
}
