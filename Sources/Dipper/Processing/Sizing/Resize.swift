extension ImageProcessors {
    /// A processor that changes the size of a picture, with a three-lobed Lanczos filter on premultiplied colours.
    ///
    /// `Resize` always works on the decoded picture. ``Downsample`` decodes to the size at once where it can.
    ///
    /// ```swift
    /// let banner = ImageRequest(url).processed(by: .resize(width: 1200))
    /// ```
    public struct Resize: ImageProcessor, Hashable {
        /// The size, how a picture of other proportions is brought to it, and whether smaller pictures are made larger.
        public let target: TargetSize

        /// Creates a processor for a target, which gives a size for pictures of any size.
        public init(to target: TargetSize) {
            self.target = target
        }

        /// Creates a processor for a size in pixels.
        /// - Parameters:
        ///   - width: the width in pixels.
        ///   - height: the height in pixels.
        ///   - mode: how a picture of other proportions is brought to the size.
        ///   - allowsUpscaling: whether smaller pictures are made larger.
        public init(width: Int, height: Int, _ mode: TargetSize.Mode = .fit, allowsUpscaling: Bool = false) {
            self.init(to: TargetSize(PixelSize(width: width, height: height), mode, allowsUpscaling: allowsUpscaling))
        }

        /// Creates a processor for a width in pixels. The height follows from the picture's proportions.
        public init(width: Int, allowsUpscaling: Bool = false) {
            self.init(width: width, height: .max, allowsUpscaling: allowsUpscaling)
        }

        /// Creates a processor for a height in pixels. The width follows from the picture's proportions.
        public init(height: Int, allowsUpscaling: Bool = false) {
            self.init(width: .max, height: height, allowsUpscaling: allowsUpscaling)
        }

        /// The identifier, for example `resize(400x300,fit)`.
        public var identifier: String { "resize(\(target.identifier))" }

        /// Returns the picture in the target's size, or the picture itself if it has that size or the target has no
        /// pixels.
        /// - Throws: `DipperError.imageTooLarge`, `DipperError.cancelled`.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            try image.resized(to: target.size(for: image.size), context)
        }
    }
}

extension TargetSize {
    /// The identifier, for example `400x300,fill,up`.
    var identifier: String { "\(size),\(mode.rawValue)\(allowsUpscaling ? ",up" : "")" }
}
