import Foundation
import Synchronization

package struct StoredData: Sendable {
    package let data: Data
    package let info: EntryInfo
    /// As in `info`, which a hit need not read then.
    let isPlain: Bool

    package init(data: Data, info: EntryInfo) {
        self.data = data
        self.info = info
        isPlain = info.isPlain
    }

    func cost(for key: CacheKey) -> Int { data.count + info.cost(for: key) }
}

/// The metadata of an entry, a class so that a hit copies one pointer.
package final class EntryInfo: Sendable {
    let url: String
    /// The URL that was asked for, if redirects or an alternative led to another.
    let asked: String?
    package let status: Int
    package let headers: HTTPHeaders
    /// The time at which the entry was stored, in seconds since 1970.
    package let stored: TimeInterval
    let freshness: Freshness
    /// The request fields that chose this answer; `nil` if there is only one answer.
    let variant: Variant?
    /// The number that the variants of one answer share, and that the keys of the other variants contain.
    let family: UInt64

    /// Whether a local source stood in for one that failed, so that the entry is not kept.
    package let isStandIn: Bool

    package let audience: Audience

    let isPlain: Bool

    let begun: UInt64
    /// A moment after which the answer was not asked for, in seconds since 1970: a newer one that another process has
    /// stored since is not replaced. Infinite for what the program adds.
    let requested: TimeInterval

    private let textBytes: Int
    private let knownControl = AtomicLazyReference<Reference<CacheControl>>()

    /// - Parameters:
    ///   - freshness: `nil` for bytes whose freshness no server limits.
    ///   - begun: a moment before the bytes were requested or read.
    ///   - control: the directives of the answer, if they have been read.
    init(
        url: String, asked: String? = nil, status: Int = 200, headers: HTTPHeaders = [:], stored: TimeInterval,
        freshness: Freshness? = nil, variant: Variant? = nil, family: UInt64 = 0, isStandIn: Bool = false,
        audience: Audience = .cache, begun: UInt64 = RemovalHistory.now, requested: TimeInterval = .infinity,
        control: CacheControl? = nil
    ) {
        (self.begun, self.requested, self.stored, self.audience) = (begun, requested, stored, audience)
        (self.url, self.asked) = (url, asked == url ? nil : asked)
        (self.status, self.headers, self.isStandIn) = (status, headers, isStandIn)
        self.freshness = freshness ?? .always(from: stored)
        (self.variant, self.family) = (variant, family)
        isPlain = variant == nil && (200...299).contains(status)
        let fields = headers.fields.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count + Self.fieldCost }
        let values = variant.map { variant in
            zip(variant.names, variant.values).reduce(0) {
                $0 + $1.0.utf8.count + ($1.1?.utf8.count ?? 0) + Self.fieldCost
            }
        }
        textBytes = url.utf8.count + (self.asked?.utf8.count ?? 0) + fields + (values ?? 0)
        if let control { _ = knownControl.storeIfNil(Reference(control)) }
    }

    /// The directives of the answer, which are read once.
    func control(isShared: Bool) -> CacheControl {
        guard let known = knownControl.load()?.value else {
            let control = CacheControl(response: headers, isShared: isShared)
            _ = knownControl.storeIfNil(Reference(control))
            return control
        }
        if known.isShared == isShared { return known }
        return isShared ? known.forShared(headers) : CacheControl(response: headers)
    }

    /// The header fields of the answer as they are kept.
    func fields(isShared: Bool = false) -> HTTPHeaders {
        Storing.fields(of: headers, isShared: isShared, control(isShared: isShared))
    }

    /// The estimated storage of two texts in an array, in bytes.
    private static let fieldCost = 96

    func cost(for key: CacheKey) -> Int { key.string.utf8.count + textBytes + 256 }

    func with(
        _ headers: HTTPHeaders? = nil, family: UInt64? = nil, freshness: Freshness? = nil, audience: Audience? = nil
    ) -> EntryInfo {
        EntryInfo(
            url: url, asked: asked, status: status, headers: headers ?? self.headers, stored: stored,
            freshness: freshness ?? self.freshness, variant: variant, family: family ?? self.family,
            isStandIn: isStandIn, audience: audience ?? self.audience, begun: begun, requested: requested)
    }

    /// The metadata in a tier that others read, in which no entry is fresh for longer than a shared cache may use it.
    var shared: EntryInfo {
        let control = control(isShared: true)
        let its = Freshness(
            status: status, headers: headers, requested: stored, received: stored, defaultLifetime: .infinity,
            isShared: true, control)
        let until = min(freshness.until, its.until)
        return with(
            Storing.fields(of: headers, isShared: true, control),
            freshness: Freshness(generated: freshness.generated, until: until))
    }

    func saysTheSame(as other: EntryInfo) -> Bool {
        guard freshness.until == other.freshness.until, variant == other.variant else { return false }
        let lasting = [self, other].map { info in info.headers.fields.filter { !Self.passing.contains($0.name) } }
        if lasting[0] == lasting[1] { return true }
        // A confirmation moves the fields that it names to the end. The order of fields of one name counts.
        return lasting[0].count == lasting[1].count && Self.byName(lasting[0]) == Self.byName(lasting[1])
    }

    private static let passing: FieldNames = ["Age", "Date"]

    private static func byName(_ fields: [HTTPHeaders.Field]) -> [HTTPHeaders.Field] {
        let fields = fields.map { HTTPHeaders.Field($0.name.asciiLowercased, $0.value) }
        return fields.indices.sorted { (fields[$0].name, $0) < (fields[$1].name, $1) }.map { fields[$0] }
    }

    func isOf(_ address: String) -> Bool { url == address || asked == address }

    /// Whether a URL was asked, and not a provider or the program.
    var hasURL: Bool { !url.isEmpty && url != Self.providerAddress }

    static let providerAddress = "provider:"

    func isChosen(by request: HTTPHeaders) -> Bool { variant?.matches(request) ?? true }

    package var source: URL? { url.hasPrefix("http") ? URL(text: url) : nil }

    /// Returns whether a request with these header fields may see a picture or other value made from this answer.
    package func mayBeShown(to request: HTTPHeaders) -> Bool { (200...299).contains(status) && isChosen(by: request) }
}

