import Foundation

/// A picture and where it came from.
public struct ImageResponse: Sendable {
    /// Ready to draw.
    public let image: Image
    /// The tier that answered: `ResponseSource.memory` for pictures that were decoded before.
    public let source: ResponseSource
    /// The status the server answered with when the bytes were fetched.
    public let status: Int
    /// The fields of that answer.
    public let headers: HTTPHeaders
    /// Network attempts made for this result; 0 if the cache answered.
    public let attempts: Int
    /// Times and sizes of the last attempt; `nil` if the cache answered.
    public let metrics: TransferMetrics?
    /// For pictures that are out of date but may be shown meanwhile (`stale-while-revalidate`, RFC 5861): the prefetch
    /// that brings a newer one. Else `nil`.
    public var revalidation: ImageTask? { newer?.task }
    private let newer: Revalidation?

    init(
        _ image: Image, source: ResponseSource, info: EntryInfo, attempts: Int = 0,
        metrics: TransferMetrics? = nil,
        revalidation: Revalidation? = nil
    ) {
        self.image = image
        self.source = source
        status = info.status
        headers = info.serverHeaders
        self.attempts = attempts
        self.metrics = metrics
        newer = revalidation
    }
}

extension ImageResponse: RedactedStringConvertible {
    /// The status, the size of the picture, and the tier that answered.
    public var description: String { "\(status) \(image.size) pixels from \(source.rawValue)" }
}
