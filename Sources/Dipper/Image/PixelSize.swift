/// A width and a height in pixels.
public struct PixelSize: Sendable, Hashable, CustomStringConvertible {
    /// The width in pixels.
    public var width: Int
    /// The height in pixels.
    public var height: Int

    /// Creates a size from a width and a height in pixels.
    public init(width: Int, height: Int) {
        self.width = width
        self.height = height
    }

    /// The size as text, for example `400x300`.
    public var description: String { "\(width)x\(height)" }

    var transposed: PixelSize { PixelSize(width: height, height: width) }
    var isEmpty: Bool { width <= 0 || height <= 0 }

    /// At most 2³¹ in each direction, which no picture reaches. A factor that is no number gives an empty size.
    func scaled(by factor: Double) -> PixelSize {
        func scaled(_ length: Int) -> Int {
            let length = (Double(length) * factor).rounded()
            return length.isNaN ? 0 : Int(min(max(-0x1p31, length), 0x1p31))
        }
        return PixelSize(width: scaled(width), height: scaled(height))
    }

    /// The bytes of all pixels. Throws `DipperError.imageTooLarge` if there are too many to add up a few such numbers.
    func byteCount(_ bytesPerPixel: Int = 4) throws(DipperError) -> Int {
        let (count, overflows) = width.multipliedReportingOverflow(by: height)
        guard !overflows, count <= Int.max >> 5 / max(1, bytesPerPixel) else {
            throw .imageTooLarge.with(detail: "\(self) pixels")
        }
        return count * bytesPerPixel
    }

    /// Throws `DipperError.undecodable` if there is no pixel.
    func checkNotEmpty() throws(DipperError) {
        if isEmpty { throw .undecodable.with(detail: "the picture is empty") }
    }
}

/// The size that a picture of any size is scaled to.
///
/// ```swift
/// let tile = TargetSize(width: 256, height: 256, .fill, allowsUpscaling: true)
/// let request = ImageRequest(url).processed(by: .resize(to: tile))
/// ```
public struct TargetSize: Sendable, Hashable {
    /// A rule for pictures whose proportions differ from those of the target.
    public enum Mode: String, Sendable, Hashable, CaseIterable {
        /// The largest size that fits into the target, with the picture's proportions.
        case fit
        /// The smallest size that covers the target, with the picture's proportions. Nothing is cropped.
        case fill
        /// Exactly the target, whatever the picture's proportions.
        case stretch
    }

    /// The target, in pixels, or in ``points`` of the display.
    public var size: PixelSize
    /// The rule for pictures of other proportions.
    public var mode: Mode
    /// Whether pictures smaller than the target are enlarged.
    public var allowsUpscaling: Bool
    var isInPoints = false

    /// Creates a target size in pixels. By default pictures are scaled to fit into it and are never enlarged.
    public init(_ size: PixelSize, _ mode: Mode = .fit, allowsUpscaling: Bool = false) {
        self.size = size
        self.mode = mode
        self.allowsUpscaling = allowsUpscaling
    }

    /// Creates a target size from a width and a height in pixels, like ``init(_:_:allowsUpscaling:)``.
    public init(width: Int, height: Int, _ mode: Mode = .fit, allowsUpscaling: Bool = false) {
        self.init(PixelSize(width: width, height: height), mode, allowsUpscaling: allowsUpscaling)
    }

    /// This target with its size in points of the display, which the scale of the request or the picture multiplies:
    /// `TargetSize(width: 64, height: 64).points`.
    public var points: TargetSize {
        var target = self
        target.isInPoints = true
        return target
    }

    /// Returns this target in pixels, for a display with a number of pixels for each point.
    public func pixels(at scale: Double) -> TargetSize {
        isInPoints ? TargetSize(size.scaled(by: scale), mode, allowsUpscaling: allowsUpscaling) : self
    }

    /// Returns the size that a picture of a given size is scaled to: at least one pixel in each direction. Decoders and
    /// processors refuse a target without pixels, by `DipperError.processingFailed`. Points count as pixels here; see
    /// ``pixels(at:)``.
    ///
    /// ```swift
    /// let target = TargetSize(width: 400, height: 300)
    /// let size = target.size(for: PixelSize(width: 1600, height: 900))             // 400x225
    /// ```
    public func size(for picture: PixelSize) -> PixelSize {
        guard !picture.isEmpty else { return picture }
        let x = Double(size.width) / Double(picture.width)
        let y = Double(size.height) / Double(picture.height)
        let (scaleX, scaleY): (Double, Double) =
            switch mode {
            case .fit: (min(x, y), min(x, y))
            case .fill: (max(x, y), max(x, y))
            case .stretch: (x, y)
            }
        func scaled(_ length: Int, _ scale: Double) -> Int {
            // mutant ProcessorRule: `ited = allowsUpscaling ? scale : min(1, scale)` => `ited = scale`
            let limited = allowsUpscaling ? scale : min(1, scale)
            // No picture is this large, but a target may be.
            return Int(min(max(1, (Double(length) * limited).rounded()), 0x1p31))
        }
        return PixelSize(width: scaled(picture.width, scaleX), height: scaled(picture.height, scaleY))
    }

    /// Throws `DipperError.processingFailed` for a target without pixels, such as the size of a view before its layout.
    func check() throws(DipperError) {
        if size.isEmpty { throw .processingFailed.with(detail: "a size of \(size) pixels") }
    }
}
