import CCrypto
import Foundation

/// The identity of an entry, for deduplication and storage.
///
/// The default key of a request consists of its URL without the fragment, its header fields, the user in its URL, and
/// the identities of its ``Credentials``, ``RequestModifier`` and ``BodyTransform``. URLs that name one http or https
/// resource by RFC 9110, section 4.2.3, such as `HTTP://Example.org:80/%7Ea` and `http://example.org/~a`, have one key.
/// Field names and the URL's query are plain text in the key; field values, the user and the identities are digests. A
/// key may also be any string of the caller's own, to which the identities are added.
///
/// ```swift
/// let data = try await cache.getData(DataRequest(url).with(\.key, "front page")).value
/// let again = cache.readData(for: "front page")
/// let inbox = DataRequest(url).with(\.key, "inbox of \(session.account)")
/// ```
public struct CacheKey: Sendable, Hashable, RedactedStringConvertible, ExpressibleByStringInterpolation {
    /// The key as text.
    public let string: String
    /// Made once, so that a prepared key is found without reading its text again.
    let hash: KeyHash

    private init(_ string: String, hash: KeyHash) {
        self.string = string
        self.hash = hash
    }

    /// Creates a key from text of the caller's own. If the text contains a line break and a number sign, which begin
    /// the part of a key that names a derived entry, a backslash is put between them.
    public init(_ string: String) {
        self.init(verbatim: Self.escaping(string))
    }

    package init(verbatim string: String) {
        self.init(string, hash: KeyHash(string))
    }

    /// Creates a key from any text, as ``init(_:)-(String)`` does.
    public init(stringLiteral value: String) {
        self.init(value)
    }

    /// Creates the default key of a URL requested without headers.
    public init(_ url: URL) {
        let text = url.absoluteString
        // The common case: the URL's text is its address, and is hashed as it is.
        let hash = text.utf8.withContiguousStorageIfAvailable { bytes -> KeyHash? in
            URLText.isAddress(bytes) ? KeyHash(UnsafeRawBufferPointer(bytes)) : nil
        }
        if let hash, let hash {
            self.init(text, hash: hash)
        } else {
            self.init(verbatim: Self.text(of: url))
        }
    }

    /// Creates the default key of a URL requested with headers, in any order and case of names. `Cache-Control` and
    /// `Pragma` are left out: they control the cache and do not select a resource.
    public init(_ url: URL, headers: HTTPHeaders) {
        let counted = headers.isEmpty ? [] : headers.fields.filter { !Self.isDirective($0.name) }
        guard !counted.isEmpty else {
            self.init(url)
            return
        }
        let fields =
            counted
            .map { (name: $0.name.lowercased(), value: $0.value) }
            .sorted { ($0.name, $0.value) < ($1.name, $1.value) }
        var text = ""
        for field in fields {
            text += "\(field.name.utf8.count):\(field.name)\(field.value.utf8.count):\(field.value)"
        }
        let names = fields.map(\.name).joined(separator: ",")
        // A URL contains no line break, so the text after it cannot be part of it.
        // mutant Identity|Variant|Redaction: `mes)=\(Self.digest(text))")` => `mes)=\(text)")`
        self.init(verbatim: "\(Self.text(of: url))\n\(fields.count):\(names)=\(Self.digest(text))")
    }

    func marked(_ mark: String) -> CacheKey {
        isEmpty || string.utf8.contains(mark.utf8) ? self : CacheKey(verbatim: string + mark)
    }

    /// Half of the text's SHA-256, in hexadecimal digits: stands in a key for a text that may be a secret.
    static func digest(_ text: String) -> String { String(MessageDigest.sha256.hex(text).prefix(32)) }

    private static func text(of url: URL) -> String {
        if url.isFileURL { return url.standardizedFileURL.absoluteString }
        if url.isDataURL { return text(ofContent: url.absoluteString) }
        let (address, user) = URLText.parts(of: url.absoluteString)
        return user.map { "\(address)\n:user=\(digest(String($0)))" } ?? address
    }

    static func text(ofContent content: String) -> String { "sha256:" + MessageDigest.sha256.hex(content) }

    static func isDirective(_ name: String) -> Bool {
        name.isSameHeaderName(as: "Cache-Control") || name.isSameHeaderName(as: "Pragma")
    }

    /// Returns whether this is the default key of a URL with this text, with any header fields, user and identities.
    func isOf(_ address: String) -> Bool {
        let (own, other) = (string.utf8, address.utf8)
        return own.starts(with: other) && [nil, UInt8(ascii: "\n")].contains(own.dropFirst(other.count).first)
    }

