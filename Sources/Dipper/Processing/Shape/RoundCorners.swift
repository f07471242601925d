import CPixels

/// Makes corners round. Pixels on the arc keep as much as is inside it, exactly, so that there are neither steps nor
/// dark rims.
public struct RoundCorners: ImageProcessor, Hashable {
    /// Of the circle; at most so large that the arcs of one side do not overlap.
    public let radius: Length
    /// The others stay as they are.
    public let corners: Corners
    /// Behind the picture, also where it was transparent before.
    public let background: Color

    /// All corners, and nothing behind them, by default.
    public init(radius: Length, corners: Corners = .all, background: Color = .clear) {
        self.radius = radius
        self.corners = corners
        self.background = background
    }

    /// Such as `round(10.0,15,00000000)`.
    public var identifier: String { "round(\(radius.identifier),\(corners.rawValue),\(background.identifier))" }

    /// True for a radius in points.
    public var usesScale: Bool { radius.isInPoints }

    /// The processed picture.
    /// - Throws: `DipperError.processingFailed` for a radius below 0; `DipperError.imageTooLarge`,
    ///   `DipperError.cancelled`.
    public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
        let radius = try radius.pixels(in: image)
        let shape = RoundedRect(image.size, radius: radius, corners: corners)
        guard shape.radius > 0 else { return try image.on(background, context) }
        let color = background.premultiplied
        let (width, height) = (image.width, image.height)
        // The arcs are in so many rows and columns at each end.
        let (rows, columns) = (min(height, Int(shape.radius.rounded(.up))), min(width, Int(shape.radius.rounded(.up))))
        let coverage = try PixelScratch(byteCount: columns * 4)
        defer { withExtendedLifetime(coverage) {} }
        let values = coverage.base.assumingMemoryBound(to: Float.self)
        // A very small arc takes less of its pixel than can be noted.
        let isOpaque = color.w == 255 ? true : shape.radius < 0.2 ? nil : false
        return try image.edited(context, isOpaque: isOpaque) { row, y in
            let isRound = y < rows || y >= height - rows
            if isRound {
                shape.cover(y, 0..<columns, values)
                pixels_mask(row, values, columns)
                // In the middle of an odd width both arcs have a part of one column.
                let start = max(columns, width - columns)
                shape.cover(y, start..<width, values)
                pixels_mask(row + start * 4, values, width - start)
            }
            guard color.w > 0, isRound || !image.isOpaque else { return }
            row.layBehind(color, count: width)
        }
    }
}
