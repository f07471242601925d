extension ImageProcessors {
    /// A processor that puts a picture into a frame of a fixed size, as views do.
    ///
    /// ```swift
    /// let cell = ImageRequest(url).processed(by: .fitting(width: 400, height: 300, .aspectFill))
    /// let page = ImageRequest(url).processed(by: .fitting(width: 800, height: 600, .aspectFit, background: .black))
    /// ```
    public struct Fitting: ImageProcessor, Hashable {
        /// The size of the frame, in pixels, or in ``points`` of the display.
        public let frame: PixelSize
        private var isInPoints = false
        /// The way in which the picture is put into the frame.
        public let mode: ContentMode
        /// The colour around the picture, and behind its transparent parts.
        public let background: Color
        /// Whether a picture that is smaller than the frame is made larger.
        public let allowsUpscaling: Bool

        /// Creates a processor for a frame whose size is given in pixels.
        public init(
            width: Int, height: Int, _ mode: ContentMode = .aspectFit, background: Color = .clear,
            allowsUpscaling: Bool = true
        ) {
            frame = PixelSize(width: width, height: height)
            self.mode = mode
            self.background = background
            self.allowsUpscaling = allowsUpscaling
        }

        /// This processor with a frame in points of the display: in pixels, the points times the ``Image/scale``.
        public var points: Self {
            var copy = self
            copy.isInPoints = true
            return copy
        }

        public var usesScale: Bool { isInPoints }

        /// The identifier, for example `fitting(400x300,aspectFit,0.5:0.5,000000ff)`.
        public var identifier: String {
            "fitting(\(frame)\(isInPoints ? "pt" : ""),\(mode.identifier),\(background.identifier)\(allowsUpscaling ? "" : ",down"))"
        }

        /// The frame as a target, for modes that scale; `nil` for other modes.
        public var decodeTarget: TargetSize? {
            let fit: TargetSize.Mode
            switch mode.scaling {
            case .original, .unscaled: return nil
            case .scaleToFill: fit = .stretch
            case .aspectFit: fit = .fit
            case .aspectFill: fit = .fill
            }
            let target = TargetSize(frame, fit, allowsUpscaling: allowsUpscaling)
            return isInPoints ? target.points : target
        }

        /// Returns the frame with the picture in it; with ``ContentMode/original``, the picture on the background. A
        /// picture that has the frame's size already is returned as it is, unless the background shows through it.
        /// - Throws: `DipperError.processingFailed` if the mode uses a frame and the frame has no pixels.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            guard mode.scaling != .original else { return try image.on(background, context) }
            let frame = isInPoints ? frame.scaled(by: image.scale) : frame
            guard !frame.isEmpty else { throw .processingFailed.with(detail: "a frame of \(frame) pixels") }
            try context.limits.check(frame)
            try context.limits.checkMemory(frame)
            var image = image
            if let target = decodeTarget?.pixels(at: image.scale) {
                image = try image.resized(to: target.size(for: image.size), context)
            }
            guard image.size != frame else { return try image.on(background, context) }
            let color = background.premultiplied
            let buffer = try PixelBuffer(frame)
            buffer.fill(color)
            try buffer.composite(.over, .image(image, mode.anchor), context)
            let covers = image.width >= frame.width && image.height >= frame.height
            return buffer.image(isOpaque: color.w == 255 || image.isOpaque && covers, scale: image.scale)
        }

        /// A way to put a picture into a frame of other proportions.
        public struct ContentMode: Sendable, Hashable {
            fileprivate enum Scaling: String, Hashable {
                case original, scaleToFill, aspectFit, aspectFill, unscaled
            }

            fileprivate let scaling: Scaling
            fileprivate let anchor: ImageProcessors.Anchor

            /// No frame: the picture stays as it is.
            public static let original = ContentMode(scaling: .original, anchor: .center)
            /// The picture stretched to the frame.
            public static let scaleToFill = ContentMode(scaling: .scaleToFill, anchor: .center)
            /// The picture with its proportions kept, as large as fits into the frame, with background on two sides.
            public static let aspectFit = ContentMode(scaling: .aspectFit, anchor: .center)
            /// The picture with its proportions kept, as small as covers the frame. Parts outside are cut off.
            public static let aspectFill = ContentMode(scaling: .aspectFill, anchor: .center)

            /// The picture in its own size, in the middle of the frame. Parts outside the frame are cut off.
            public static let center = unscaled(at: .center)
            /// The picture in its own size, in the middle of the upper side. Parts outside the frame are cut off.
            public static let top = unscaled(at: .top)
            /// The picture in its own size, in the middle of the lower side. Parts outside the frame are cut off.
            public static let bottom = unscaled(at: .bottom)
            /// The picture in its own size, in the middle of the left side. Parts outside the frame are cut off.
            public static let left = unscaled(at: .left)
            /// The picture in its own size, in the middle of the right side. Parts outside the frame are cut off.
            public static let right = unscaled(at: .right)
            /// The picture in its own size, in the upper left corner. Parts outside the frame are cut off.
            public static let topLeft = unscaled(at: .topLeft)
            /// The picture in its own size, in the upper right corner. Parts outside the frame are cut off.
            public static let topRight = unscaled(at: .topRight)
            /// The picture in its own size, in the lower left corner. Parts outside the frame are cut off.
            public static let bottomLeft = unscaled(at: .bottomLeft)
            /// The picture in its own size, in the lower right corner. Parts outside the frame are cut off.
            public static let bottomRight = unscaled(at: .bottomRight)

            /// Returns a mode that places the picture in its own size by an anchor. Parts outside are cut off.
            public static func unscaled(at anchor: ImageProcessors.Anchor) -> Self {
                Self(scaling: .unscaled, anchor: anchor)
            }

            /// Returns the mode with another anchor: `.aspectFill.at(.top)` cuts off only the bottom of a high picture.
            public func at(_ anchor: ImageProcessors.Anchor) -> Self { Self(scaling: scaling, anchor: anchor) }

            fileprivate var identifier: String { "\(scaling.rawValue),\(anchor.identifier)" }
        }
    }
}

extension ImageProcessor where Self == ImageProcessors.Fitting {
    /// Returns an ``ImageProcessors/Fitting`` processor for a frame whose size is given in pixels.
    public static func fitting(
        width: Int, height: Int, _ mode: ImageProcessors.Fitting.ContentMode = .aspectFit, background: Color = .clear,
        allowsUpscaling: Bool = true
    ) -> Self {
        Self(width: width, height: height, mode, background: background, allowsUpscaling: allowsUpscaling)
    }
}
