import CPixman
import Foundation

/// Turns a picture clockwise. By quarters nothing is lost; by other angles pixels are weighed in straight lines between
/// those of the picture.
public struct Rotate: ImageProcessor, Hashable {
    /// Clockwise.
    public let degrees: Double
    /// In the corners that become free, and behind what is transparent.
    public let background: Color
    /// Whether the result is so large that nothing is cut off; else it has the picture's size. By quarters it always has
    /// the size that it comes to.
    public let expands: Bool

    /// Clockwise; below 0 the other way round.
    public init(degrees: Double, background: Color = .clear, expands: Bool = true) {
        self.degrees = degrees
        self.background = background
        self.expands = expands
    }

    /// Such as `rotate(90.0,00000000)`.
    public var identifier: String { "rotate(\(degrees),\(background.identifier)\(expands ? "" : ",cut"))" }

    /// The processed picture.
    /// - Throws: `DipperError.processingFailed` for an angle that is no number; `DipperError.imageTooLarge`, also for
    ///   pictures of more than 16,384 pixels in width or height unless they are turned by quarters;
    ///   `DipperError.cancelled`.
    public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
        guard degrees.isFinite else { throw .processingFailed.with(detail: "turned by \(degrees)°") }
        // Between 0 and 360; exact.
        let rest = degrees.truncatingRemainder(dividingBy: 360)
        let angle = rest < 0 ? rest + 360 : rest
        switch angle {
        case 0, 360: return try image.on(background, context)
        case 90: return try image.turned(.right, context).on(background, context)
        case 180: return try image.turned(.down, context).on(background, context)
        case 270: return try image.turned(.left, context).on(background, context)
        default: return try turned(image, by: angle * .pi / 180, context)
        }
    }

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
        // From the result back to the picture, around both middles.
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
