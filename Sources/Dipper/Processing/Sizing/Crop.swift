extension ImageProcessors {
    /// A processor that cuts a part out of a picture. To cover a size and cut off the rest, use a resizing processor
    /// first, or ``Fitting`` with `.aspectFill`:
    ///
    /// ```swift
    /// let square = ImageRequest(url)
    ///     .processed(by: .downsample(width: 200, height: 200, .fill), .crop(width: 200, height: 200))
    /// ```
    public struct Crop: ImageProcessor, Hashable {
        private enum Area: Hashable {
            case size(PixelSize, Anchor)
            case ratio(Double, Anchor)
            case rectangle(PixelRect)

            func scaled(by factor: Double) -> Area {
                switch self {
                case .size(let size, let anchor): return .size(size.scaled(by: factor), anchor)
                case .ratio: return self
                case .rectangle(let area):
                    let origin = PixelSize(width: area.x, height: area.y).scaled(by: factor)
                    let size = area.size.scaled(by: factor)
                    return .rectangle(
                        PixelRect(x: origin.width, y: origin.height, width: size.width, height: size.height))
                }
            }
        }

        private let area: Area
        private var isInPoints = false

        /// Creates a processor that crops pictures to a size in pixels. A side that is shorter already keeps its
        /// length. The anchor is the point of the picture that stays in place; the cuts on opposite sides are in
        /// proportion to it: `.center` cuts equally, `.top` only at the bottom.
        public init(width: Int, height: Int, anchor: Anchor = .center) {
            area = .size(PixelSize(width: width, height: height), anchor)
        }

        /// Creates a processor that crops pictures to a ratio of width to height, above 0. The result is the largest
        /// part with these proportions, in the picture's own resolution.
        public init(toRatio ratio: Double, anchor: Anchor = .center) {
            area = .ratio(ratio, anchor)
        }

        /// Creates a processor that crops pictures to the part of a rectangle that is inside them.
        public init(to rectangle: PixelRect) {
            area = .rectangle(rectangle)
        }

        /// This processor with its size or rectangle in points of the display: in pixels, the points times the
        /// ``Image/scale``.
        public var points: Self {
            var copy = self
            copy.isInPoints = true
            return copy
        }

        public var usesScale: Bool { isInPoints }

        /// The identifier, for example `crop(200x200,0.5:0.5)`, `crop(1.5,0.5:0.5)` or `crop(200x200+10+20)`.
        public var identifier: String {
            let unit = isInPoints ? "pt" : ""
            return switch area {
            case .size(let size, let anchor): "crop(\(size)\(unit),\(anchor.identifier))"
            case .ratio(let ratio, let anchor): "crop(\(ratio),\(anchor.identifier))"
            case .rectangle(let rectangle): "crop(\(rectangle)\(unit))"
            }
        }

        /// Returns the part of the picture, or the picture itself if nothing is cut off.
        /// - Throws: `DipperError.processingFailed` if nothing would be left, or for a ratio that is not above 0
        ///   or not finite.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            let rectangle: PixelRect? =
                switch isInPoints ? area.scaled(by: image.scale) : area {
                case .rectangle(let rectangle):
                    rectangle.overlap(PixelRect(x: 0, y: 0, width: image.width, height: image.height))
                case .size(let size, let anchor): Self.rectangle(of: size, anchor, in: image.size)
                case .ratio(let ratio, let anchor):
                    Self.rectangle(of: Self.size(of: ratio, in: image.size), anchor, in: image.size)
                }
            guard let rectangle else { throw .processingFailed.with(detail: "nothing is left of \(image.size)") }
            return try image.part(rectangle, context)
        }

        /// The largest part with a ratio, at least one pixel in each direction; empty for an invalid ratio.
        private static func size(of ratio: Double, in picture: PixelSize) -> PixelSize {
            guard ratio > 0, ratio.isFinite else { return PixelSize(width: 0, height: 0) }
            func length(_ wanted: Double, _ limit: Int) -> Int { Int(min(max(1, wanted.rounded()), Double(limit))) }
            return PixelSize(
                width: length(Double(picture.height) * ratio, picture.width),
                height: length(Double(picture.width) / ratio, picture.height))
        }

        private static func rectangle(of size: PixelSize, _ anchor: Anchor, in picture: PixelSize) -> PixelRect? {
            guard !size.isEmpty else { return nil }
            let size = PixelSize(width: min(size.width, picture.width), height: min(size.height, picture.height))
            let (x, y) = anchor.offset(of: size, in: picture)
            return PixelRect(x: x, y: y, width: size.width, height: size.height)
        }
    }

    /// A point of a picture, as fractions of its width and height: (0, 0) is the top left, (1, 1) the bottom right. When a
    /// picture is placed in a frame by an anchor, this point of the picture lies on the same point of the frame.
    public struct Anchor: Sendable, Hashable {
        /// The horizontal position, from 0 at the left to 1 at the right.
        public let x: Double
        /// The vertical position, from 0 at the top to 1 at the bottom.
        public let y: Double

        /// Creates an anchor. A value outside 0…1 becomes the nearer bound; NaN becomes 0.5.
        public init(x: Double, y: Double) {
            self.x = x.limited(nan: 0.5)
            self.y = y.limited(nan: 0.5)
        }

        /// The top left corner, (0, 0).
        public static let topLeft = Anchor(x: 0, y: 0)
        /// The middle of the upper side, (½, 0).
        public static let top = Anchor(x: 0.5, y: 0)
        /// The top right corner, (1, 0).
        public static let topRight = Anchor(x: 1, y: 0)
        /// The middle of the left side, (0, ½).
        public static let left = Anchor(x: 0, y: 0.5)
        /// The middle, (½, ½).
        public static let center = Anchor(x: 0.5, y: 0.5)
        /// The middle of the right side, (1, ½).
        public static let right = Anchor(x: 1, y: 0.5)
        /// The bottom left corner, (0, 1).
        public static let bottomLeft = Anchor(x: 0, y: 1)
        /// The middle of the lower side, (½, 1).
        public static let bottom = Anchor(x: 0.5, y: 1)
        /// The bottom right corner, (1, 1).
        public static let bottomRight = Anchor(x: 1, y: 1)

        var identifier: String { "\(x):\(y)" }

        /// The position of the inner rectangle's top left in the outer one, in pixels; below 0 if the inner one is larger.
        func offset(of inner: PixelSize, in outer: PixelSize) -> (x: Int, y: Int) {
            func offset(_ room: Int, _ part: Double) -> Int { Int((Double(room) * part).rounded(.down)) }
            return (offset(outer.width - inner.width, x), offset(outer.height - inner.height, y))
        }
    }
}