    /// The text of the URL of which this may be the default key; see ``isOf(_:)``.
    var address: String? {
        let first = string.prefix { $0 != "\n" }
        return first.contains("://") ? String(first) : nil
    }

    /// Returns the key of a variant of the answer that is kept under this key (RFC 9111, section 4.1), chosen by the
    /// request fields in `selection`. An answer that replaces another has a new `family`.
    func variant(_ selection: String, family: UInt64) -> CacheKey {
        CacheKey(verbatim: "\(string)\n\(family)\n\(selection)")
    }

    /// The beginning of the keys of entries derived from this one. In other keys no number sign follows a line break:
    /// in a default key and in a variant's key a digit or a colon follows, in keys of the caller's own a backslash.
    package var derivedPrefix: String { string + "\n#" }

    /// The beginning of the line that stands before the keys, in memory, of what is made from the bytes of another cache.
    package static let beginningOfOthers = "\n#originals "

    package var isDerived: Bool { firstOrigin != nil }

    /// The part before the first `\n#`, which marks a derived entry.
    var firstOrigin: Substring? {
        var text = string
        // Asked for each write and by every insertion into memory: a search of the standard library takes microseconds.
        let length = text.withUTF8 { bytes -> Int? in
            let isOfOthers = bytes.starts(with: Self.beginningOfOthers.utf8)
            var place = isOfOthers ? 1 + (bytes.dropFirst().firstIndex(of: 0x0A) ?? 0) : 0
            while let start = bytes.baseAddress, let found = memchr(start + place, 0x0A, bytes.count - place) {
                let length = UnsafeRawPointer(found) - UnsafeRawPointer(start)
                place = length + 1
                if place < bytes.count, bytes[place] == UInt8(ascii: "#") { return length }
            }
            return nil
        }
        return length.map { string[..<string.utf8.index(string.startIndex, offsetBy: $0)] }
    }

    /// Returns whether this is the key of an entry derived from that of `origin`, or of a variant of such an entry.
    package func isDerived(of origin: CacheKey) -> Bool {
        let (own, other) = (string.utf8, origin.string.utf8)
        return own.count >= other.count + 2 && own.dropFirst(other.count).starts(with: "\n#".utf8)
            && own.starts(with: other)
    }

    var origins: [CacheKey] {
        string.utf8.ranges(of: "\n#".utf8).map { CacheKey(verbatim: String(string[..<$0.lowerBound])) }
    }

    /// The key's first line without secrets; see ``Redaction``. ``string`` has the whole key.
    // mutant Redaction|SecretsInText: `ring { Redaction.standard.text(self) }` => `ring { string }`
    public var description: String { Redaction.standard.text(self) }
    /// The SHA-256 of the key in hexadecimal digits, for lists and logs that must not reveal its URL.
    public var digest: String { KeyDigest.sha256(self) }
    /// Whether the key is empty. Every call refuses an empty key.
    public var isEmpty: Bool { string.isEmpty }

    public static func == (a: Self, b: Self) -> Bool { a.hash == b.hash }

    public func hash(into hasher: inout Hasher) { hasher.combine(hash.first) }

    /// Puts one more backslash wherever a line break is followed by a number sign, or by backslashes and a number sign,
    /// so that no two texts become the same key.
    private static func escaping(_ text: String) -> String {
        let (lineBreak, mark, backslash) = (UInt8(ascii: "\n"), UInt8(ascii: "#"), UInt8(ascii: "\\"))
        guard text.utf8.contains(lineBreak), text.utf8.contains(mark) else { return text }
        var escaped: [UInt8] = []
        var rest = text.utf8[...]
        while let end = rest.firstIndex(of: lineBreak) {
            escaped += rest[...end]
            rest = rest[rest.index(after: end)...]
            if rest.first(where: { $0 != backslash }) == mark { escaped.append(backslash) }
        }
        return String(decoding: escaped + rest, as: UTF8.self)
    }
}

/// The SipHash-2-4 of a text, with 128 bits. Its key is random in each process, so nobody can choose texts that have one
/// hash, and keys with one hash are equal: a comparison of texts would wait for memory longer than the rest of a hit.
struct KeyHash: Sendable, Hashable {
    private static let key = (UInt64.random(in: .min ... .max), UInt64.random(in: .min ... .max))

