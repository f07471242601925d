import CPixman
import Foundation

extension ImageProcessors {
    /// A processor that turns a picture clockwise. Multiples of 90° lose nothing. For other angles pixels are
    /// interpolated bilinearly.
    public struct Rotate: ImageProcessor, Hashable {
        /// The angle in degrees, clockwise.
        public let degrees: Double
        /// The colour of the corners that become free, and behind transparent parts of the picture.
        public let background: Color
        /// Whether the result is large enough to hold the whole turned picture; otherwise the result has the picture's
        /// size. After a turn by a multiple of 90° the result always holds the whole picture.
        public let expands: Bool

        /// Creates a processor for an angle in degrees. An angle below 0 turns pictures anticlockwise.
        public init(degrees: Double, background: Color = .clear, expands: Bool = true) {
            self.degrees = degrees
            self.background = background
            self.expands = expands
        }

        /// The identifier, for example `rotate(90.0,00000000)`.
        public var identifier: String { "rotate(\(degrees),\(background.identifier)\(expands ? "" : ",cut"))" }

        /// Returns the turned picture.
        /// - Throws: `DipperError.processingFailed` for an angle that is not finite; `DipperError.imageTooLarge`
        ///   for more than 16,384 pixels in width or height, unless the angle is a multiple of 90°.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            guard degrees.isFinite else { throw .processingFailed.with(detail: "turned by \(degrees)°") }
            // The angle is from 0 to 360. The remainder is exact, so that multiples of 90° are found.
            let rest = degrees.truncatingRemainder(dividingBy: 360)
            let angle = rest < 0 ? rest + 360 : rest
            guard let orientation = Self.quarters[angle] else {
                return try turned(image, by: angle * .pi / 180, context)
            }
            return try image.turned(orientation, context).on(background, context)
        }

        // An angle just below 0 is rounded to 360.
        private static let quarters: [Double: Image.Orientation] = [
            0: .up, 90: .right, 180: .down, 270: .left, 360: .up,
        ]

        private func turned(
            _ image: Image, by angle: Double, _ context: ProcessingContext
        ) throws(DipperError) -> Image {
            let (cosine, sine) = (cos(angle), sin(angle))
            let (width, height) = (Double(image.width), Double(image.height))
            guard max(image.width, image.height) <= PixmanImage.longestSide else {
                throw .imageTooLarge.with(detail: "\(image.size) pixels, to be turned")
            }
            var size = image.size
            if expands {
                func length(_ a: Double, _ b: Double) -> Int { Int((abs(a) + abs(b) - 1e-6).rounded(.up)) }
                size = PixelSize(
                    width: max(1, length(width * cosine, height * sine)),
                    height: max(1, length(width * sine, height * cosine)))
            }
            try context.limits.check(size)
            try context.limits.checkMemory(size)
            let (x, y) = (Double(size.width) / 2, Double(size.height) / 2)
            var transform = pixman_f_transform()
            transform.m = (
                (cosine, sine, width / 2 - cosine * x - sine * y),
                (-sine, cosine, height / 2 + sine * x - cosine * y),
                (0, 0, 1)
            )
            let buffer = try PixelBuffer(size)
            buffer.fill(background.premultiplied)
            try buffer.composite(image, through: transform, context)
            return buffer.settled(scale: image.scale)
        }
    }

    /// A processor that mirrors a picture without loss.
    public enum Flip: String, ImageProcessor, Hashable, CaseIterable {
        /// A flip that exchanges left and right.
        case horizontal
        /// A flip that exchanges top and bottom.
        case vertical

        /// The identifier, for example `flip(horizontal)`.
        public var identifier: String { "flip(\(rawValue))" }

        /// Returns the mirrored picture.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            try image.turned(self == .horizontal ? .upMirrored : .downMirrored, context)
        }
    }
}

extension ImageProcessor where Self == ImageProcessors.Rotate {
    /// Returns an ``ImageProcessors/Rotate`` processor that turns pictures clockwise.
    public static func rotate(degrees: Double, background: Color = .clear, expands: Bool = true) -> Self {
        Self(degrees: degrees, background: background, expands: expands)
    }
}

extension ImageProcessor where Self == ImageProcessors.Flip {
    /// Returns an ``ImageProcessors/Flip`` processor: `.flip(.horizontal)` or `.flip(.vertical)`.
    public static func flip(_ flip: ImageProcessors.Flip) -> Self { flip }
}
