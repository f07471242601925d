import Foundation

/// A way to write pictures on disk. Animations keep all their frames with ``automatic``, with ``png``, and with
/// ``format(_:_:)`` of a format that moves; a serializer that does not write them throws, and they are processed again.
///
/// ```swift
/// let thumbnail = ImageRequest(url)
///     .processed(by: .downsample(width: 320, height: 240))
///     .with(\.serializer, .png)       // without loss, even if the original is JPEG
/// ```
public struct ImageSerializer: Sendable {
    private let body: @Sendable (Image, Data?, CodecRegistry) throws -> Data
    /// Whether the serializer reads more of the original than its first ``CodecRegistry/sniffLength`` bytes.
    let readsOriginal: Bool
    /// The format of all files, if there is one.
    fileprivate let format: ImageFormat?

    /// Creates a serializer from a closure.
    ///
    /// ```swift
    /// let serializer = ImageSerializer { image, _, codecs in
    ///     try codecs.encode(image, as: image.isOpaque ? .jpeg : .png, EncodeOptions(quality: 0.7))
    /// }
    /// ```
    /// - Parameter body: returns the bytes of a file, which the given codecs of the cache must be able to decode. The
    ///   data are the bytes that the picture was made of. If it throws, the picture is not kept on disk.
    public init(_ body: @escaping @Sendable (Image, Data?, CodecRegistry) throws -> Data) {
        self.init(reads: true, body)
    }

    private init(
        reads: Bool, format: ImageFormat? = nil,
        _ body: @escaping @Sendable (Image, Data?, CodecRegistry) throws -> Data
    ) {
        self.body = body
        readsOriginal = reads
        self.format = format
    }

    /// A serializer that writes opaque pictures made of JPEG, WebP, AVIF or HEIC, which count as lossy, as JPEG of
    /// quality 0.9, and all others as PNG. An animation keeps its frames: one made of WebP or AVIF as WebP of the same
    /// quality, if that can be written, and all others as PNG.
    public static let automatic = ImageSerializer(reads: false) { image, original, codecs in
        let lossy: Set<ImageFormat> = [.jpeg, .webp, .avif, .heic]
        let wasLossy = original.flatMap { ImageFormat(sniffing: $0) }.map(lossy.contains) ?? false
        let options = EncodeOptions(quality: 0.9)
        if image.animation != nil {
            let isWebP = wasLossy && (try? codecs.encoder(for: .webp))?.encodesAnimations == true
            return try format(isWebP ? .webp : .png, options).body(image, original, codecs)
        }
        return try codecs.encode(image, as: wasLossy && image.isOpaque ? .jpeg : .png, options)
    }

    /// A serializer that keeps only originals, byte for byte; processed pictures are processed again. A picture that
    /// the caller adds without its bytes is written as PNG.
    public static let original = ImageSerializer(reads: false) { image, original, codecs in
        if original != nil { throw DipperError.unencodable.with(detail: "only originals are kept") }
        return try png.body(image, original, codecs)
    }

    /// A serializer that writes PNG, without loss, of an animation all frames.
    public static let png = format(.png)

    /// Returns a serializer that writes JPEG of a quality from 0 to 1, with transparent pixels on white.
    public static func jpeg(quality: Double) -> ImageSerializer { format(.jpeg, EncodeOptions(quality: quality)) }

    /// Returns a serializer for a format that a codec is registered for. GIF, WebP and PNG keep all frames of an
    /// animation.
    public static func format(_ format: ImageFormat, _ options: EncodeOptions = .init()) -> ImageSerializer {
        ImageSerializer(reads: false, format: format) { image, _, codecs in
            if image.animation != nil, try !codecs.encoder(for: format).encodesAnimations { throw still }
            return try codecs.encode(image, as: format, options)
        }
    }

    private static let still = DipperError.unencodable.with(detail: "the picture moves")

    func data(for image: Image, madeOf original: Data?, _ codecs: CodecRegistry) throws(DipperError) -> Data {
        do {
            return try body(image, original, codecs)
        } catch {
            throw DipperError(error, as: .unencodable)
        }
    }
}

extension Image {
    /// Decodes the file of a picture on the caller's thread, without a cache.
    ///
    /// ```swift
    /// let image = try Image(data: bytes)
    /// let icon = try Image(data: bytes, DecodeOptions(target: TargetSize(width: 64, height: 64)))
    /// ```
    /// - Throws: the errors of ``CodecRegistry/decode(_:_:)``.
    public init(
        data: Data, _ options: DecodeOptions = .init(), codecs: CodecRegistry = .standard
    ) throws(DipperError) {
        self = try codecs.decode(data, options)
    }

    /// Returns the file of the picture in a format, encoded on the caller's thread; of an animation all frames, if the
    /// format is GIF, WebP or PNG.
    ///
    /// ```swift
    /// let file = try image.encoded(as: .png)
    /// let small = try image.encoded(as: .jpeg(quality: 0.6))
    /// ```
    /// - Throws: the errors of ``CodecRegistry/encode(_:as:_:)``, such as `DipperError.unencodable`, or
    ///   `DipperError.undecodable` for a frame of an animation.
    public func encoded(
        as format: ImageFormat, _ options: EncodeOptions = .init(), codecs: CodecRegistry = .standard
    ) throws(DipperError) -> Data {
        try codecs.encode(self, as: format, options)
    }

    /// Returns the file of the picture as a serializer writes it, such as `.jpeg(quality: 0.6)` or `.automatic`; of an
    /// animation the first frame, if the serializer writes one format, in which nothing moves.
    /// - Throws: the errors of ``CodecRegistry/encode(_:as:_:)``; `DipperError.unencodable` also for an animation that the
    ///   serializer does not write.
    @_disfavoredOverload
    public func encoded(
        as serializer: ImageSerializer, codecs: CodecRegistry = .standard
    ) throws(DipperError) -> Data {
        var image = self
        if let format = serializer.format, try !codecs.encoder(for: format).encodesAnimations { image.animation = nil }
        return try serializer.data(for: image, madeOf: nil, codecs)
    }
}
