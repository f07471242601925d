import CPixels

extension ImageProcessors {
    /// A processor that puts a picture into a frame of a fixed size, as views do.
    ///
    /// ```swift
    /// let cell = ImageRequest(url).processed(by: .fitting(width: 400, height: 300, .aspectFill))
    /// let page = ImageRequest(url).processed(by: .fitting(width: 800, height: 600, .aspectFit, background: .black))
    /// ```
    public struct Fitting: ImageProcessor, Hashable {
        /// The size of the frame in pixels.
        public let frame: PixelSize
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

        /// The identifier, for example `fitting(400x300,aspectFit,0.5:0.5,000000ff)`.
        public var identifier: String {
            "fitting(\(frame),\(mode.identifier),\(background.identifier)\(allowsUpscaling ? "" : ",down"))"
        }

        /// The frame as a target, for modes that scale; `nil` for other modes and for a frame without pixels.
        public var decodeTarget: TargetSize? {
            guard !frame.isEmpty else { return nil }
            return switch mode.scaling {
            case .original, .unscaled: nil
            case .scaleToFill: TargetSize(frame, .stretch, allowsUpscaling: allowsUpscaling)
            case .aspectFit: TargetSize(frame, .fit, allowsUpscaling: allowsUpscaling)
            case .aspectFill: TargetSize(frame, .fill, allowsUpscaling: allowsUpscaling)
            }
        }

        /// Returns the frame with the picture in it.
        ///
        /// With ``ContentMode/original`` there is no frame: the result is the picture on the background. A picture that
        /// has the frame's size already is returned as it is, unless the background shows through it.
        /// - Throws: `DipperError.processingFailed` if the mode uses a frame and the frame has no pixels;
        ///   `DipperError.imageTooLarge`, `DipperError.cancelled`.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            guard mode.scaling != .original else { return try image.on(background, context) }
            guard !frame.isEmpty else { throw .processingFailed.with(detail: "a frame of \(frame) pixels") }
            try context.limits.check(frame)
            try context.limits.checkMemory(frame)
            var image = image
            if let target = decodeTarget { image = try image.resized(to: target.size(for: image.size), context) }
            guard image.size != frame else { return try image.on(background, context) }
            return try framed(image, context)
        }

        private func framed(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            let (x, y) = mode.anchor.offset(of: image.size, in: frame)
            let place = PixelRect(x: x, y: y, width: image.width, height: image.height)
            guard let seen = place.clipped(to: frame) else { throw .processingFailed }
            let buffer = try PixelBuffer(frame)
            let color = background.premultiplied
            let step = max(1, Image.pixelsAtATime / frame.width)
            for row in 0..<frame.height {
                if row % step == 0 { try context.checkCancelled() }
                let to = buffer.row(row).assumingMemoryBound(to: SIMD4<UInt8>.self)
                guard row >= seen.y, row < seen.y + seen.size.height, let base = image.storage.bytes.baseAddress else {
                    to.update(repeating: color, count: frame.width)
                    continue
                }
                to.update(repeating: color, count: seen.x)
                let end = seen.x + seen.size.width
                (to + end).update(repeating: color, count: frame.width - end)
                UnsafeMutableRawPointer(to + seen.x).copyMemory(
                    from: base + (row - y) * image.rowStride + (seen.x - x) * 4, byteCount: seen.size.width * 4)
                if !image.isOpaque, color.w > 0 { (to + seen.x).layBehind(color, count: seen.size.width) }
            }
            let covers = seen.size == frame
            return buffer.image(isOpaque: color.w == 255 || (image.isOpaque && covers), scale: image.scale)
        }
    }
}

extension Image {
    /// Returns the picture with a colour behind it, or the picture itself if the colour would not be visible.
    func on(_ background: Color, _ context: ProcessingContext) throws(DipperError) -> Image {
        let color = background.premultiplied
        guard !isOpaque, color.w > 0 else { return self }
        return try edited(context, isOpaque: color.w == 255 ? true : nil) { row, _ in
            row.layBehind(color, count: width)
        }
    }
}

extension UnsafeMutablePointer {
    /// Puts a premultiplied colour behind a number of pixels.
    func layBehind(_ color: SIMD4<UInt8>, count: Int) {
        withUnsafeBytes(of: color) { color in
            guard let color = color.bindMemory(to: UInt8.self).baseAddress else { return }
            pixels_behind(UnsafeMutableRawPointer(self).assumingMemoryBound(to: UInt8.self), count, color)
        }
    }
}
