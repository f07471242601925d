/// Changes the size of a picture: Lanczos with three lobes on premultiplied colours.
///
/// The work is always done on the picture that comes. ``Downsample`` decodes to the size at once where it can.
public struct Resize: ImageProcessor, Hashable {
    /// The size, how other proportions are brought to it, and whether smaller pictures grow.
    public let target: TargetSize

    /// To a size for pictures of any size.
    public init(to target: TargetSize) {
        self.target = target
    }

    /// To a size in pixels.
    /// - Parameters:
    ///   - width: in pixels.
    ///   - height: in pixels.
    ///   - mode: what becomes of other proportions.
    ///   - allowsUpscaling: whether smaller pictures are made larger.
    public init(width: Int, height: Int, _ mode: TargetSize.Mode = .fit, allowsUpscaling: Bool = false) {
        self.init(to: TargetSize(PixelSize(width: width, height: height), mode, allowsUpscaling: allowsUpscaling))
    }

    /// To a width in pixels; the height follows.
    public init(width: Int, allowsUpscaling: Bool = false) {
        self.init(width: width, height: .max, allowsUpscaling: allowsUpscaling)
    }

    /// To a height in pixels; the width follows.
    public init(height: Int, allowsUpscaling: Bool = false) {
        self.init(width: .max, height: height, allowsUpscaling: allowsUpscaling)
    }

    /// Such as `resize(400x300,fit)`.
    public var identifier: String { "resize(\(target.identifier))" }

    /// A picture that has the size already is given back as it is, as are all for a target without pixels.
    /// - Throws: `DipperError.imageTooLarge`, `DipperError.cancelled`.
    public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
        try image.resized(to: target.size(for: image.size), context)
    }
}

extension TargetSize {
    /// Such as `400x300,fill,up`.
    var identifier: String { "\(size),\(mode.rawValue)\(allowsUpscaling ? ",up" : "")" }
}
