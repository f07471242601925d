import Foundation

/// A provider of bytes written as Base64 (RFC 4648, section 4). White space in the text is ignored, and the `=` at its
/// end may be missing.
public struct Base64Provider: DataProvider {
    public let cacheKey: CacheKey
    private let text: String

    /// Creates a provider of Base64 text. By default the bytes are cached by a digest of the text.
    public init(_ text: String, key: CacheKey? = nil) {
        self.text = text
        cacheKey = key ?? CacheKey(CacheKey.text(ofContent: text))
    }

    public var isLocal: Bool { true }

    /// Returns the decoded bytes. Throws ``DipperError/invalidData`` for text that is not Base64.
    public func data() async throws -> Data {
        try await FileProvider.onReader { [text] () throws(DipperError) in try Self.decode(text.utf8) }
    }

    /// The forgiving decoding of the Infra standard.
    static func decode(_ text: some Sequence<UInt8>) throws(DipperError) -> Data {
        let (space, padding) = (" \t\n\u{C}\r".utf8, UInt8(ascii: "="))
        var plain = text.filter { !space.contains($0) }
        if plain.count % 4 == 0 { plain.removeLast(plain.suffix(2).reversed().prefix { $0 == padding }.count) }
        guard plain.count % 4 != 1, !plain.contains(padding),
            let data = Data(base64Encoded: Data(plain + Array(repeating: padding, count: -plain.count & 3)))
        else { throw .invalidData.with(detail: "the text is not Base64") }
        return data
    }
}

/// A provider of the bytes in a `data:` URL, by the processor of the Fetch standard. The media type in the URL is the
/// answer's field `Content-Type`.
public struct DataURLProvider: DataProvider {
    public let cacheKey: CacheKey
    private let text: String

    /// Creates a provider of a data URL. By default the bytes are cached by a digest of the text.
    public init(_ text: String, key: CacheKey? = nil) {
        self.text = text
        cacheKey = key ?? CacheKey(CacheKey.text(ofContent: text))
    }

    public var isLocal: Bool { true }

    /// Returns the decoded bytes. Throws ``DipperError/invalidData`` for text that is not a well-formed data URL.
    public func data() async throws -> Data { try await response().body }

    func response() async throws(DipperError) -> TransferResponse {
        try await FileProvider.onReader { [text] () throws(DipperError) in
            guard let url = DataURL(text) else { throw .invalidData.with(detail: "the text is no data URL") }
            return TransferResponse(headers: ["Content-Type": url.mediaType], body: try url.body())
        }
    }
}

/// The parts of a `data:` URL (https://fetch.spec.whatwg.org/#data-url-processor).
struct DataURL {
    let mediaType: String
    private let isBase64: Bool
    private let content: [UInt8]

    static func isScheme(of text: some Sequence<UInt8>) -> Bool {
        text.lazy.drop { $0 <= 0x20 }.filter { !URLText.isBreak($0) }.prefix(5).map(\.asciiLowercased)
            .elementsEqual("data:".utf8)
    }

    /// `nil` without a comma.
    init?(_ text: String) {
        let bytes = URLText.cleaned(text).prefix { $0 != UInt8(ascii: "#") }
        guard Self.isScheme(of: bytes), let comma = bytes.firstIndex(of: UInt8(ascii: ",")) else { return nil }
        content = Array(bytes[(comma + 1)...])
        var type = String(decoding: bytes[5..<comma], as: UTF8.self)
        type = type.trimmingCharacters(in: CharacterSet(charactersIn: " \u{C}"))
        let mark = type.utf8.dropLast(6).reversed().drop { $0 == 0x20 }
        isBase64 = type.asciiLowercased.hasSuffix("base64") && mark.first == UInt8(ascii: ";")
        if isBase64 { type = String(decoding: mark.dropFirst().reversed(), as: UTF8.self) }
        if type.hasPrefix(";") { type = "text/plain" + type }
        let names = type.prefix { $0 != ";" }.split(separator: "/", omittingEmptySubsequences: false)
        let isWellFormed = names.count == 2 && names.allSatisfy { String($0).trimmingOptionalSpace.isHeaderName }
        mediaType = isWellFormed && type.isHeaderValue ? type : "text/plain;charset=US-ASCII"
    }

    func body() throws(DipperError) -> Data {
        let bytes = PercentCoding.decoded(content) ?? content
        return isBase64 ? try Base64Provider.decode(bytes) : Data(bytes)
    }
}
