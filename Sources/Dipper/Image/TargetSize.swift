/// The size a picture is wanted in, for pictures of any size.
public struct TargetSize: Sendable, Hashable {
    /// How a picture of other proportions is brought to the target.
    public enum Mode: String, Sendable, Hashable, CaseIterable {
        /// Proportions kept; as large as fits into the target.
        case fit
        /// Proportions kept; as small as covers the target. What stands out is not cut off.
        case fill
        /// Exactly the target.
        case stretch
    }

    /// In pixels.
    public var size: PixelSize
    /// What becomes of pictures of other proportions.
    public var mode: Mode
    /// Whether smaller pictures are made larger.
    public var allowsUpscaling: Bool

    /// A target in pixels, that pictures fit into and do not grow to, by default.
    public init(_ size: PixelSize, _ mode: Mode = .fit, allowsUpscaling: Bool = false) {
        self.size = size
        self.mode = mode
        self.allowsUpscaling = allowsUpscaling
    }

    /// The size that a picture gets: at least one pixel each way.
    public func size(for picture: PixelSize) -> PixelSize {
        guard !picture.isEmpty, !size.isEmpty else { return picture }
        let x = Double(size.width) / Double(picture.width)
        let y = Double(size.height) / Double(picture.height)
        let (scaleX, scaleY): (Double, Double) =
            switch mode {
            case .fit: (min(x, y), min(x, y))
            case .fill: (max(x, y), max(x, y))
            case .stretch: (x, y)
            }
        func scaled(_ length: Int, _ scale: Double) -> Int {
            let limited = allowsUpscaling ? scale : min(1, scale)
            // No picture is as large; a target may be.
            return Int(min(max(1, (Double(length) * limited).rounded()), 0x1p31))
        }
        return PixelSize(width: scaled(picture.width, scaleX), height: scaled(picture.height, scaleY))
    }
}
