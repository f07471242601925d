/// What the first bytes of a picture say about it.
public struct ImageInfo: Sendable, Hashable {
    /// Told by the first bytes.
    public var format: ImageFormat
    /// In pixels, as it is displayed: after ``orientation``. `nil` for formats whose size is not read.
    public var size: PixelSize?
    /// As far as the bytes given tell: all of an animation must be there to be counted.
    public var frameCount = 1
    /// How often an animation is shown; 0 for ever.
    public var loopCount = 1
    /// How the stored picture is to be turned. WebP keeps it after the pixels: `up` until those bytes are there.
    public var orientation = Orientation.up
    /// Bits for each colour.
    public var bitDepth: Int?
    /// Pixels may be transparent.
    public var hasAlpha = false
    /// Coarse first, then finer: progressive JPEG, interlaced PNG and GIF.
    public var isProgressive = false
    /// There is an ICC profile.
    public var hasColorProfile = false

    /// What is known for certain; the rest has defaults.
    public init(format: ImageFormat, size: PixelSize? = nil) {
        self.format = format
        self.size = size
    }
}