    let first: UInt64
    let second: UInt64

    func hash(into hasher: inout Hasher) { hasher.combine(first) }

    init(_ text: String) {
        var text = text
        self = text.withUTF8 { KeyHash(UnsafeRawBufferPointer($0)) }
    }

    init(_ bytes: UnsafeRawBufferPointer, key: (UInt64, UInt64) = Self.key) {
        var a = key.0 ^ 0x736f_6d65_7073_6575
        var b = key.1 ^ 0x646f_7261_6e64_6f6d ^ 0xee
        var c = key.0 ^ 0x6c79_6765_6e65_7261
        var d = key.1 ^ 0x7465_6462_7974_6573
        @inline(__always)
        func round() {
            a &+= b
            c &+= d
            b = (b << 13 | b >> 51) ^ a
            d = (d << 16 | d >> 48) ^ c
            a = a << 32 | a >> 32
            c &+= b
            a &+= d
            b = (b << 17 | b >> 47) ^ c
            d = (d << 21 | d >> 43) ^ a
            c = c << 32 | c >> 32
        }
        @inline(__always)
        func mix(_ word: UInt64) {
            d ^= word
            round()
            round()
            a ^= word
        }
        let whole = bytes.count & ~7
        for offset in stride(from: 0, to: whole, by: 8) { mix(bytes.loadLE(UInt64.self, at: offset)) }
        var last = UInt64(truncatingIfNeeded: bytes.count) << 56
        for offset in whole..<bytes.count { last |= UInt64(bytes[offset]) << UInt64((offset - whole) * 8) }
        mix(last)
        @inline(__always)
        func finish() -> UInt64 {
            for _ in 0..<4 { round() }
            return a ^ b ^ c ^ d
        }
        c ^= 0xee
        first = finish()
        b ^= 0xdd
        second = finish()
    }
}

extension URL {
    /// The address of the resource, in the spelling that keys contain.
    var withoutFragment: String { URLText.parts(of: absoluteString).address }

    var isDataURL: Bool { scheme?.asciiLowercased == "data" }
}

enum KeyDigest {
    @Sendable static func sha256(_ key: CacheKey) -> String { MessageDigest.sha256.hex(key.string) }
    @Sendable static func sha1(_ key: CacheKey) -> String { MessageDigest.sha1.hex(key.string) }
    @Sendable static func md5(_ key: CacheKey) -> String { MessageDigest.md5.hex(key.string) }

    /// Returns whether a name is safe for a file: at most 200 letters, digits, `-`, `_` and dots, no dot first.
    static func isPlainFileName(_ name: String) -> Bool {
        !name.isEmpty && name.utf8.count <= 200 && name.utf8.first != UInt8(ascii: ".")
            && name.utf8.allSatisfy { $0.isUnreserved && $0 != UInt8(ascii: "~") }
    }
}

struct MessageDigest: @unchecked Sendable {
    static let sha256 = MessageDigest("SHA256")
    static let sha1 = MessageDigest("SHA1")
    static let md5 = MessageDigest("MD5")

    // Unchecked: libcrypto never changes a fetched method. Fetched once: that costs more than a short digest.
    private let method: OpaquePointer?

    private init(_ name: String) {
        method = EVP_MD_fetch(nil, name, nil)
    }

    func digest(_ text: String) -> [UInt8] {
        var text = text
        return text.withUTF8 { digest(UnsafeRawBufferPointer($0)) }
    }

    func digest(_ bytes: UnsafeRawBufferPointer) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: Int(EVP_MAX_MD_SIZE)) { buffer, count in
            var length: UInt32 = 0
            let isDone = EVP_Digest(bytes.baseAddress, bytes.count, buffer.baseAddress, &length, method, nil) == 1
            precondition(isDone, "libcrypto must provide MD5, SHA-1 and SHA-256")
            count = Int(length)
        }
    }

    func hex(_ text: String) -> String {
        let digest = digest(text)
        return String(unsafeUninitializedCapacity: digest.count * 2) { buffer in
            for (index, byte) in digest.enumerated() {
                buffer[index * 2] = Self.digits[Int(byte >> 4)]
                buffer[index * 2 + 1] = Self.digits[Int(byte & 15)]
            }
            return digest.count * 2
        }
    }

    private static let digits = Array("0123456789abcdef".utf8)
}

extension Redaction {
    /// Returns the first line of a key without secrets; in a default key, that is the URL.
    public func text(_ key: CacheKey) -> String { text(key.string) }
}
