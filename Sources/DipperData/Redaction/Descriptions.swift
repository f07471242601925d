// The text of each type that may hold secrets. Fields have their names and no values, URLs and keys are redacted.

extension HTTPHeaders: RedactedStringConvertible {
    /// The names of the fields, in order, without their values, which may be secret.
    public var description: String { "[\(fields.map(\.description).joined(separator: ", "))]" }
}

extension HTTPHeaders.Field: RedactedStringConvertible {
    /// The name of the field without its value, which may be secret.
    public var description: String { "\(name): \(Redaction.mark)" }
}

extension DataRequest: RedactedStringConvertible {
    /// The URL or key without secrets, and the names of the fields.
    public var description: String {
        let fields = headers.isEmpty ? "" : " \(headers)"
        return Redaction.standard.text(urlString.isEmpty ? cacheKey.string : urlString) + fields
    }
}

extension DataRequest.Source: RedactedStringConvertible {
    /// The URL, or the provider's key, without secrets.
    public var description: String {
        switch self {
        case .url(let url): Redaction.standard.text(url)
        case .provider(let provider): provider.cacheKey.description
        }
    }
}

extension Credentials: RedactedStringConvertible {
    /// The name of the type; no part of the credentials is printed.
    public var description: String { "Credentials" }
}

extension Credentials.Challenge: RedactedStringConvertible {
    /// The URL without secrets.
    public var description: String { Redaction.standard.text(url) }
}

extension DataTask: RedactedStringConvertible {
    /// The key without secrets, the lane, and the state of the task.
    public var description: String { "\(key) \(lane.rawValue) \(state)" }
}

extension DataResponse: RedactedStringConvertible {
    /// The status, the number of bytes, and the tier that answered.
    public var description: String { "\(status) \(data.count) bytes from \(source.rawValue)" }
}

extension EntryInfo: RedactedStringConvertible {
    /// The URL without secrets, and the status.
    package var description: String { "\(Redaction.standard.text(url)) \(status)" }
}

extension CachedEntry: RedactedStringConvertible {
    /// The key without secrets, and the number of bytes.
    public var description: String { "\(key) \(size) bytes" }
}

extension PartialBody: RedactedStringConvertible {
    var description: String { "\(Redaction.standard.text(url)) \(bytes.count) bytes" }
}

extension TransferRequest: RedactedStringConvertible {
    /// The method, the URL without secrets, and the names of the fields.
    public var description: String { "\(method) \(Redaction.standard.text(url)) \(headers)" }
}

extension TransferResponse: RedactedStringConvertible {
    /// The status, the number of bytes, and the names of the fields.
    public var description: String { "\(status) \(body.count) bytes \(headers)" }
}

extension CurlConfiguration: RedactedStringConvertible {
    /// The name of the type; no proxies, keys or passwords are printed.
    public var description: String { "CurlConfiguration" }
}

extension ProxySettings: RedactedStringConvertible {
    var description: String { "ProxySettings" }
}
