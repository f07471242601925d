import Foundation

/// How a picture is written on disk.
///
/// Those given here write stills. A processed picture that moves is not kept on disk, but processed again, unless a
/// serializer of one's own writes its frames.
public struct ImageSerializer: Sendable {
    private let body: @Sendable (Image, Data?, CodecRegistry) throws(DipperError) -> Data
    /// Whether it looks at more of the original than how it begins.
    let readsOriginal: Bool

    /// A rule of one's own.
    /// - Parameter body: makes the bytes of a file from a picture; is given the bytes it was made of, if there are any,
    ///   and the codecs of the cache. What it returns must be decodable by them.
    public init(_ body: @escaping @Sendable (Image, Data?, CodecRegistry) throws(DipperError) -> Data) {
        self.body = body
        readsOriginal = true
    }

    /// A rule that looks at no more than how the original begins.
    private init(still body: @escaping @Sendable (Image, Data?, CodecRegistry) throws(DipperError) -> Data) {
        self.body = body
        readsOriginal = false
    }

    /// Pictures with transparency, and those made of a lossless format, as PNG; others as JPEG of quality 0.9, which is
    /// a fraction of the size and of the work.
    public static let automatic = ImageSerializer(still: { image, original, codecs throws(DipperError) in
        let lossy: Set<ImageFormat> = [.jpeg, .webp, .avif, .heic]
        try refuseFrames(of: image)
        let wasLossy = original.flatMap { ImageFormat(sniffing: $0) }.map(lossy.contains) ?? false
        return wasLossy && image.isOpaque
            ? try codecs.encode(image, as: .jpeg, EncodeOptions(quality: 0.9)) : try codecs.encode(image, as: .png)
    })

    /// Originals alone are kept, byte for byte: what was processed is processed again. Pictures added by hand without their
    /// bytes, which have no original, as PNG.
    public static let original = ImageSerializer(still: { image, original, codecs throws(DipperError) in
        if original != nil { throw .unencodable.with(detail: "only originals are kept") }
        try refuseFrames(of: image)
        return try codecs.encode(image, as: .png)
    })

    /// As PNG: nothing is lost.
    public static let png = format(.png)

    /// As JPEG; pictures with transparency on white.
    /// - Parameter quality: 0…1.
    public static func jpeg(quality: Double) -> ImageSerializer { format(.jpeg, EncodeOptions(quality: quality)) }

    /// In a format that a codec is registered for.
    public static func format(_ format: ImageFormat, _ options: EncodeOptions = .init()) -> ImageSerializer {
        ImageSerializer(still: { image, _, codecs throws(DipperError) in
            try refuseFrames(of: image)
            return try codecs.encode(image, as: format, options)
        })
    }

    /// What was read back would stand still.
    private static func refuseFrames(of image: Image) throws(DipperError) {
        if image.animation != nil { throw .unencodable.with(detail: "the picture moves") }
    }

    func data(for image: Image, madeOf original: Data?, _ codecs: CodecRegistry) throws(DipperError) -> Data {
        try body(image, original, codecs)
    }
}
