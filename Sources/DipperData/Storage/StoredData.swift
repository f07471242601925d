import Foundation

/// Bytes and what is known of them: what the tiers keep.
package struct StoredData: Sendable {
    package let data: Data
    package let info: EntryInfo

    package init(data: Data, info: EntryInfo) {
        self.data = data
        self.info = info
    }

    /// The memory that the entry takes, in bytes: data, key and header fields, and an estimate for what surrounds them.
    func cost(for key: CacheKey) -> Int { data.count + info.cost(for: key) }
}

/// What is known of an entry apart from its bytes. A reference, so that a hit copies one pointer.
package final class EntryInfo: Sendable {
    /// What the bytes were fetched from, after all redirects; empty for entries added by hand under a key.
    let url: String
    package let status: Int
    package let headers: HTTPHeaders
    /// Seconds since 1970.
    package let stored: TimeInterval
    let freshness: Freshness
    /// The request fields that chose this answer; `nil` if there is but one.
    let variant: Variant?
    /// Other variants are kept under keys made with it.
    let family: UInt64

    /// Brought by something else in place of what failed: handed out, and not kept.
    package let isStandIn: Bool

    /// A success, and the only answer there is.
    let isPlain: Bool

    /// When the work began that brought the entry: a moment of ``StoreHistory``.
    let begun: UInt64

    /// Bytes of the texts, and of what surrounds each of them.
    private let textBytes: Int

    /// - Parameters:
    ///   - freshness: `nil` for bytes that no server has anything to say about.
    ///   - begun: a moment before the bytes were asked for or read.
    init(
        url: String, status: Int = 200, headers: HTTPHeaders = [:], stored: TimeInterval,
        freshness: Freshness? = nil, variant: Variant? = nil, family: UInt64 = 0, isStandIn: Bool = false,
        begun: UInt64 = StoreHistory.now
    ) {
        self.begun = begun
        self.url = url
        self.status = status
        self.headers = headers
        self.stored = stored
        self.freshness = freshness ?? .always(from: stored)
        self.variant = variant
        self.family = family
        self.isStandIn = isStandIn
        isPlain = variant == nil && (200...299).contains(status)
        let fields = headers.fields.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count + Self.fieldCost }
        let values = variant.map { variant in
            zip(variant.names, variant.values).reduce(0) {
                $0 + $1.0.utf8.count + ($1.1?.utf8.count ?? 0) + Self.fieldCost
            }
        }
        textBytes = url.utf8.count + fields + (values ?? 0)
    }

    /// Two texts in an array, and the blocks that the texts lie in.
    private static let fieldCost = 96

    /// An estimate of the memory that the metadata takes with its key, in bytes.
    func cost(for key: CacheKey) -> Int { key.string.utf8.count + textBytes + 256 }

    /// Returns a copy of the metadata that has these header fields.
    func with(_ headers: HTTPHeaders, family: UInt64) -> EntryInfo {
        EntryInfo(
            url: url, status: status, headers: headers, stored: stored, freshness: freshness, variant: variant,
            family: family, isStandIn: isStandIn, begun: begun)
    }

    /// Whether nothing has changed but the moment.
    func saysTheSame(as other: EntryInfo) -> Bool {
        let isMoment: (HTTPHeaders.Field) -> Bool = { ["date", "age"].contains($0.name.lowercased()) }
        return freshness.until == other.freshness.until && variant == other.variant
            && headers.fields.filter { !isMoment($0) } == other.headers.fields.filter { !isMoment($0) }
    }

    /// Whether this is an answer to a request with these fields.
    func isChosen(by request: HTTPHeaders) -> Bool { variant?.matches(request) ?? true }
}

/// An entry of the disk tier, without its bytes.
public struct CachedEntry: Sendable, Hashable {
    /// What the entry is found by.
    public let key: CacheKey
    /// What the bytes were fetched from, after all redirects; empty for entries added by hand under a key.
    public let url: String
    /// Bytes on disk, the store's own few included.
    public let size: Int
    /// When it was written.
    public let stored: Date
    /// When it was last read, as far as that has been noted; hits are noted in batches.
    public let accessed: Date
    /// `nil` for never.
    public let expires: Date?
}

/// How the files of entries are named.
public struct FileNaming: Sendable {
    let name: @Sendable (CacheKey) -> String

    /// The key's SHA-256.
    public static let sha256 = FileNaming(name: KeyDigest.sha256)
    /// The key's SHA-256, a dot, and an extension where there is one: for files that other programs are to open. Entries
    /// that are too small to have a file of their own have no name either; see ``DataCache/file(for:)``.
    public static func sha256(extension end: FileExtension) -> FileNaming {
        FileNaming { key in
            let digest = KeyDigest.sha256(key)
            return end.text(key).map { "\(digest).\($0)" } ?? digest
        }
    }
    /// The key's SHA-1.
    public static let sha1 = FileNaming(name: KeyDigest.sha1)
    /// The key's MD5.
    public static let md5 = FileNaming(name: KeyDigest.md5)

    /// A rule of one's own. A name that could not be a plain file's name is replaced by the key's SHA-256; two
    /// keys with one name take each other's place, and are never mistaken for each other.
    public static func custom(_ rule: @escaping @Sendable (CacheKey) -> String) -> FileNaming {
        FileNaming { key in
            let name = rule(key)
            return KeyDigest.isPlainFileName(name) ? name : KeyDigest.sha256(key)
        }
    }
}

extension EntryInfo: RedactedStringConvertible {
    /// The URL without secrets, and the status.
    package var description: String { "\(Redaction.standard.text(url)) \(status)" }
}

extension CachedEntry: RedactedStringConvertible {
    /// The key without secrets, and the number of bytes.
    public var description: String { "\(key) \(size) bytes" }
}