extension ImageProcessor where Self == ImageProcessors.Crop {
    /// Returns an ``ImageProcessors/Crop`` processor for a size in pixels.
    public static func crop(width: Int, height: Int, anchor: ImageProcessors.Anchor = .center) -> Self {
        Self(width: width, height: height, anchor: anchor)
    }

    /// Returns an ``ImageProcessors/Crop`` processor for proportions: the width divided by the height.
    public static func crop(toRatio ratio: Double, anchor: ImageProcessors.Anchor = .center) -> Self {
        Self(toRatio: ratio, anchor: anchor)
    }

    /// Returns an ``ImageProcessors/Crop`` processor for a rectangle.
    public static func crop(to rectangle: PixelRect) -> Self { Self(to: rectangle) }
}

/// A rectangle of pixels.
public struct PixelRect: Sendable, Hashable, CustomStringConvertible {
    /// The position of the top left pixel from the left.
    public var x: Int
    /// The position of the top left pixel from the top.
    public var y: Int
    /// The width and height in pixels.
    public var size: PixelSize

    /// Creates a rectangle from the position of its top left pixel, its width and its height.
    public init(x: Int, y: Int, width: Int, height: Int) {
        self.x = x
        self.y = y
        size = PixelSize(width: width, height: height)
    }

    /// The rectangle as text, for example `400x300+20-10`.
    public var description: String {
        func signed(_ value: Int) -> String { value < 0 ? "\(value)" : "+\(value)" }
        return "\(size)\(signed(x))\(signed(y))"
    }

    /// `nil` if the rectangles have no pixel in common.
    func overlap(_ other: PixelRect) -> PixelRect? {
        func range(_ start: Int, _ length: Int) -> Range<Int> {
            let (end, overflows) = start.addingReportingOverflow(max(0, length))
            return start..<(overflows ? .max : end)
        }
        let columns = range(x, size.width).clamped(to: range(other.x, other.size.width))
        let rows = range(y, size.height).clamped(to: range(other.y, other.size.height))
        guard !columns.isEmpty, !rows.isEmpty else { return nil }
        return PixelRect(x: columns.lowerBound, y: rows.lowerBound, width: columns.count, height: rows.count)
    }
}
