import Foundation

/// Properties of a picture that its header states. See ``init(_:)``.
public struct ImageInfo: Sendable, Hashable {
    /// The file format, recognised from the first bytes.
    public var format: ImageFormat
    /// The size in pixels, as displayed after ``orientation`` is applied. `nil` for formats whose size is not read.
    public var size: PixelSize?
    /// The number of frames found in the bytes given; a partly downloaded animation may have more. Only frames of GIF,
    /// WebP, AVIF, HEIC and PNG are counted; for other formats the value is 1.
    public var frameCount = 1
    /// The number of times an animation plays; 0 for endlessly.
    public var loopCount = 1
    /// The time of all frames that were counted together, as a GIF, an animated WebP or an animated PNG states it;
    /// `nil` for other pictures.
    public var loopDuration: Duration?
    /// The orientation of the stored picture. In WebP it follows the pixels: `up` until those bytes are there.
    public var orientation = Image.Orientation.up
    /// The number of bits for each colour component.
    public var bitDepth: Int?
    /// Whether pixels may be transparent.
    public var hasAlpha = false
    /// Whether the file holds a coarse picture first and refines it: progressive JPEG, interlaced PNG and GIF.
    public var isProgressive = false
    /// Whether the file has an ICC profile.
    public var hasColorProfile = false
    /// The properties that a camera or an editor stored beside the picture. In WebP they follow the pixels.
    public var metadata = ImageMetadata()
    /// The colours that a PNG states by `cICP`, and whether `sRGB` is there.
    var codedColor: CodedColor?
    var isSRGB = false
    /// Whether there is a complete frame of an animated PNG, or a JPEG XL has frames.
    var isAnimation = false

    /// Creates a description with a format and a size; the other properties have their defaults.
    public init(format: ImageFormat, size: PixelSize? = nil) {
        self.format = format
        self.size = size
    }

    /// Reads the header of a file; nothing is decoded.
    ///
    /// For most files the first bytes are enough. The whole file may be needed for the number of frames, the
    /// orientation of WebP, the directory of tiff, and the header of mp4 and mov.
    ///
    /// The size is not read for pdf, webm, JPEG 2000 and BigTIFF. An icon has the size of its largest picture, a film that of
    /// its first video track, and an svg that of its `width` and `height`, or else of its `viewBox`.
    ///
    /// ```swift
    /// let info = try ImageInfo(bytes)
    /// if let size = info.size { print(info.format, size, info.frameCount) }
    /// ```
    /// - Throws: `DipperError.unsupportedFormat`, `DipperError.undecodable`; ``isHeaderIncomplete(_:)`` returns whether
    ///   more bytes may help.
    public init(_ data: Data) throws(DipperError) {
        self = try data.withBytes { bytes throws(DipperError) in try Self(ByteReader(bytes)) }
    }

    /// Returns whether ``init(_:)`` failed because the bytes end before the header does.
    public static func isHeaderIncomplete(_ error: DipperError) -> Bool {
        error == ByteReader.incomplete && error.detail == ByteReader.incomplete.detail
    }

    private init(_ file: ByteReader) throws(DipperError) {
        guard let format = ImageFormat.sniff(file) else { throw .unsupportedFormat.with(detail: "unknown bytes") }
        self.init(format: format)
        let stored: PixelSize? =
            switch format {
            case .jpeg: try readJPEG(file)
            case .png: try readPNG(file)
            case .gif: try readGIF(file)
            case .webp: try readWebP(file)
            case .avif, .heic: try readHEIF(file)
            case .tiff: try readTIFF(file)
            case .bmp: try readBMP(file)
            case .ico: try readICO(file)
            case .jpegXL: try readJPEGXL(file)
            case .mp4, .mov: try readMP4(file)
            case .svg: try readSVG(file)
            default: nil
            }
        guard let stored else { return }
        try stored.checkNotEmpty()
        size = orientation.applied(to: stored)
    }
}
