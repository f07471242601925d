extension ImageProcessors {
    /// A processor that repeats a picture in a grid of small copies. All copies have the same size in whole pixels, so
    /// the result may be smaller than the picture by up to `columns − 1` pixels in width and `rows − 1` pixels in
    /// height.
    public struct Storyboard: ImageProcessor, Hashable {
        /// The number of copies side by side.
        public let columns: Int
        /// The number of copies one below the other.
        public let rows: Int

        /// Creates a processor for a grid.
        public init(columns: Int, rows: Int) {
            self.columns = columns
            self.rows = rows
        }

        /// The identifier, for example `storyboard(2x2)`.
        public var identifier: String { "storyboard(\(columns)x\(rows))" }

        /// Returns the grid, or the picture itself for one copy.
        /// - Throws: `DipperError.processingFailed` for fewer copies than 1, or more than the picture has pixels
        ///   in that direction.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            guard columns >= 1, columns <= image.width, rows >= 1, rows <= image.height else {
                throw .processingFailed.with(detail: "\(image.size) pixels")
            }
            let cell = PixelSize(width: image.width / columns, height: image.height / rows)
            guard cell != image.size else { return image }
            let size = PixelSize(width: cell.width * columns, height: cell.height * rows)
            let copy = try image.resized(to: cell, context)
            return try Image(size, scale: image.scale, isOpaque: copy.isOpaque, context) { row, y in
                for column in 0..<columns {
                    (row + column * cell.width * 4).update(from: copy.row(y % cell.height), count: cell.width * 4)
                }
            }
        }
    }

    /// A processor that lays an enlarged, translucent copy of a picture over it. The middles of both are in the same
    /// place, and the result has the picture's size.
    public struct SoulOut: ImageProcessor, Hashable {
        /// The factor by which the copy is larger than the picture, at least 1.
        public let scale: Double
        /// The opacity of the copy, 0…1.
        public let opacity: Double

        /// Creates a processor. An opacity outside 0…1 becomes the nearer bound, NaN becomes 1.
        public init(scale: Double = 1.5, opacity: Double = 0.5) {
            self.scale = scale
            self.opacity = opacity.limited(nan: 1)
        }

        /// The identifier, for example `soulout(1.5,0.5)`.
        public var identifier: String { "soulout(\(scale),\(opacity))" }

        /// Returns the picture with the copy over it.
        /// - Throws: `DipperError.processingFailed` for a scale that is below 1 or not finite.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            guard scale >= 1, scale.isFinite else { throw .processingFailed }
            // Only the visible middle of the picture is enlarged; equal cuts on both sides keep it in the middle.
            func visible(_ length: Int) -> Int { length - 2 * Int(Double(length) * (1 - 1 / scale) / 2) }
            let middle = try Crop(width: visible(image.width), height: visible(image.height)).process(image, context)
            return try Blend(Scale(by: scale).process(middle, context), opacity: opacity).process(image, context)
        }
    }
}

extension ImageProcessor where Self == ImageProcessors.Storyboard {
    /// Returns an ``ImageProcessors/Storyboard`` processor for a grid.
    public static func storyboard(columns: Int, rows: Int) -> Self { Self(columns: columns, rows: rows) }
}

extension ImageProcessor where Self == ImageProcessors.SoulOut {
    /// Returns an ``ImageProcessors/SoulOut`` processor for a copy of a scale and an opacity.
    public static func soulOut(scale: Double = 1.5, opacity: Double = 0.5) -> Self {
        Self(scale: scale, opacity: opacity)
    }
}
