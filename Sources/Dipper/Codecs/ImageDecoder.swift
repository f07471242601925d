import Foundation

/// A decoder of one picture format. It may be called from any thread, several at a time.
///
/// To add a format, write a decoder and register it in ``ImageCache/Configuration/codecs``:
///
/// ```swift
/// struct EnvelopeDecoder: ImageDecoder {              // for files of six bytes, PHOTO1, and a JPEG file
///     let format = ImageFormat(rawValue: "envelope")
///     func recognizes(_ start: Data) -> Bool { start.starts(with: "PHOTO1".utf8) }
///     func info(of data: Data) throws(DipperError) -> ImageInfo { try ImageInfo(data.dropFirst(6)) }
///     func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
///         try JPEGDecoder().decode(data.dropFirst(6), options)
///     }
/// }
/// ```
public protocol ImageDecoder: Sendable {
    /// The format that the decoder reads.
    var format: ImageFormat { get }

    /// Returns whether a file with these first bytes has the decoder's format. The default asks
    /// ``ImageFormat/init(sniffing:)``.
    /// - Parameter start: the first 4096 bytes, or all bytes if there are fewer.
    func recognizes(_ start: Data) -> Bool

    /// Returns the properties that the file's header states. The default is ``ImageInfo/init(_:)``.
    /// - Throws: `DipperError.undecodable`.
    func info(of data: Data) throws(DipperError) -> ImageInfo

    /// Decodes the picture, or the first frame of an animation, upright, in sRGB, in the size of the options' target.
    /// - Throws: `DipperError.undecodable`, `DipperError.imageTooLarge`, `DipperError.cancelled`.
    func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image

    /// Returns a decoder of an animation's frames; `nil` for a still picture, or if only the first frame is wanted.
    /// - Throws: `DipperError.undecodable`, `DipperError.imageTooLarge`.
    func frames(of data: Data, _ options: DecodeOptions) throws(DipperError) -> (any FrameDecoder)?
}

extension ImageDecoder {
    public func recognizes(_ start: Data) -> Bool { ImageFormat(sniffing: start) == format }
    public func info(of data: Data) throws(DipperError) -> ImageInfo { try ImageInfo(data) }
    public func frames(of data: Data, _ options: DecodeOptions) throws(DipperError) -> (any FrameDecoder)? { nil }
}

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

    /// Returns the bytes of a file with a picture.
    /// - Throws: `DipperError.unencodable`; `DipperError.imageTooLarge` if there is no memory.
    func encode(_ image: Image, _ options: EncodeOptions) throws(DipperError) -> Data

    /// Returns the bytes of a file with an animation.
    /// - Parameters:
    ///   - frames: at least one, all of one size.
    ///   - loopCount: the number of times the animation plays; 0 for endlessly.
    ///   - options: the options for each frame.
    /// - Throws: `DipperError.unencodable`, also for formats without animation; `DipperError.imageTooLarge` if there
    ///   is no memory.
    func encode(_ frames: [AnimationFrame], loopCount: Int, _ options: EncodeOptions) throws(DipperError) -> Data
}

extension ImageEncoder {
    public func encode(
        _ frames: [AnimationFrame], loopCount: Int, _ options: EncodeOptions
    ) throws(DipperError) -> Data {
        throw .unencodable.with(detail: "\(format) does not move")
    }
}

/// Options for encoding a picture.
///
/// ```swift
/// var options = EncodeOptions(quality: 0.7)
/// options.background = SIMD3(0, 0, 0)                 // JPEG has no transparency
/// let file = try CodecRegistry.standard.encode(image, as: .jpeg, options)
/// ```
public struct EncodeOptions: Sendable, Hashable {
    /// The quality from 0 to 1, for lossy formats: JPEG and lossy WebP.
    public var quality = 0.85
    /// Whether to encode WebP without loss. Other encoders ignore this option.
    public var isLossless = false
    /// The colour under transparent pictures in formats without transparency: red, green, blue.
    public var background = SIMD3<UInt8>(255, 255, 255)

    /// Creates options with a quality of 0.85 and a white background.
    public init() {}

    /// Creates options with a quality from 0 to 1.
    public init(quality: Double) {
        self.quality = quality
    }
}
