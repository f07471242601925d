extension ImageProcessors {
    /// A processor that changes the size of a picture, with a three-lobed Lanczos filter on premultiplied colours. As
    /// the first processor of a request, it takes effect while the picture is decoded, as ``Downsample`` does.
    public struct Resize: ImageProcessor, Hashable {
        /// The size, how a picture of other proportions is brought to it, and whether smaller pictures are made larger.
        public let target: TargetSize

        /// Creates a processor for a target, which gives a size for pictures of any size.
        public init(to target: TargetSize) {
            self.target = target
        }

        /// Creates a processor for a size in pixels. The mode says how a picture of other proportions is brought to it.
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

        public var decodeTarget: TargetSize? { target }

        /// Returns the picture in the target's size, or the picture itself if it has that size.
        /// - Throws: `DipperError.processingFailed` for a target without pixels.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            try target.check()
            return try image.resized(to: target.size(for: image.size), context)
        }
    }

    /// A processor that brings a picture to the size in which it is displayed. As the first processor of a request, it
    /// takes effect while the picture is decoded, which takes less time and memory.
    public struct Downsample: ImageProcessor, Hashable {
        /// The size, and how a picture of other proportions is brought to it.
        public let target: TargetSize

        /// Creates a processor for a target, which gives a size for pictures of any size.
        public init(to target: TargetSize) {
            self.target = target
        }

        /// Creates a processor for a size in pixels.
        public init(width: Int, height: Int, _ mode: TargetSize.Mode = .fit) {
            self.init(to: TargetSize(PixelSize(width: width, height: height), mode))
        }

        /// The identifier, for example `downsample(400x300,fit)`.
        public var identifier: String { "downsample(\(target.identifier))" }

        public var decodeTarget: TargetSize? { target }

        /// Returns the picture in the target's size, or the picture itself if it has that size.
        /// - Throws: `DipperError.processingFailed` for a target without pixels, such as the size of a view before its
        ///   layout.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            try target.check()
            return try image.resized(to: target.size(for: image.size), context)
        }
    }

    /// A processor that changes width and height by a factor, with the filter of ``Resize``.
    public struct Scale: ImageProcessor, Hashable {
        /// The factor, which must be above 0. A factor above 1 makes the picture larger.
        public let factor: Double

        /// Creates a processor for a factor.
        public init(by factor: Double) {
            self.factor = factor
        }

        /// The identifier, for example `scale(0.5)`.
        public var identifier: String { "scale(\(factor))" }

        /// Returns the scaled picture. Its width and height are rounded to pixels, and at least 1.
        /// - Throws: `DipperError.processingFailed` for a factor that is not above 0 or not finite.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            guard factor > 0, factor.isFinite else { throw .processingFailed.with(detail: "scaled by \(factor)") }
            // No picture is this large. Without the bound, the conversion to `Int` could trap.
            func scaled(_ length: Int) -> Int { Int(min(max(1, (Double(length) * factor).rounded()), 0x1p31)) }
            let size = PixelSize(width: scaled(image.width), height: scaled(image.height))
            try context.limits.check(size)
            return try image.resized(to: size, context)
        }
    }
}

extension ImageProcessor where Self == ImageProcessors.Resize {
    /// Returns an ``ImageProcessors/Resize`` processor for a size in pixels.
    public static func resize(
        width: Int, height: Int, _ mode: TargetSize.Mode = .fit, allowsUpscaling: Bool = false
    ) -> Self {
        Self(width: width, height: height, mode, allowsUpscaling: allowsUpscaling)
    }

    /// Returns an ``ImageProcessors/Resize`` processor for a width in pixels.
    public static func resize(width: Int, allowsUpscaling: Bool = false) -> Self {
        Self(width: width, allowsUpscaling: allowsUpscaling)
    }

    /// Returns an ``ImageProcessors/Resize`` processor for a height in pixels.
    public static func resize(height: Int, allowsUpscaling: Bool = false) -> Self {
        Self(height: height, allowsUpscaling: allowsUpscaling)
    }

    /// Returns an ``ImageProcessors/Resize`` processor for a target.
    public static func resize(to target: TargetSize) -> Self { Self(to: target) }
}

extension TargetSize {
    fileprivate var identifier: String { "\(size),\(mode.rawValue)\(allowsUpscaling ? ",up" : "")" }
}

extension ImageProcessor where Self == ImageProcessors.Downsample {
    /// Returns an ``ImageProcessors/Downsample`` processor for a size in pixels.
    public static func downsample(width: Int, height: Int, _ mode: TargetSize.Mode = .fit) -> Self {
        Self(width: width, height: height, mode)
    }

    /// Returns an ``ImageProcessors/Downsample`` processor for a target.
    public static func downsample(to target: TargetSize) -> Self { Self(to: target) }
}

extension ImageProcessor where Self == ImageProcessors.Scale {
    /// Returns an ``ImageProcessors/Scale`` processor for a factor.
    public static func scale(by factor: Double) -> Self { Self(by: factor) }
}
