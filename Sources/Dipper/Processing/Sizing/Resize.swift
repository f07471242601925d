extension ImageProcessors {
    /// A processor that changes the size of a picture, with a three-lobed Lanczos filter on premultiplied colours. As
    /// the first processor of a request, it takes effect while the picture is decoded, which takes less time and memory.
    ///
    /// ```swift
    /// let page = ImageRequest(url).processed(by: .resize(width: 800, height: 600))           // also enlarges
    /// let cell = ImageRequest(url).processed(by: .downsample(width: 200, height: 150))       // never enlarges
    /// let sharp = ImageRequest(url).with(\.scale, 2).processed(by: .downsample(width: 200, height: 150).points)
    /// ```
    public struct Resize: ImageProcessor, Hashable {
        /// The size, how a picture of other proportions is brought to it, and whether smaller pictures are made larger.
        public let target: TargetSize

        /// Creates a processor for a target, which gives a size for pictures of any size.
        public init(to target: TargetSize) {
            self.target = target
        }

        /// Creates a processor for a size in pixels. The mode says how a picture of other proportions is brought to it.
        public init(width: Int, height: Int, _ mode: TargetSize.Mode = .fit, allowsUpscaling: Bool = true) {
            self.init(to: TargetSize(width: width, height: height, mode, allowsUpscaling: allowsUpscaling))
        }

        /// This processor with its size in points of the display: in pixels, the points times the ``Image/scale``, which
        /// is that of the request.
        public var points: Self { Self(to: target.points) }

        /// The identifier, for example `resize(400x300,fit)`.
        public var identifier: String { "resize(\(target.identifier))" }

        public var decodeTarget: TargetSize? { target }
        public var usesScale: Bool { target.isInPoints }

        /// Returns the picture in the target's size, or the picture itself if it has that size.
        /// - Throws: `DipperError.processingFailed` for a target without pixels, such as the size of a view before its
        ///   layout.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            let target = target.pixels(at: image.scale)
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
    /// Returns an ``ImageProcessors/Resize`` processor for a size in pixels, to which smaller pictures are enlarged.
    public static func resize(width: Int, height: Int, _ mode: TargetSize.Mode = .fit) -> Self {
        Self(width: width, height: height, mode)
    }

    /// Returns an ``ImageProcessors/Resize`` processor for a width in pixels. The height follows from the proportions.
    public static func resize(width: Int) -> Self { resize(width: width, height: .max) }

    /// Returns an ``ImageProcessors/Resize`` processor for a height in pixels. The width follows from the proportions.
    public static func resize(height: Int) -> Self { resize(width: .max, height: height) }

    /// Returns an ``ImageProcessors/Resize`` processor for a target, which says whether smaller pictures are enlarged.
    public static func resize(to target: TargetSize) -> Self { Self(to: target) }

    /// Returns an ``ImageProcessors/Resize`` processor for a size in pixels that leaves smaller pictures as they are.
    public static func downsample(width: Int, height: Int, _ mode: TargetSize.Mode = .fit) -> Self {
        Self(width: width, height: height, mode, allowsUpscaling: false)
    }

    /// Returns an ``ImageProcessors/Resize`` processor for a width in pixels that leaves narrower pictures as they are.
    public static func downsample(width: Int) -> Self { downsample(width: width, height: .max) }

    /// Returns an ``ImageProcessors/Resize`` processor for a height in pixels that leaves lower pictures as they are.
    public static func downsample(height: Int) -> Self { downsample(width: .max, height: height) }
}

extension TargetSize {
    fileprivate var identifier: String {
        "\(size)\(isInPoints ? "pt" : ""),\(mode.rawValue)\(allowsUpscaling ? ",up" : "")"
    }
}

extension ImageProcessor where Self == ImageProcessors.Scale {
    /// Returns an ``ImageProcessors/Scale`` processor for a factor.
    public static func scale(by factor: Double) -> Self { Self(by: factor) }
}
