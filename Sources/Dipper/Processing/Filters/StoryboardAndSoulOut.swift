extension ImageProcessors {
    /// A processor that repeats a picture in a grid of small copies.
    ///
    /// All copies have the same size in whole pixels, so the result may be smaller than the picture by up to
    /// `columns − 1` pixels in width and `rows − 1` pixels in height.
    ///
    /// ```swift
    /// let four = ImageRequest(url).processed(by: .storyboard(columns: 2, rows: 2))
    /// ```
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
        /// - Throws: `DipperError.processingFailed` for a number of copies that is below 1 or above the picture's pixels
        ///   in that direction; `DipperError.imageTooLarge`, `DipperError.cancelled`.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            guard columns >= 1, columns <= image.width, rows >= 1, rows <= image.height else {
                throw .processingFailed.with(detail: "\(image.size) pixels")
            }
            let cell = PixelSize(width: image.width / columns, height: image.height / rows)
            guard cell != image.size else { return image }
            let size = PixelSize(width: cell.width * columns, height: cell.height * rows)
            try context.limits.checkMemory(size)
            let copy = try image.resized(to: cell, context)
            let buffer = try PixelBuffer(size)
            let step = max(1, Image.pixelsAtATime / size.width)
            for y in 0..<size.height {
                if y % step == 0 { try context.checkCancelled() }
                let to = buffer.row(y)
                copy.withPixels { bytes in
                    guard let base = bytes.baseAddress else { return }
                    for column in 0..<columns {
                        (to + column * cell.width * 4).copyMemory(
                            from: base + y % cell.height * copy.rowStride, byteCount: cell.width * 4)
                    }
                }
            }
            return buffer.image(isOpaque: copy.isOpaque, scale: image.scale)
        }
    }
}
