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

        public var usesScale: Bool { width.isInPoints || radius.isInPoints }

        /// Returns the picture with the line.
        /// - Throws: `DipperError.processingFailed` for a length that is below 0 or NaN.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            let (line, radius) = (try width.pixels(in: image), try radius.pixels(in: image))
            guard line > 0, color.alpha > 0 else { return image }
            let outer = RoundedRect(image.size, radius: radius, corners: corners)
            let inner = RoundedRect(image.size, radius: radius, corners: corners, inset: line)
            let size = image.size
            // Between the margins the shapes are alike: nothing is drawn there.
            let margin = max(outer.margin, inner.margin)
            let ends = outer.ends(margin)
            let scratch = try PixelStorage(byteCount: size.width * 4 * 2)
            defer { withExtendedLifetime(scratch) {} }
            let outerParts = scratch.base.assumingMemoryBound(to: Float.self)
            let innerParts = outerParts + size.width
            let premultiplied = [color.red, color.green, color.blue, 1].map { Float($0 * color.alpha * 255) }
            return try image.edited(context, isOpaque: image.isOpaque ? true : nil) { row, y in
                let isBetween = y >= margin && y < size.height - margin
                for columns in isBetween ? ends : [0..<size.width] {
                    outer.cover(y, columns, outerParts)
                    inner.cover(y, columns, innerParts)
                    pixels_ring(row + columns.lowerBound * 4, outerParts, innerParts, columns.count, premultiplied)
                }
            }
        }
    }

    /// A length in a picture. A number literal means pixels.
    public enum Length: Sendable, Hashable, ExpressibleByFloatLiteral, ExpressibleByIntegerLiteral {
        /// A length in pixels of the picture.
        case pixels(Double)
        /// A length in points of the display. Multiplied by ``Image/scale`` it is the length in pixels.
        case points(Double)
        /// A fraction of the picture's width.
        case fractionOfWidth(Double)
        /// A fraction of the picture's height.
        case fractionOfHeight(Double)

        /// Creates a length in pixels from a floating-point literal.
        public init(floatLiteral value: Double) { self = .pixels(value) }
        /// Creates a length in pixels from an integer literal.
        public init(integerLiteral value: Int) { self = .pixels(Double(value)) }

        var identifier: String {
            switch self {
            case .pixels(let value): "\(value)"
            case .points(let value): "\(value)pt"
            case .fractionOfWidth(let value): "\(value)w"
            case .fractionOfHeight(let value): "\(value)h"
            }
        }

        var isInPoints: Bool {
            if case .points = self { true } else { false }
        }

        /// At most 2³¹, which no picture reaches. Throws `DipperError.processingFailed` if the length is below 0 or NaN.
        func pixels(in image: Image) throws(DipperError) -> Double {
            let length =
                switch self {
                case .pixels(let value): value
                case .points(let value): value * image.scale
                case .fractionOfWidth(let value): value * Double(image.width)
                case .fractionOfHeight(let value): value * Double(image.height)
                }
            guard length >= 0 else { throw .processingFailed.with(detail: "a length of \(identifier)") }
            return min(length, 0x1p31)
        }
    }
}

extension ImageProcessor where Self == ImageProcessors.Border {
    /// Returns an ``ImageProcessors/Border`` processor.
    public static func border(
        _ color: Color, width: ImageProcessors.Length, radius: ImageProcessors.Length = 0,
        corners: ImageProcessors.Corners = .all
    ) -> Self {
        Self(color, width: width, radius: radius, corners: corners)
    }
}
