import CPixels

extension ImageProcessors {
    /// A processor that draws a line along the inside of a picture's edges.
    ///
    /// After ``RoundedCorners`` with the same radius and corners, the line follows the arcs:
    ///
    /// ```swift
    /// let request = ImageRequest(url)
    ///     .processed(by: .roundedCorners(radius: 20))
    ///     .processed(by: .border(.black, width: 4, radius: 20))
    /// ```
    public struct Border: ImageProcessor, Hashable {
        /// The colour of the line, which is drawn over the picture.
        public let color: Color
        /// The width of the line, from the edge inwards.
        public let width: Length
        /// The radius of the line's outer edge at the corners, limited as in ``RoundedCorners``.
        public let radius: Length
        /// The corners that are round.
        public let corners: Corners

        /// Creates a processor that by default draws the line along a rectangle.
        public init(_ color: Color, width: Length, radius: Length = 0, corners: Corners = .all) {
            self.color = color
            self.width = width
            self.radius = radius
            self.corners = corners
        }

        /// The identifier, for example `border(000000ff,4.0,20.0,15)`.
        public var identifier: String {
            "border(\(color.identifier),\(width.identifier),\(radius.identifier),\(corners.rawValue))"
        }

        /// Whether the width or the radius is in points.
        public var usesScale: Bool { width.isInPoints || radius.isInPoints }

        /// Returns the picture with the line.
        /// - Throws: `DipperError.processingFailed` for a length that is below 0 or NaN; `DipperError.imageTooLarge`,
        ///   `DipperError.cancelled`.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            let (line, radius) = (try width.pixels(in: image), try radius.pixels(in: image))
            guard line > 0, color.alpha > 0 else { return image }
            let outer = RoundedRect(image.size, radius: radius, corners: corners)
            let inner = RoundedRect(image.size, radius: radius, corners: corners, inset: line)
            let size = image.size
            let margin = max(outer.margin(of: size.width), inner.margin(of: size.width))
            let scratch = try PixelScratch(byteCount: margin * 2 * 4 * 2)
            defer { withExtendedLifetime(scratch) {} }
            let outerParts = scratch.base.assumingMemoryBound(to: Float.self)
            let innerParts = outerParts + margin * 2
            let premultiplied = [color.red, color.green, color.blue, 1].map { Float($0 * color.alpha * 255) }
            return try image.edited(context, isOpaque: image.isOpaque ? true : nil) { row, y in
                func draw(_ columns: Range<Int>) {
                    guard !columns.isEmpty else { return }
                    outer.cover(y, columns, outerParts)
                    inner.cover(y, columns, innerParts)
                    pixels_ring(row + columns.lowerBound * 4, outerParts, innerParts, columns.count, premultiplied)
                }
                let end = max(margin, size.width - margin)
                draw(0..<margin)
                draw(end..<size.width)
                guard margin < end else { return }
                // All columns between the margins are alike.
                outer.cover(y, margin..<margin + 1, outerParts)
                inner.cover(y, margin..<margin + 1, innerParts)
                guard outerParts[0] > innerParts[0] else { return }
                for start in stride(from: margin, to: end, by: margin) {
                    let count = min(margin, end - start)
                    outerParts.update(repeating: outerParts[0], count: count)
                    innerParts.update(repeating: innerParts[0], count: count)
                    pixels_ring(row + start * 4, outerParts, innerParts, count, premultiplied)
                }
            }
        }
    }
}
