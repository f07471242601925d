import CPixels

extension ImageProcessors {
    /// A processor that makes the corners of a picture round. A pixel on the arc keeps exactly the share of it that is
    /// inside, so the arc has neither steps nor a dark rim.
    public struct RoundedCorners: ImageProcessor, Hashable {
        /// The radius of the arcs, limited so that the arcs of one side do not overlap.
        public let radius: Length
        /// The corners that become round. The other corners stay as they are.
        public let corners: Corners
        /// The colour behind the picture, also behind parts that were transparent before.
        public let background: Color

        /// Creates a processor, by default for all corners and with a transparent background.
        public init(radius: Length, corners: Corners = .all, background: Color = .clear) {
            self.radius = radius
            self.corners = corners
            self.background = background
        }

        /// The identifier, for example `round(10.0,15,00000000)`.
        public var identifier: String { "round(\(radius.identifier),\(corners.rawValue),\(background.identifier))" }

        public var usesScale: Bool { radius.isInPoints }

        /// Returns the picture with round corners.
        /// - Throws: `DipperError.processingFailed` for a radius that is below 0 or NaN.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            let radius = try radius.pixels(in: image)
            let shape = RoundedRect(image.size, radius: radius, corners: corners)
            guard shape.radius > 0 else { return try image.on(background, context) }
            let color = background.premultiplied
            let (width, height) = (image.width, image.height)
            let ends = shape.ends(shape.margin)
            let coverage = try PixelStorage(byteCount: width * 4)
            defer { withExtendedLifetime(coverage) {} }
            let values = coverage.base.assumingMemoryBound(to: Float.self)
            // A very small arc may remove too little of its pixel to change the alpha.
            let isOpaque = color.w == 255 ? true : shape.radius < 0.2 ? nil : false
            return try image.edited(context, isOpaque: isOpaque) { row, y in
                let isRound = y < shape.margin || y >= height - shape.margin
                for columns in isRound ? ends : [] {
                    shape.cover(y, columns, values)
                    pixels_mask(row + columns.lowerBound * 4, values, columns.count)
                }
                guard color.w > 0, isRound || !image.isOpaque else { return }
                row.layBehind(color, count: width)
            }
        }
    }

    /// A processor that cuts the largest circle out of the middle of a picture. The result is square.
    public struct Circle: ImageProcessor, Hashable {
        /// The colour behind the circle.
        public let background: Color

        /// Creates a processor, by default with a transparent background.
        public init(background: Color = .clear) {
            self.background = background
        }

        /// The identifier, for example `circle(00000000)`.
        public var identifier: String { "circle(\(background.identifier))" }

        /// Returns the circle on the background.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            let side = min(image.width, image.height)
            let square = try Crop(width: side, height: side).process(image, context)
            return try RoundedCorners(radius: .fractionOfWidth(0.5), background: background).process(square, context)
        }
    }

    /// A set of corners of a picture.
    public struct Corners: OptionSet, Sendable, Hashable {
        /// A bit for each corner.
        public let rawValue: Int

        /// Creates a set from the four lowest bits. Other bits are left out.
        public init(rawValue: Int) {
            self.rawValue = rawValue & 15
        }

        /// The top left corner.
        public static let topLeft = Corners(rawValue: 1)
        /// The top right corner.
        public static let topRight = Corners(rawValue: 2)
        /// The bottom left corner.
        public static let bottomLeft = Corners(rawValue: 4)
        /// The bottom right corner.
        public static let bottomRight = Corners(rawValue: 8)
        /// The two upper corners.
        public static let top: Corners = [.topLeft, .topRight]
        /// The two lower corners.
        public static let bottom: Corners = [.bottomLeft, .bottomRight]
        /// The two corners on the left.
        public static let left: Corners = [.topLeft, .bottomLeft]
        /// The two corners on the right.
        public static let right: Corners = [.topRight, .bottomRight]
        /// All four corners.
        public static let all: Corners = [.top, .bottom]
    }
}

extension ImageProcessor where Self == ImageProcessors.RoundedCorners {
    /// Returns an ``ImageProcessors/RoundedCorners`` processor.
    public static func roundedCorners(
        radius: ImageProcessors.Length, corners: ImageProcessors.Corners = .all, background: Color = .clear
    ) -> Self {
        Self(radius: radius, corners: corners, background: background)
    }
}

extension ImageProcessor where Self == ImageProcessors.Circle {
    /// An ``ImageProcessors/Circle`` processor with a transparent background.
    public static var circle: Self { Self() }
    /// Returns an ``ImageProcessors/Circle`` processor with a background colour.
    public static func circle(background: Color) -> Self { Self(background: background) }
}