/// The trace that an attempt leaves if it brings no entry.
enum Remnant: Sendable {
    /// A partial body, which is read only for an attempt that may continue it.
    case partial
    case failure(EntryInfo)

    init(_ info: EntryInfo) { self = info.status >= 400 ? .failure(info) : .partial }

    var isPartial: Bool { if case .partial = self { true } else { false } }
    var failure: EntryInfo? { if case .failure(let info) = self { info } else { nil } }
}

/// The URLs of an entry in one text: the one after redirects, then, after a line break, the one asked for if it differs.
struct Addresses {
    var url: String
    var asked: String?

    init(_ info: EntryInfo) { (url, asked) = (info.url, info.asked) }

    init(url: String) { self.url = url }

    init(_ text: String) {
        let end = text.utf8.firstIndex(of: UInt8(ascii: "\n"))
        url = end.map { String(text[..<$0]) } ?? text
        asked = end.map { String(text[text.utf8.index(after: $0)...]) }
    }

    var text: String { asked.map { "\(url)\n\($0)" } ?? url }
    var all: [String] { [url] + (asked.map { [$0] } ?? []) }
}

/// An entry of the disk tier, without its bytes.
public struct CachedEntry: Sendable, Hashable {
    /// The key of the entry.
    public let key: CacheKey
    /// The URL of the bytes after all redirects, without user and fragment; `provider:` for those of a provider. Empty
    /// for entries that the caller added under a key.
    public let url: String
    /// The size of the entry on disk in bytes, including its metadata.
    public let size: Int
    /// The time at which the entry was stored.
    public let stored: Date
    /// The time of the last recorded read. The cache records reads in batches.
    public let accessed: Date
    /// The time at which the entry expires; `nil` for never.
    public let expires: Date?
}

/// A part of the list of all entries, in an order.
package struct EntryQuery: Sendable {
    package enum Order: String, Sendable { case used, stored, size, expires, url }

    package static let mostCounted = 10_000

    /// The text that URLs, or the names of the steps by which entries were made from others, contain, in any case. The
    /// query of a URL and the digests in a key are not searched, because they may tell a secret.
    package var text = ""
    package var order = Order.used
    package var isAscending = false
    package var offset = 0
    package var limit = 50

    package init() {}
}

extension EntryInfo: RedactedStringConvertible {
    package var description: String { "\(Redaction.standard.text(url)) \(status)" }
}

extension CachedEntry: RedactedStringConvertible {
    /// The key without secrets, and the number of bytes.
    public var description: String { "\(key) \(size) bytes" }
}
