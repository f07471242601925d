import CPixels
import Foundation

extension ImageProcessors {
    /// A processor that softens a picture, as if seen through frosted glass: each pixel becomes a mean of the pixels
    /// around it, weighed with a Gaussian curve.
    ///
    /// Beyond its edges the picture continues with the pixels at the edge. Colours are premultiplied, so the colours of
    /// transparent pixels do not show. The result is within 1 of 255 of the exact filter with weights up to 3.3
    /// standard deviations.
    public struct Blur: ImageProcessor, Hashable {
        /// The standard deviation in pixels, which CSS calls the radius of a blur.
        public let sigma: Double

        /// Creates a processor for a standard deviation in pixels. A value from 0 to less than 0.2 changes nothing; a
        /// value above 10,000 counts as 10,000.
        public init(_ sigma: Double) {
            self.sigma = sigma
        }

        /// The identifier, for example `blur(10.0)`.
        public var identifier: String { "blur(\(sigma))" }

        /// Returns the blurred picture.
        /// - Throws: `DipperError.processingFailed` for a deviation that is below 0 or NaN.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            guard sigma >= 0 else { throw .processingFailed }
            guard sigma >= 0.2 else { return image }
            let plan = BlurPlan(image.size, sigma: min(sigma, 10_000))
            try context.limits.checkMemory(image.size, beside: plan.byteCount)
            let rows = try plan.rows(of: image, context)
            guard plan.halvings == 0 else {
                return try enlarge(rows, step: 1 << plan.halvings, to: image, context)
            }
            return try Image(
                image.size, scale: image.scale, isOpaque: image.isOpaque, context
            ) { row, y throws(DipperError) in
                pixels_round(row, try rows.row(y), image.width)
            }
        }

        /// Interpolates with cubic curves through four of the small picture's pixels each way.
        private func enlarge(
            _ rows: BlurRows, step: Int, to image: Image, _ context: ProcessingContext
        ) throws(DipperError) -> Image {
            let weights = (0..<step).map { Self.cubicWeights(at: Double($0) / Double(step)) }
            let table = (0..<4).flatMap { tap in weights.flatMap { [Float](repeating: $0[tap], count: 4) } }
            let between = try PixelStorage(byteCount: rows.width * 16)
            let values = between.base.assumingMemoryBound(to: Float.self)
            defer { withExtendedLifetime(between) {} }
            return try Image(
                image.size, scale: image.scale, isOpaque: image.isOpaque, context
            ) { row, y throws(DipperError) in
                let sources = try rows.rows(y / step - 1...y / step + 2)
                pixels_convolve_rows(values, sources, rows.width * 4, weights[y % step], 4)
                // The rows begin two pixels before the picture, the four pixels for the first result one before it.
                pixels_interpolate(row, values + 4, image.width, table, step)
            }
        }

        /// The weights of four pixels for a place between the second, at 0, and the third, at 1 (Keys 1981, a = −½).
        private static func cubicWeights(at t: Double) -> [Float] {
            let (square, cube) = (t * t, t * t * t)
            let weights = [
                -cube + 2 * square - t, 3 * cube - 5 * square + 2, -3 * cube + 4 * square + t, cube - square,
            ]
            return weights.map { Float($0 / 2) }
        }
    }
}

extension ImageProcessor where Self == ImageProcessors.Blur {
    /// Returns an ``ImageProcessors/Blur`` processor for a standard deviation in pixels.
    public static func blur(_ sigma: Double) -> Self { Self(sigma) }
}

/// The steps of a blur: the picture is halved several times, then weighed with a Gaussian curve of a few pixels.
///
/// Each halving weighs five pixels with 1, 4, 6, 4, 1, which is nearly a Gaussian curve of variance 1, and keeps every
/// second pixel. Variances add up: the last curve has the wanted variance minus that of all halvings, in small pixels.
struct BlurPlan {
    let size: PixelSize
    let halvings: Int
    /// The weights of the last curve: an odd number of them, which add up to 1.
    let weights: [Float]

    /// The least standard deviation, in small pixels, of a curve whose result is smooth enough to be interpolated.
    private static let narrowest = 1.8
    /// The distance beyond which weights are left out, in standard deviations.
    private static let reach = 3.3

    init(_ size: PixelSize, sigma: Double) {
        self.size = size
        var halvings = 0
        func rest(_ halvings: Int) -> Double {
            let area = pow(4, Double(halvings))
            return (sigma * sigma - (area - 1) / 3) / area
        }
        while rest(halvings + 1) >= Self.narrowest * Self.narrowest { halvings += 1 }
        self.halvings = halvings
        let deviation = rest(halvings).squareRoot()
        let radius = max(1, Int((deviation * Self.reach).rounded(.up)))
        let values = (-radius...radius).map { exp(-Double($0 * $0) / (2 * deviation * deviation)) }
        let sum = values.reduce(0, +)
        weights = values.map { Float($0 / sum) }
    }

    /// The number of a level's last pixel for a length. From two pixels further on, all pixels are alike.
    static func last(_ length: Int, halvings: Int) -> Int {
        (0..<halvings).reduce(length - 1) { last, _ in (last + 1) / 2 }
    }

    var byteCount: Int {
        // Rows of each level are half as wide as those before, so all levels take at most twice the first.
        let halved = halvings == 0 ? 0 : (size.width + 64) * (8 + BlurRows.halvedRows * 16) * 2
        let width = Self.last(size.width, halvings: halvings) + 8
        let last = (width + weights.count) * 16 * (weights.count + 8)
        return halved + last + (halvings == 0 ? 0 : 64 << halvings)
    }

    func rows(of image: Image, _ context: ProcessingContext) throws(DipperError) -> BlurRows {
        guard halvings > 0 else { return try .weighed(.widened(image, context), weights, kept: 1) }
        var rows = try BlurRows.halved(image, context)
        for _ in 1..<halvings { rows = try BlurRows.halved(rows) }
        return try .weighed(rows, weights, kept: 4)
    }
}
