import Foundation

/// A provider of bytes written as Base64 (RFC 4648, section 4). White space in the text is ignored.
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
        try Self.decode(text)
    }

    static func decode(_ text: some StringProtocol) throws(DipperError) -> Data {
        let plain = text.filter { !$0.isWhitespace }
        guard let data = Data(base64Encoded: String(plain)) else {
            throw .invalidData.with(detail: "the text is not Base64")
        }
        return data
    }
}

/// A provider of the bytes in a `data:` URL (RFC 2397).
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
    public func data() async throws -> Data {
        guard text.prefix(5).lowercased() == "data:", let comma = text.firstIndex(of: ",") else {
            throw DipperError.invalidData.with(detail: "the text is no data URL")
        }
        let parameters = text[..<comma].lowercased()
        let content = text[text.index(after: comma)...]
        guard let bytes = PercentCoding.decoded(Array(content.utf8), isStrict: true) else {
            throw DipperError.invalidData.with(detail: "a percent sign without two digits")
        }
        guard parameters.hasSuffix(";base64") else { return Data(bytes) }
        return try Base64Provider.decode(String(decoding: bytes, as: UTF8.self))
    }
}
