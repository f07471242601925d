/// Properties of a picture that its header states. See ``init(_:)``.
public struct ImageInfo: Sendable, Hashable {
    /// The file format, recognised from the first bytes.
    public var format: ImageFormat
    /// The size in pixels, as displayed after ``orientation`` is applied. `nil` for formats whose size is not read.
    public var size: PixelSize?
    /// The number of frames found in the bytes given; a partly downloaded animation may have more. Only frames of GIF,
    /// WebP, AVIF and HEIC are counted; for other formats the value is 1.
    public var frameCount = 1
    /// The number of times an animation plays; 0 for endlessly.
    public var loopCount = 1
    /// The orientation of the stored picture. WebP stores it after the pixels: the value is `up` until those bytes are
    /// there.
    public var orientation = Orientation.up
    /// The number of bits for each colour component.
    public var bitDepth: Int?
    /// Whether pixels may be transparent.
    public var hasAlpha = false
    /// Whether the file holds a coarse picture first and refines it: progressive JPEG, interlaced PNG and GIF.
    public var isProgressive = false
    /// Whether the file has an ICC profile.
    public var hasColorProfile = false

    /// Creates a description with a format and a size; the other properties have their defaults.
    public init(format: ImageFormat, size: PixelSize? = nil) {
        self.format = format
        self.size = size
    }
}
