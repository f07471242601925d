import Foundation

/// Reads pictures of one format. Called from any thread, several at a time.
public protocol ImageDecoder: Sendable {
    /// What it reads.
    var format: ImageFormat { get }

    /// Whether bytes that begin like this are of the format: by default what ``ImageFormat/init(sniffing:)`` says.
    /// - Parameter start: the first 256 bytes, or all if there are fewer.
    func recognizes(_ start: Data) -> Bool

    /// What the header says: by default what ``ImageInfo/init(_:)`` reads.
    /// - Throws: `DipperError.undecodable`.
    func info(of data: Data) throws(DipperError) -> ImageInfo

    /// Decodes the picture, or the first frame of an animation, upright, in sRGB, in the size asked for.
    /// - Throws: `DipperError.undecodable`, `DipperError.imageTooLarge`, `DipperError.cancelled`.
    func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image

    /// A decoder of the frames; `nil` for a picture that does not move, or of which only the first frame is wanted.
    /// - Throws: `DipperError.undecodable`, `DipperError.imageTooLarge`.
    func frames(of data: Data, _ options: DecodeOptions) throws(DipperError) -> (any FrameDecoder)?
}

extension ImageDecoder {
    public func recognizes(_ start: Data) -> Bool { ImageFormat(sniffing: start) == format }
    public func info(of data: Data) throws(DipperError) -> ImageInfo { try ImageInfo(data) }
    public func frames(of data: Data, _ options: DecodeOptions) throws(DipperError) -> (any FrameDecoder)? { nil }
}

/// Writes pictures of one format. Called from any thread, several at a time.
public protocol ImageEncoder: Sendable {
    /// What it writes.
    var format: ImageFormat { get }

    /// The bytes of a file with the picture.
    /// - Throws: `DipperError.unencodable`.
    func encode(_ image: Image, _ options: EncodeOptions) throws(DipperError) -> Data

    /// The bytes of a file with an animation.
    /// - Parameters:
    ///   - frames: at least one, all of one size.
    ///   - loopCount: how often they are shown; 0 for ever.
    ///   - options: quality and the like, for each frame.
    /// - Throws: `DipperError.unencodable`, also for formats that do not move.
    func encode(_ frames: [AnimationFrame], loopCount: Int, _ options: EncodeOptions) throws(DipperError) -> Data
}

extension ImageEncoder {
    public func encode(
        _ frames: [AnimationFrame], loopCount: Int, _ options: EncodeOptions
    ) throws(DipperError) -> Data {
        throw .unencodable.with(detail: "\(format) does not move")
    }
}

/// How a picture is encoded.
public struct EncodeOptions: Sendable, Hashable {
    /// 0…1, for formats that lose something: JPEG, lossy WebP.
    public var quality = 0.85
    /// Nothing may be lost: WebP's other mode.
    public var isLossless = false
    /// Put under pictures with transparency where the format has none: red, green, blue.
    public var background = SIMD3<UInt8>(255, 255, 255)

    /// Quality 0.85 on white.
    public init() {}

    /// With a quality of 0…1.
    public init(quality: Double) {
        self.quality = quality
    }
}
