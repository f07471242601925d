import CPixels
import Foundation

/// An encoder of one picture format. It may be called from any thread, several at a time.
///
/// ```swift
/// struct EnvelopeEncoder: ImageEncoder {
///     let format = ImageFormat(rawValue: "envelope")
///     func encode(_ image: Image, _ options: EncodeOptions) throws(DipperError) -> Data {
///         try Data("PHOTO1".utf8) + JPEGEncoder().encode(image, options)
///     }
/// }
/// ```
public protocol ImageEncoder: Sendable {
    /// The format that the encoder writes.
    var format: ImageFormat { get }
    /// Whether the encoder writes animations; `false` by default.
    var encodesAnimations: Bool { get }

    /// Returns the bytes of a file with a picture.
    /// - Throws: `DipperError.unencodable`; `DipperError.imageTooLarge` if there is no memory.
    func encode(_ image: Image, _ options: EncodeOptions) throws(DipperError) -> Data

    /// Returns the bytes of a file with an animation of at least one frame, all of one size, from the decoder's first
    /// frame on. It plays `loopCount` times; 0 for endlessly. The encoder asks for one frame after the other, so that not
    /// all are in memory.
    /// - Throws: `DipperError.unencodable`, also for formats without animation; `DipperError.imageTooLarge` if there is
    ///   no memory; what the decoder of the frames throws.
    func encode(_ frames: any FrameDecoder, loopCount: Int, _ options: EncodeOptions) throws(DipperError) -> Data
}

extension ImageEncoder {
    public var encodesAnimations: Bool { false }

    public func encode(_ frames: any FrameDecoder, loopCount: Int, _ options: EncodeOptions) throws(DipperError) -> Data
    {
        throw .unencodable.with(detail: "\(format) does not move")
    }

    /// Returns the bytes of a file with an animation of frames that are in memory: at least one, all of one size. It
    /// plays `loopCount` times; 0 for endlessly.
    /// - Throws: `DipperError.unencodable`, also for formats without animation; `DipperError.imageTooLarge` if there is
    ///   no memory.
    public func encode(_ frames: [AnimationFrame], loopCount: Int, _ options: EncodeOptions) throws(DipperError) -> Data
    {
        try encode(FrameList(frames), loopCount: loopCount, options)
    }
}

/// All frames of a decoder, from the first: of one size, and at least one.
struct FrameRun {
    let size: PixelSize
    private let frames: any FrameDecoder
    private var first: AnimationFrame?

    init(_ frames: any FrameDecoder) throws(DipperError) {
        try frames.rewind()
        guard let first = try frames.next() else { throw .unencodable.with(detail: "there are no frames") }
        (self.frames, self.first, size) = (frames, first, first.image.size)
    }

    mutating func next() throws(DipperError) -> AnimationFrame? {
        guard let frame = if let first { first } else { try frames.next() } else { return nil }
        first = nil
        guard frame.image.size == size else {
            throw .unencodable.with(detail: "frames of \(size) and of \(frame.image.size) pixels")
        }
        return frame
    }
}

/// Options for encoding a picture.
///
/// ```swift
/// var options = EncodeOptions(quality: 0.7)
/// options.background = .black                         // JPEG has no transparency
/// ```
public struct EncodeOptions: Sendable, Hashable {
    /// The quality from 0 to 1, for lossy formats: JPEG, and WebP and AVIF unless they are lossless.
    public var quality = 0.85
    /// Whether to encode WebP and AVIF without loss. Other encoders ignore this option.
    public var isLossless = false
    /// The colour under transparent pictures in formats without transparency. Its own alpha does not count.
    public var background = Color.white

    /// Creates options with a quality of 0.85 and a white background.
    public init() {}

    /// Creates options with a quality from 0 to 1.
    public init(quality: Double) {
        self.quality = quality
    }

    var validQuality: Double { quality.isFinite ? min(1, max(0, quality)) : EncodeOptions().quality }
}

extension Image {
    var bounds: PixelRect { PixelRect(x: 0, y: 0, width: width, height: height) }

    /// Calls a closure with each row of an area, in memory that it may change: red, green and blue, and alpha with the
    /// colours divided by it unless it is left out.
    func forEachRow(
        in area: PixelRect? = nil, withoutAlpha: Bool = false,
        _ body: (_ y: Int, _ row: UnsafeMutablePointer<UInt8>) throws(DipperError) -> Void
    ) throws(DipperError) {
        let area = area ?? bounds
        let scratch = try PixelStorage(byteCount: area.size.width * 4)
        let pixels = scratch.base.assumingMemoryBound(to: UInt8.self)
        for y in 0..<area.size.height {
            let source = row(area.y + y) + area.x * 4
            if withoutAlpha {
                pixels_drop_alpha(pixels, source, area.size.width)
            } else {
                pixels_unpremultiply(pixels, source, area.size.width)
            }
            try body(y, pixels)
        }
        withExtendedLifetime(scratch) {}
    }
}
